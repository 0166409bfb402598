#pragma once
/// @file queue.hpp
/// Where a layer's kernels go, and how large their grids are: what the layers of stages 09 and 10
/// are enqueued with.

#include <rungs/gpu/launch.hpp>
#include <rungs/gpu/stream.hpp>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace rungs::gpu {

/// Wall time by part of a step, filled when a Queue carries it. Each part is waited for, so a
/// profiled step cannot be captured and is slower than a plain one.
struct Profile {
  struct Part {
    std::string name;
    double seconds = 0;
    int calls = 0;
  };
  std::vector<Part> parts;  // in the order of their first call
  void add(std::string_view name, double seconds);
};

/// A stream with what grids are sized by.
struct Queue {
  StreamHandle stream = nullptr;
  int sm_count = 1;
  Profile* profile = nullptr;

  /// Runs `enqueue`, and with a profile waits and books the time under `name`.
  template <class F>
  void part(std::string_view name, F&& enqueue) const {
    if (profile == nullptr) {
      enqueue();
      return;
    }
    const auto start = std::chrono::steady_clock::now();
    enqueue();
    synchronize(stream);
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    profile->add(name, spent.count());
  }
};

/// Bound of a block of row_grid(), for RUNGS_KERNEL of its kernels.
inline constexpr int kRowThreads = 64;
/// Bound of a block of element_grid().
inline constexpr int kElementThreads = 128;
/// Elements a thread takes at a time: adjacent, so that the host compiler uses its vector
/// registers.
inline constexpr int kLanes = 8;

/// A thread a row, grid-stride: at most two blocks an SM, because a block costs more than a row
/// (emulator) and two fill an SM's issue slots for such light threads (GPU).
inline LaunchConfig row_grid(const Queue& queue, long long rows) {
  const long long blocks =
      std::min<long long>((rows + kRowThreads - 1) / kRowThreads, 2ll * queue.sm_count);
  return {.grid = {.x = static_cast<unsigned>(std::max(blocks, 1ll))}, .block = {.x = kRowThreads}};
}

/// kLanes elements a thread and turn, grid-stride.
inline LaunchConfig element_grid(const Queue& queue, long long elements) {
  const long long groups = (elements + kLanes - 1) / kLanes;
  const long long blocks =
      std::min<long long>((groups + kElementThreads - 1) / kElementThreads, 2ll * queue.sm_count);
  return {.grid = {.x = static_cast<unsigned>(std::max(blocks, 1ll))},
          .block = {.x = kElementThreads}};
}

}  // namespace rungs::gpu
