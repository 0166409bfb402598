#pragma once
/// @file wgmma_protocol.hpp
/// Fence, commit and wait of asynchronous warpgroup multiplications (see wgmma.hpp).

#include <rungs/ptx/where.hpp>

#include <type_traits>

namespace rungs::ptx {

/// Orders the warpgroup's accesses to registers before the multiplications that follow. Needed
/// before the first multiplication, whenever registers of D or A were touched since, and between
/// multiplications of different shape on the same accumulators. All threads of the warpgroup,
/// aligned. PTX: wgmma.fence.sync.aligned.
RUNGS_DEVICE void wgmma_fence(RUNGS_WHERE) {
#if RUNGS_GPU_CUDA
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#else
  emulator::model::wgmma_fence(where);
#endif
}

/// Closes a group of all multiplications since the last commit. All threads of the warpgroup,
/// aligned. PTX: wgmma.commit_group.sync.aligned.
RUNGS_DEVICE void wgmma_commit(RUNGS_WHERE) {
#if RUNGS_GPU_CUDA
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#else
  emulator::model::wgmma_commit(where);
#endif
}

/// Waits until at most the `Pending` youngest groups are unfinished. `accumulators` (of float,
/// std::uint32_t or std::int32_t) are those read afterwards: naming them keeps the compiler from
/// reading them earlier. All threads of the warpgroup, aligned. PTX: wgmma.wait_group.sync.aligned.
#if RUNGS_GPU_CUDA
template <int Pending, class Register, int R>
RUNGS_DEVICE void wgmma_wait(Register (&accumulators)[R]) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
#pragma unroll
  for (int i = 0; i < R; i++) {
    if constexpr (std::is_same_v<Register, float>)
      asm volatile("" : "+f"(accumulators[i])::"memory");
    else
      asm volatile("" : "+r"(accumulators[i])::"memory");
  }
}
#else
template <int Pending, class Register, int R>
void wgmma_wait(Register (&)[R] RUNGS_AND_WHERE) {
  static_assert(sizeof(Register) == 4);
  emulator::model::wgmma_wait(Pending, where);
}
#endif

}  // namespace rungs::ptx
