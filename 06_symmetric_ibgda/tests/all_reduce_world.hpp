#pragma once
/// @file all_reduce_world.hpp
/// Ranks on pretend nodes for the tests of AllReduce, with data whose sum an oracle in double
/// knows.

#include <rungs/bootstrap/group.hpp>
#include <rungs/core/error.hpp>
#include <rungs/gpu/buffer.hpp>
#include <rungs/gpu/stream.hpp>
#include <rungs/symmetric/all_reduce.hpp>
#include <rungs/symmetric/context.hpp>
#include <rungs/testing/compare.hpp>
#include <rungs/testing/ranks.hpp>

#include "../../04_collectives_ring_tree/tests/world.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace rungs::symmetric::all_reduce_test {

/// Nodes, each of so many ranks, in this order of ranks: "aabb" is two nodes of two.
struct World {
  std::string hosts;
  Network network = Network::kGpuInitiated;
  std::size_t max_count = 40'000;
  double timeout_seconds = 20;

  [[nodiscard]] int ranks() const { return static_cast<int>(hosts.size()); }
  [[nodiscard]] int nodes() const {
    std::string sorted = hosts;
    std::sort(sorted.begin(), sorted.end());
    return static_cast<int>(std::unique(sorted.begin(), sorted.end()) - sorted.begin());
  }
  [[nodiscard]] std::string host_of(int rank) const {
    return concat("test host ", hosts[static_cast<std::size_t>(rank)]);
  }
};

inline ContextOptions context_options(const World& world) {
  ContextOptions options;
  options.heap_bytes = AllReduce::heap_bytes(world.max_count, world.ranks(), world.nodes()) + 65536;
  options.network = world.network;
  options.timeout_seconds = world.timeout_seconds;
  return options;
}

inline constexpr std::size_t kGuard = 64;  // poisoned elements on both sides of the data

/// One rank. All memory is allocated before the first call: ranks may share a GPU.
struct Rank {
  Rank(bootstrap::Group& its_group, const World& world)
      : group(its_group),
        device(gpu::Device::open(group.rank() % gpu::Device::count())),
        stream(device),
        area(device, world.max_count + 2 * kGuard),
        context(group, device, context_options(world)),
        all_reduce(context, world.max_count) {
    context.seal();
  }
  [[nodiscard]] float* data() const { return area.data() + kGuard; }
  void synchronize() {
    context.synchronize(stream);
    all_reduce.check();
  }
  void note(const std::string& problem) {
    if (!problem.empty()) problems += concat("\n  ", problem);
  }
  void finish() const {
    if (!problems.empty()) RUNGS_THROW(kInternal, problems);
  }

  bootstrap::Group& group;
  gpu::Device device;
  gpu::Stream stream;
  gpu::Buffer<float> area;
  Context context;
  AllReduce all_reduce;
  std::string problems;
};

inline std::vector<testing::RankOutcome> outcomes_of_threads(
    const World& world, const std::function<void(Rank&)>& body) {
  const bootstrap::Root root({.ranks = world.ranks(), .interface_or_address = "127.0.0.1"});
  return testing::run_threads(world.ranks(), [&](int rank) {
    bootstrap::GroupOptions options;
    options.host_id = world.host_of(rank);
    bootstrap::Group group(root.id(), rank, world.ranks(), options);
    Rank me(group, world);
    body(me);
    me.finish();
  });
}
inline std::string in_threads(const World& world, const std::function<void(Rank&)>& body) {
  return testing::failures(outcomes_of_threads(world, body));
}

inline std::vector<testing::RankOutcome> outcomes_of_processes(
    const World& world, const std::function<void(Rank&)>& body) {
  const std::string port = std::to_string(collectives::free_port());
  return testing::run_processes(world.ranks(), [&](int rank) {
    ::setenv("MASTER_ADDR", "127.0.0.1", 1);
    ::setenv("MASTER_PORT", port.c_str(), 1);
    bootstrap::GroupOptions options;
    options.host_id = world.host_of(rank);
    bootstrap::Group group = bootstrap::Group::from_environment(options);
    Rank me(group, world);
    body(me);
    me.finish();
  });
}

inline std::uint64_t mix(std::uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdull;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ull;
  return x ^ x >> 33;
}

/// Rank `rank`'s element i: in [-1, 1), or a small integer, whose sums are exact, so that a lost or
/// doubled term cannot hide in the bound.
inline float value_of(std::uint64_t seed, int rank, std::size_t i) {
  const std::uint64_t bits = mix(seed * 1000003 + static_cast<std::uint64_t>(rank) * 7919 + mix(i));
  if (seed % 2 == 0) return static_cast<float>(static_cast<int>(bits % 33) - 16);
  return static_cast<float>(static_cast<double>(bits >> 11) * 0x1p-52 - 1);
}

/// Collective: nobody copies while another rank's kernel waits, which may share the GPU.
inline void fill(Rank& rank, std::uint64_t seed, std::size_t count) {
  std::vector<float> host(rank.area.size(), std::numeric_limits<float>::quiet_NaN());
  for (std::size_t i = 0; i < count; ++i) host[kGuard + i] = value_of(seed, rank.group.rank(), i);
  rank.area.upload(host, rank.stream);
  rank.group.barrier();
}

/// The sum in double, its bound, what lies beside it, and that all ranks have the same bits.
inline void check(Rank& rank, std::uint64_t seed, std::size_t count, float scale) {
  const std::vector<float> got = rank.area.download(rank.stream);
  const int ranks = rank.group.size();
  std::vector<double> want;
  std::vector<double> bounds;
  for (std::size_t i = 0; i < count; ++i) {
    double sum = 0;
    double magnitude = 0;
    for (int r = 0; r < ranks; ++r) {
      sum += value_of(seed, r, i);
      magnitude += std::abs(value_of(seed, r, i));
    }
    want.push_back(sum * scale);
    // ranks - 1 additions and a multiplication round once each; sums of small integers do not.
    const double roundings = seed % 2 == 0 ? 1 : ranks;
    const double largest = seed % 2 == 0 ? std::abs(sum) : magnitude;
    bounds.push_back(roundings * 0x1p-24 / (1 - roundings * 0x1p-24) * largest * std::abs(scale));
  }
  const std::vector<float> result(got.begin() + kGuard,
                                  got.begin() + kGuard + static_cast<std::ptrdiff_t>(count));
  const std::string what = concat(count, " elements, seed ", seed, ": ");
  const std::string wrong = testing::first_outside_bounds(result, want, bounds);
  if (!wrong.empty()) rank.note(what + wrong);
  for (std::size_t i = 0; i < got.size(); ++i) {
    if ((i >= kGuard && i < kGuard + count) || std::isnan(got[i])) continue;
    rank.note(concat(what, "element ", i, " beside the data was written"));
    break;
  }
  std::uint64_t hash = count;
  for (const float value : result) {
    std::uint32_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    hash = mix(hash ^ bits);
  }
  for (const std::uint64_t other : rank.group.all_gather(hash)) {
    if (other != hash) {
      rank.note(what + "ranks have different bits");
      break;
    }
  }
}

inline void run(Rank& rank, std::uint64_t seed, std::size_t count, float scale) {
  fill(rank, seed, count);
  rank.all_reduce.sum(rank.data(), count, scale, rank.stream);
  rank.synchronize();
  check(rank, seed, count, scale);
}

}  // namespace rungs::symmetric::all_reduce_test
