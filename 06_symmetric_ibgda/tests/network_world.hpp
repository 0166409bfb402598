#pragma once
/// @file network_world.hpp
/// Ranks for the tests of the network half: each has a group, a device, a heap and its NetworkPart,
/// and a DeviceContext without any mapped peer.

#include <rungs/bootstrap/group.hpp>
#include <rungs/gpu/buffer.hpp>
#include <rungs/gpu/stream.hpp>
#include <rungs/symmetric/context.hpp>
#include <rungs/testing/errors.hpp>
#include <rungs/testing/gpu_test.hpp>
#include <rungs/testing/random.hpp>
#include <rungs/testing/ranks.hpp>

#include "network/network_part.hpp"
#include "network_kernels.hpp"

#include <gtest/gtest.h>

#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace rungs::symmetric {

struct NetworkWorld {
  int ranks = 2;
  ContextOptions options;
  std::size_t heap_bytes = std::size_t{1} << 18;
  std::uint64_t max_message_bytes = detail::kMaxMessageBytes;
  double ack_timeout_seconds = 0.1;
  double timeout_seconds = 20;
};

/// What kernels and host share; host-mapped.
struct NetworkControl {
  alignas(128) std::uint32_t abort;
  alignas(128) gpu::Fault fault;
};

class NetworkRank {
 public:
  NetworkRank(bootstrap::Group& its_group, const NetworkWorld& world)
      : group(its_group),
        device(gpu::Device::open(its_group.rank() % gpu::Device::count())),
        stream(device),
        heap(device, world.heap_bytes,
             device.info().emulated ? gpu::Space::kDevice : gpu::Space::kHostMapped),
        control(device, 1, gpu::Space::kHostMapped),
        claim_(device, 1),
        counts_(device, 2),
        context_(device, 1) {
    std::memset(control.data(), 0, sizeof(NetworkControl));
    gpu::fill_async(claim_.data(), 0, claim_.size_bytes(), stream);
    gpu::fill_async(heap.data(), 0, heap.size_bytes(), stream);
    stream.synchronize();
    std::vector<int> peers;
    for (int peer = 0; peer < group.size(); ++peer) {
      if (peer != group.rank()) peers.push_back(peer);
    }
    part = std::make_unique<detail::NetworkPart>(group, device, world.options, heap.data(),
                                                 heap.size_bytes(), peers, world.max_message_bytes,
                                                 world.ack_timeout_seconds);
    DeviceContext context{};
    context.rank = group.rank();
    context.size = group.size();
    context.heap_bytes = heap.size_bytes();
    context.heap[group.rank()] = heap.data();
    context.abort = &control.data()->abort;
    context.claim = claim_.data();
    context.fault = &control.data()->fault;
    context.timeout_ns = static_cast<std::uint64_t>(world.timeout_seconds * timeout_scale() * 1e9);
    part->fill(context);
    context_.upload({&context, 1}, stream);
  }

  [[nodiscard]] const DeviceContext* context() const { return context_.data(); }
  [[nodiscard]] gpu::Fault fault() const { return control.data()->fault; }
  [[nodiscard]] std::vector<std::byte> heap_now() const { return heap.download(stream); }
  [[nodiscard]] std::uint64_t word_now(std::uint64_t offset) const {
    std::uint64_t value = 0;
    std::memcpy(&value, heap_now().data() + offset, sizeof(value));
    return value;
  }
  void fill(std::uint64_t offset, const std::vector<std::byte>& bytes) {
    std::vector<std::byte> all = heap_now();
    std::memcpy(all.data() + offset, bytes.data(), bytes.size());
    heap.upload(all, stream);
  }

  /// Runs `launch(failures, wrong)` and waits; ends it when a queue pair fails, as a Context's
  /// watch does. What went wrong, or nothing.
  std::string run(const std::function<void(std::uint32_t*, std::uint32_t*)>& launch) {
    gpu::fill_async(counts_.data(), 0, counts_.size_bytes(), stream);
    launch(counts_.data(), counts_.data() + 1);
    std::atomic<bool> over{false};
    std::thread watch([&] {
      for (Backoff backoff; !over; backoff.pause()) {
        if (!part->failure()) continue;
        std::atomic_ref(control.data()->abort).store(1, std::memory_order_release);
        return;
      }
    });
    const std::string report = testing::error_of([&] { stream.synchronize(); });
    over = true;
    watch.join();
    if (report != "nothing") return report;
    const std::vector<std::uint32_t> counts = counts_.download(stream);
    if (counts[0] == 0 && counts[1] == 0) return {};
    if (const auto failure = part->failure()) return failure->text;
    return concat(counts[0], " calls gave up, ", counts[1], " words were wrong");
  }
  std::string run_steps(const std::vector<NetworkStep>& steps, int blocks = 1) {
    gpu::Buffer<NetworkStep> script(device, steps.size());
    script.upload(steps, stream);
    return run([&](std::uint32_t* failures, std::uint32_t* /*wrong*/) {
      launch_steps(context(), script.data(), static_cast<int>(steps.size()), blocks, failures,
                   stream);
    });
  }

  bootstrap::Group& group;
  gpu::Device device;
  gpu::Stream stream;
  gpu::Buffer<std::byte> heap;
  gpu::Buffer<NetworkControl> control;

 private:
  gpu::Buffer<std::uint32_t> claim_;
  gpu::Buffer<std::uint32_t> counts_;
  gpu::Buffer<DeviceContext> context_;

 public:
  std::unique_ptr<detail::NetworkPart> part;
};

using RankBody = std::function<void(NetworkRank&)>;

/// Whoever throws tells the others, so that none waits for it.
inline void be_rank(const bootstrap::UniqueId& id, int rank, const NetworkWorld& world,
                    const RankBody& body) {
  bootstrap::Group group(id, rank, world.ranks);
  try {
    NetworkRank me(group, world);
    body(me);
  } catch (const std::exception& error) {
    group.abort(error.what());
    throw;
  }
}

inline bootstrap::RootOptions root_options(const NetworkWorld& world) {
  bootstrap::RootOptions options;
  options.ranks = world.ranks;
  options.interface_or_address = "127.0.0.1";
  return options;
}

/// Runs `body` as ranks in threads; empty if all ended well.
inline std::string as_ranks(const NetworkWorld& world, const RankBody& body) {
  const bootstrap::Root root(root_options(world));
  return testing::failures(
      testing::run_threads(world.ranks, [&](int rank) { be_rank(root.id(), rank, world, body); }));
}

/// The same in processes. Rank 0 runs the rendezvous and tells its id through a pipe: the parent
/// must not have threads where ThreadSanitizer runs.
inline std::string as_processes(const NetworkWorld& world, const RankBody& body) {
  int ends[2];
  RUNGS_REQUIRE(::pipe(ends) == 0, "no pipe");
  const auto outcomes = testing::run_processes(world.ranks, [&](int rank) {
    std::optional<bootstrap::Root> root;
    bootstrap::UniqueId id;
    const auto size = static_cast<ssize_t>(sizeof(id));
    if (rank == 0) {
      id = root.emplace(root_options(world)).id();
      for (int other = 1; other < world.ranks; ++other)
        RUNGS_REQUIRE(::write(ends[1], &id, sizeof(id)) == size, "the id cannot be told");
    } else {
      RUNGS_REQUIRE(::read(ends[0], &id, sizeof(id)) == size, "rank 0 told no id");
    }
    be_rank(id, rank, world, body);
  });
  ::close(ends[0]);
  ::close(ends[1]);
  return testing::failures(outcomes);
}

/// A mismatch ends the rank with a text.
template <class... Parts>
void expect(bool condition, const Parts&... parts) {
  if (!condition) RUNGS_THROW(kInternal, parts...);
}

}  // namespace rungs::symmetric
