#pragma once
/// @file tma.hpp
/// The tensor memory accelerator: asynchronous copies of tiles that a tensor map describes (PTX
/// ISA, "Data Movement and Conversion Instructions: cp.async.bulk.tensor").

#include <rungs/ptx/descriptor.hpp>

namespace rungs::ptx {

/// Starts copying the map's box at column `x`, row `y` to shared memory. Elements outside the
/// tensor arrive as zeros and count as bytes. One thread; complete_tx(box bytes) on `barrier` says
/// it has landed: the phase must expect them (mbarrier_arrive_expect_tx()). PTX:
/// cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.
/// @param shared_destination 128-byte aligned; for a swizzled box aligned to the pattern (1024
///         bytes for 128B)
/// @param x column in elements, may lie outside; x · element bytes a multiple of 16 (an H200 ends
///         other copies as an illegal instruction, the emulator with a report)
/// @param y row, any
/// @param map a kernel parameter declared `RUNGS_GRID_CONSTANT const gpu::TensorMap`
RUNGS_DEVICE void tma_load_2d(void* shared_destination, const gpu::TensorMap* map,
                              std::uint64_t* barrier, int x, int y RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, "
      "{%2, %3}], [%4];" ::"r"(shared_u32(shared_destination)),
      "l"(map), "r"(x), "r"(y), "r"(shared_u32(barrier))
      : "memory");
#else
  emulator::model::tma_load_2d(shared_u32(shared_destination, where), map,
                               shared_u32(barrier, where), x, y, 0, where);
#endif
}

/// The same into every block of the cluster whose bit is set in `cluster_mask`, at the same
/// offsets; each block's own barrier gets the bytes. PTX: ...complete_tx::bytes.multicast::cluster.
RUNGS_DEVICE void tma_load_2d_multicast(void* shared_destination, const gpu::TensorMap* map,
                                        std::uint64_t* barrier, int x, int y,
                                        std::uint16_t cluster_mask RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::"
      "cluster "
      "[%0], [%1, {%2, %3}], [%4], %5;" ::"r"(shared_u32(shared_destination)),
      "l"(map), "r"(x), "r"(y), "r"(shared_u32(barrier)), "h"(cluster_mask)
      : "memory");
#else
  emulator::model::tma_load_2d(shared_u32(shared_destination, where), map,
                               shared_u32(barrier, where), x, y, cluster_mask, where);
#endif
}

/// Brings the map into the descriptor cache. One thread, a hint. PTX: prefetch.tensormap.
RUNGS_DEVICE void tma_prefetch_descriptor(const gpu::TensorMap* map) {
#if RUNGS_GPU_CUDA
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
#else
  static_cast<void>(map);
#endif
}

}  // namespace rungs::ptx
