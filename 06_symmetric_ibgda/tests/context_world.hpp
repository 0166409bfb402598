#pragma once
/// @file context_world.hpp
/// Ranks for tests of stage 06: each has a group, a device, a stream and a Context.

#include <rungs/bootstrap/group.hpp>
#include <rungs/gpu/buffer.hpp>
#include <rungs/gpu/stream.hpp>
#include <rungs/symmetric/context.hpp>
#include <rungs/testing/gpu_test.hpp>
#include <rungs/testing/ranks.hpp>

#include "../../04_collectives_ring_tree/tests/world.hpp"
#include "context_kernels.hpp"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

namespace rungs::symmetric {

struct ContextWorld {
  int ranks = 2;
  int nodes = 1;  ///< pretend hosts, as many ranks in each, in order
  ContextOptions options{.heap_bytes = std::size_t{1} << 20, .timeout_seconds = 20};
};

inline gpu::Device context_device(int rank) {
  return gpu::Device::open(rank % gpu::Device::count());
}

struct ContextRank {
  ContextRank(bootstrap::Group& its_group, const ContextWorld& world)
      : group(its_group),
        stream(context_device(its_group.rank())),
        gave_up(context_device(its_group.rank()), 1, gpu::Space::kHostMapped),
        script(context_device(its_group.rank()), 256, gpu::Space::kHostMapped),
        context(group, context_device(its_group.rank()), world.options) {}

  /// Runs the calls in one block and waits. Copies nothing: a peer's kernel may wait already.
  /// @return how many gave up
  std::uint32_t run(const std::vector<Step>& steps) {
    RUNGS_REQUIRE(steps.size() <= script.size(), steps.size(), " steps");
    *gave_up.data() = 0;
    std::copy(steps.begin(), steps.end(), script.data());
    launch_script(context.on_device(), script.data(), static_cast<int>(steps.size()),
                  gave_up.data(), stream);
    context.synchronize(stream);
    return *gave_up.data();
  }
  template <class T>
  void write(T* to, const std::vector<T>& values) {
    if (!values.empty()) gpu::copy_async(to, values.data(), values.size() * sizeof(T), stream);
    stream.synchronize();
  }
  template <class T>
  std::vector<T> read(const T* from, std::size_t count) {
    std::vector<T> values(count);
    if (count > 0) gpu::copy_async(values.data(), from, count * sizeof(T), stream);
    stream.synchronize();
    return values;
  }

  bootstrap::Group& group;
  gpu::Stream stream;
  gpu::Buffer<std::uint32_t> gave_up;
  gpu::Buffer<Step> script;
  Context context;
};

inline bootstrap::GroupOptions on_node(int rank, const ContextWorld& world) {
  bootstrap::GroupOptions options;
  if (world.nodes > 1) options.host_id = concat("node ", rank / (world.ranks / world.nodes));
  return options;
}

using ContextBody = std::function<void(ContextRank&)>;

/// Ranks as threads.
inline std::vector<testing::RankOutcome> outcomes_in_context(const ContextWorld& world,
                                                             const ContextBody& body) {
  bootstrap::RootOptions root_options;
  root_options.ranks = world.ranks;
  root_options.interface_or_address = "127.0.0.1";
  const bootstrap::Root root(root_options);
  return testing::run_threads(world.ranks, [&](int rank) {
    bootstrap::Group group(root.id(), rank, world.ranks, on_node(rank, world));
    ContextRank me(group, world);
    body(me);
  });
}
/// Empty when every rank ended well.
inline std::string in_context(const ContextWorld& world, const ContextBody& body) {
  return testing::failures(outcomes_in_context(world, body));
}

/// Ranks as processes. Rank 0 runs the rendezvous: the parent must not have threads where
/// ThreadSanitizer runs. Use the emulator only: processes take turns on a GPU.
inline std::vector<testing::RankOutcome> outcomes_in_processes(const ContextWorld& world,
                                                               const ContextBody& body) {
  const std::string port = std::to_string(collectives::free_port());
  return testing::run_processes(world.ranks, [&](int rank) {
    ::setenv("MASTER_ADDR", "127.0.0.1", 1);
    ::setenv("MASTER_PORT", port.c_str(), 1);
    bootstrap::Group group = bootstrap::Group::from_environment(on_node(rank, world));
    ContextRank me(group, world);
    body(me);
  });
}

}  // namespace rungs::symmetric
