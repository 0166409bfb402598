#pragma once
/// @file one_launch_device.hpp
/// All ranks of a collective in one launch: block (c, r) is channel c of rank r. compute-sanitizer
/// needs that: under the tool kernels of two streams take turns, and ranks that are launches of
/// their own wait for each other in vain. For kernel sources of tests.

#include "one_launch.hpp"

#include <rungs/collectives/ring_device.hpp>
#include <rungs/collectives/root_device.hpp>
#include <rungs/gpu/launch.hpp>

#include <cstdint>

namespace rungs::collectives {

inline constexpr unsigned kOneLaunchThreads = RUNGS_GPU_CUDA ? 128 : 32;

template <class P>
RUNGS_DEVICE void one_rank_by_ring(const KernelArgs& args) {
  switch (args.what) {
    case Collective::kAllReduce:
      return ring_all_reduce<P, float, Sum>(args);
    case Collective::kReduceScatter:
      return ring_reduce_scatter<P, float, Sum>(args);
    case Collective::kAllGather:
      return ring_all_gather<P, std::uint8_t>(args);
    case Collective::kBroadcast:
      return ring_broadcast<P, std::uint8_t>(args);
    case Collective::kAllToAll:
      return pairwise_all_to_all<P, std::uint8_t>(args);
  }
}

template <class P>
RUNGS_DEVICE void one_rank_by_root(const KernelArgs& args) {
  switch (args.what) {
    case Collective::kAllReduce:
      return root_all_reduce<P, float, Sum>(args);
    case Collective::kReduceScatter:
      return root_reduce_scatter<P, float, Sum>(args);
    case Collective::kAllGather:
      return root_all_gather<P, std::uint8_t>(args);
    case Collective::kBroadcast:
      return root_broadcast<P, std::uint8_t>(args);
    case Collective::kAllToAll:
      return root_all_to_all<P, std::uint8_t>(args);
  }
}

/// @param ranks [gridDim.y] device
template <class P>
RUNGS_KERNEL(kOneLaunchThreads, 1)
ring_of_all_ranks_kernel(const KernelArgs* ranks) {
  one_rank_by_ring<P>(ranks[blockIdx.y]);
}

template <class P>
RUNGS_KERNEL(kOneLaunchThreads, 1)
root_of_all_ranks_kernel(const KernelArgs* ranks) {
  one_rank_by_root<P>(ranks[blockIdx.y]);
}

/// Blocks wait for each other, so all must be resident.
inline void launch_all_ranks(void (*kernel)(const KernelArgs*), const KernelArgs* ranks,
                             unsigned count, unsigned channels, gpu::StreamHandle stream) {
  gpu::launch("collective of all ranks",
              {.grid = {channels, count}, .block = {kOneLaunchThreads}, .cooperative = true},
              stream, kernel, ranks);
}

}  // namespace rungs::collectives
