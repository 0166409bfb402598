#pragma once
/// @file mbarrier.hpp
/// mbarrier: a barrier in shared memory that counts arrivals and bytes of asynchronous copies (PTX
/// ISA, "Parallel Synchronization and Communication Instructions: mbarrier").
///
/// A phase ends when no arrivals are pending and the transaction count is zero; the next one begins
/// with the initial count. A wait names the parity of the phase it waits for: the first phase has
/// parity 0. On a fresh barrier a wait for parity 1 passes: the phase "before the first" is over.

#include <rungs/ptx/descriptor.hpp>

namespace rungs::ptx {

/// Makes `*barrier` (8-byte aligned, shared) a barrier of `count` arrivals a phase. One thread;
/// then fence_mbarrier_init() and a block or cluster barrier before any other thread or TMA uses
/// it. PTX: mbarrier.init.shared::cta.b64.
RUNGS_DEVICE void mbarrier_init(std::uint64_t* barrier, std::uint32_t count RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_u32(barrier)), "r"(count)
               : "memory");
#else
  emulator::model::mbarrier_init(shared_u32(barrier, where), count, where);
#endif
}

/// Makes earlier mbarrier_init() visible to the cluster and to TMA. The initialising thread.
/// PTX: fence.mbarrier_init.release.cluster.
RUNGS_DEVICE void fence_mbarrier_init() {
#if RUNGS_GPU_CUDA
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}

/// One arrival; releases the thread's earlier writes to the waiters (.release.cta). Any thread.
/// PTX: mbarrier.arrive.shared::cta.b64.
RUNGS_DEVICE void mbarrier_arrive(std::uint64_t* barrier RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_u32(barrier)) : "memory");
#else
  emulator::model::mbarrier_arrive(shared_u32(barrier, where), 1, 0, where);
#endif
}

/// One arrival at a barrier of any block of the cluster, by its shared::cluster address
/// (map_shared()). PTX: mbarrier.arrive.release.cluster.shared::cluster.b64.
RUNGS_DEVICE void mbarrier_arrive_cluster(std::uint32_t cluster_address RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(cluster_address)
               : "memory");
#else
  emulator::model::mbarrier_arrive(cluster_address, 1, 0, where);
#endif
}

/// Adds `size_bytes` to the bytes that the current phase waits for, without arriving.
/// PTX: mbarrier.expect_tx.relaxed.cta.shared::cta.b64.
RUNGS_DEVICE void mbarrier_expect_tx(std::uint64_t* barrier,
                                     std::uint32_t size_bytes RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  asm volatile(
      "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(shared_u32(barrier)),
      "r"(size_bytes)
      : "memory");
#else
  emulator::model::mbarrier_arrive(shared_u32(barrier, where), 0, size_bytes, where);
#endif
}

/// expect_tx and one arrival in one instruction. PTX: mbarrier.arrive.expect_tx.shared::cta.b64.
RUNGS_DEVICE void mbarrier_arrive_expect_tx(std::uint64_t* barrier,
                                            std::uint32_t size_bytes RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_u32(barrier)),
               "r"(size_bytes)
               : "memory");
#else
  emulator::model::mbarrier_arrive(shared_u32(barrier, where), 1, size_bytes, where);
#endif
}

/// Whether the phase of parity `parity` is over; may wait a little first. If true, acquires what
/// the arrivals released and what asynchronous copies wrote (.acquire.cta). PTX:
/// mbarrier.try_wait.parity.shared::cta.b64.
RUNGS_DEVICE bool mbarrier_try_wait(std::uint64_t* barrier, std::uint32_t parity RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  std::uint32_t over;
  asm volatile(
      "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.b32 %0, 1, 0, "
      "p;\n}"
      : "=r"(over)
      : "r"(shared_u32(barrier)), "r"(parity)
      : "memory");
  return over != 0;
#else
  return emulator::model::mbarrier_test(shared_u32(barrier, where), parity, false, where);
#endif
}

/// mbarrier_try_wait() until it is true.
RUNGS_DEVICE void mbarrier_wait(std::uint64_t* barrier, std::uint32_t parity RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  while (!mbarrier_try_wait(barrier, parity)) {
  }
#else
  emulator::model::mbarrier_test(shared_u32(barrier, where), parity, true, where);
#endif
}

}  // namespace rungs::ptx
