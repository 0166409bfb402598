#pragma once
/// @file lanes_device.hpp
/// Pieces that the layers' kernels are made of. For kernel sources.

#include <rungs/gpu/kernel.hpp>
#include <rungs/gpu/queue.hpp>

namespace rungs::gpu {

/// This thread's first index of a grid-stride loop, and the step from one to the next.
RUNGS_DEVICE int first_index() { return static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); }
RUNGS_DEVICE int index_step() { return static_cast<int>(gridDim.x * blockDim.x); }

/// kLanes running sums of a row: no sum waits for the one before it, and the order of additions is
/// fixed whatever the grid, so the bits are the same on every run.
struct LaneSums {
  float lane[kLanes];
  RUNGS_DEVICE LaneSums() {
    for (int l = 0; l < kLanes; ++l) lane[l] = 0.0f;
  }
  /// Adds the lanes as a tree.
  RUNGS_DEVICE float total() const {
    const float low = (lane[0] + lane[1]) + (lane[2] + lane[3]);
    const float high = (lane[4] + lane[5]) + (lane[6] + lane[7]);
    return low + high;
  }
};
static_assert(kLanes == 8, "LaneSums::total() adds eight");

}  // namespace rungs::gpu
