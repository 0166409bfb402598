#pragma once
/// @file mbarrier.hpp
/// mbarrier: a barrier in shared memory that counts arrivals and bytes of asynchronous copies (PTX
/// ISA, "Parallel Synchronization and Communication Instructions: mbarrier").
///
/// A phase ends when no arrivals are pending and the transaction count is zero; the next one begins
/// with the initial count. A wait names the parity of the phase it waits for: the first phase has
/// parity 0. On a fresh barrier a wait for parity 1 passes: the phase "before the first" is over.

///
/// Here is what pipelines need; mbarrier_token.hpp has the rest: tokens, arrivals without
/// completion, drops, complete_tx, relaxed forms.

#include <rungs/ptx/descriptor.hpp>

#if !RUNGS_GPU_CUDA
#include <rungs/emulator/model_memory.hpp>
#endif

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

/// Ends the barrier at `*barrier`, so that its eight bytes can be used for something else or be
/// initialised again. One thread, after everybody's last use. PTX: mbarrier.inval.shared::cta.b64.
RUNGS_DEVICE void mbarrier_inval(std::uint64_t* barrier RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(shared_u32(barrier)) : "memory");
#else
  emulator::model::mbarrier_inval(shared_u32(barrier, where), where);
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

/// `count` arrivals of one thread (1 to 2^20 - 1). PTX: mbarrier.arrive.shared::cta.b64 with count.
RUNGS_DEVICE void mbarrier_arrive(std::uint64_t* barrier, std::uint32_t count RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], %1;" ::"r"(shared_u32(barrier)), "r"(count)
               : "memory");
#else
  emulator::model::mbarrier_arrive(shared_u32(barrier, where), count, 0, where);
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

/// `count` arrivals at a barrier of any block of the cluster. PTX:
/// mbarrier.arrive.release.cluster.shared::cluster.b64 with count.
RUNGS_DEVICE void mbarrier_arrive_cluster(std::uint32_t cluster_address,
                                          std::uint32_t count RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  asm volatile(
      "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0], %1;" ::"r"(cluster_address),
      "r"(count)
      : "memory");
#else
  emulator::model::mbarrier_arrive(cluster_address, count, 0, where);
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

/// The same at a barrier of any block of the cluster. PTX:
/// mbarrier.expect_tx.relaxed.cluster.shared::cluster.b64.
RUNGS_DEVICE void mbarrier_expect_tx_cluster(std::uint32_t cluster_address,
                                             std::uint32_t size_bytes RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  asm volatile(
      "mbarrier.expect_tx.relaxed.cluster.shared::cluster.b64 [%0], %1;" ::"r"(cluster_address),
      "r"(size_bytes)
      : "memory");
#else
  emulator::model::mbarrier_arrive(cluster_address, 0, size_bytes, where);
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

/// The same at a barrier of any block of the cluster. PTX:
/// mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64.
RUNGS_DEVICE void mbarrier_arrive_expect_tx_cluster(std::uint32_t cluster_address,
                                                    std::uint32_t size_bytes RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  asm volatile(
      "mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%0], "
      "%1;" ::"r"(cluster_address),
      "r"(size_bytes)
      : "memory");
#else
  emulator::model::mbarrier_arrive(cluster_address, 1, size_bytes, where);
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

/// mbarrier_try_wait() that waits up to about `nanoseconds` before it returns false. PTX:
/// mbarrier.try_wait.parity.shared::cta.b64 with suspendTimeHint. In emulation the hint is nothing.
RUNGS_DEVICE bool mbarrier_try_wait_for(std::uint64_t* barrier, std::uint32_t parity,
                                        std::uint32_t nanoseconds RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  std::uint32_t over;
  asm volatile(
      "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2, %3;\n"
      "selp.b32 %0, 1, 0, p;\n}"
      : "=r"(over)
      : "r"(shared_u32(barrier)), "r"(parity), "r"(nanoseconds)
      : "memory");
  return over != 0;
#else
  static_cast<void>(nanoseconds);
  return emulator::model::mbarrier_test(shared_u32(barrier, where), parity, false, where);
#endif
}

/// mbarrier_try_wait() that acquires at cluster scope: what other blocks of the cluster released
/// with mbarrier_arrive_cluster(), and what st.async wrote. PTX:
/// mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64.
RUNGS_DEVICE bool mbarrier_try_wait_cluster(std::uint64_t* barrier,
                                            std::uint32_t parity RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  std::uint32_t over;
  asm volatile(
      "{\n.reg .pred p;\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n"
      "selp.b32 %0, 1, 0, p;\n}"
      : "=r"(over)
      : "r"(shared_u32(barrier)), "r"(parity)
      : "memory");
  return over != 0;
#else
  return emulator::model::mbarrier_test(shared_u32(barrier, where), parity, false, where);
#endif
}

/// mbarrier_try_wait_cluster() until it is true.
RUNGS_DEVICE void mbarrier_wait_cluster(std::uint64_t* barrier,
                                        std::uint32_t parity RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  while (!mbarrier_try_wait_cluster(barrier, parity)) {
  }
#else
  emulator::model::mbarrier_test(shared_u32(barrier, where), parity, true, where);
#endif
}

/// Whether the phase of parity `parity` is over, without waiting; acquires if true. PTX:
/// mbarrier.test_wait.parity.shared::cta.b64.
RUNGS_DEVICE bool mbarrier_test_wait(std::uint64_t* barrier, std::uint32_t parity RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  std::uint32_t over;
  asm volatile(
      "{\n.reg .pred p;\nmbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      "selp.b32 %0, 1, 0, p;\n}"
      : "=r"(over)
      : "r"(shared_u32(barrier)), "r"(parity)
      : "memory");
  return over != 0;
#else
  return emulator::model::mbarrier_test(shared_u32(barrier, where), parity, false, where);
#endif
}

}  // namespace rungs::ptx
