#pragma once
/// @file bulk.hpp
/// Bulk copies of contiguous bytes, and bulk groups (PTX ISA, "Data Movement and Conversion
/// Instructions: cp.async.bulk, cp.reduce.async.bulk, cp.async.bulk.prefetch,
/// cp.async.bulk.commit_group, cp.async.bulk.wait_group").
///
/// One thread issues a copy. Sizes are positive multiples of 16 bytes, all addresses multiples of
/// 16 (an mbarrier's of 8). Copies are not ordered among each other and belong to the asynchronous
/// proxy:
///
///  - into shared memory: complete_tx(size) on an mbarrier of the destination's block says that the
///    bytes are there; a wait on it makes them visible to ordinary accesses.
///  - out of shared memory: threads that wrote the source execute fence_proxy_async(), then a
///    barrier, then the copy is issued. To global memory it belongs to a bulk group of the issuing
///    thread: bulk_wait_read() says that the source may be written again, bulk_wait() that the
///    destination is written, for the issuing thread only. The thread waits for its reads before it
///    ends. To another block's shared memory there is no group: the mbarrier says both.
///
/// Reductions are relaxed at gpu scope, element by element (at cluster scope in shared memory).

#include <rungs/ptx/bulk_reduction.hpp>
#include <rungs/ptx/cache_policy.hpp>
#include <rungs/ptx/descriptor.hpp>

namespace rungs::ptx {

/// Copies `size_bytes` of global memory to the block's shared memory; complete_tx on `barrier`.
/// PTX: cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.
RUNGS_DEVICE void bulk_load(void* shared_destination, const void* source, std::uint32_t size_bytes,
                            std::uint64_t* barrier RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(shared_u32(shared_destination)),
      "l"(source), "r"(size_bytes), "r"(shared_u32(barrier))
      : "memory");
#else
  emulator::model::bulk_load(shared_u32(shared_destination, where), source, size_bytes,
                             shared_u32(barrier, where), 0, 0, where);
#endif
}

/// bulk_load() into the shared memory of any block of the cluster; both addresses are
/// shared::cluster ones (map_shared()), of the same block, which must not end before the copy
/// lands.
RUNGS_DEVICE void bulk_load_cluster(std::uint32_t cluster_destination, const void* source,
                                    std::uint32_t size_bytes,
                                    std::uint32_t cluster_barrier RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(cluster_destination),
      "l"(source), "r"(size_bytes), "r"(cluster_barrier)
      : "memory");
#else
  emulator::model::bulk_load(cluster_destination, source, size_bytes, cluster_barrier, 0, 0, where);
#endif
}

/// bulk_load() with an L2 policy from createpolicy_fractional(). PTX: ....L2::cache_hint.
RUNGS_DEVICE void bulk_load_hint(void* shared_destination, const void* source,
                                 std::uint32_t size_bytes, std::uint64_t* barrier,
                                 std::uint64_t policy RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1], %2, [%3], %4;" ::"r"(shared_u32(shared_destination)),
      "l"(source), "r"(size_bytes), "r"(shared_u32(barrier)), "l"(policy)
      : "memory");
#else
  emulator::model::bulk_load(shared_u32(shared_destination, where), source, size_bytes,
                             shared_u32(barrier, where), 0, policy, where);
#endif
}

/// bulk_load() into every block of the cluster whose bit is set in `cluster_mask`, at the same
/// offsets; each block's own barrier gets the bytes. PTX: ....multicast::cluster.
RUNGS_DEVICE void bulk_load_multicast(void* shared_destination, const void* source,
                                      std::uint32_t size_bytes, std::uint64_t* barrier,
                                      std::uint16_t cluster_mask RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1], %2, [%3], %4;" ::"r"(shared_u32(shared_destination)),
      "l"(source), "r"(size_bytes), "r"(shared_u32(barrier)), "h"(cluster_mask)
      : "memory");
#else
  emulator::model::bulk_load(shared_u32(shared_destination, where), source, size_bytes,
                             shared_u32(barrier, where), cluster_mask, 0, where);
#endif
}

/// bulk_load_multicast() with an L2 policy. PTX: ....multicast::cluster.L2::cache_hint.
RUNGS_DEVICE void bulk_load_multicast_hint(void* shared_destination, const void* source,
                                           std::uint32_t size_bytes, std::uint64_t* barrier,
                                           std::uint16_t cluster_mask,
                                           std::uint64_t policy RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
      ".L2::cache_hint [%0], [%1], %2, [%3], %4, %5;" ::"r"(shared_u32(shared_destination)),
      "l"(source), "r"(size_bytes), "r"(shared_u32(barrier)), "h"(cluster_mask), "l"(policy)
      : "memory");
#else
  emulator::model::bulk_load(shared_u32(shared_destination, where), source, size_bytes,
                             shared_u32(barrier, where), cluster_mask, policy, where);
#endif
}

/// Copies the block's shared memory to that of any block of the cluster; complete_tx on a barrier
/// of that block, after which the source may be written again, too. Both addresses are
/// shared::cluster ones (map_shared()), of the same block, which must not end before the copy
/// lands.
/// PTX: cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.
RUNGS_DEVICE void bulk_copy_cluster(std::uint32_t cluster_destination, const void* shared_source,
                                    std::uint32_t size_bytes,
                                    std::uint32_t cluster_barrier RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  asm volatile(
      "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, "
      "[%3];" ::"r"(cluster_destination),
      "r"(shared_u32(shared_source)), "r"(size_bytes), "r"(cluster_barrier)
      : "memory");
#else
  emulator::model::bulk_copy_cluster(cluster_destination, shared_u32(shared_source, where),
                                     size_bytes, cluster_barrier, where);
#endif
}

/// destination[i] = destination[i] op source[i] in the shared memory of any block of the cluster,
/// for integers of 32 bits (kAdd: also kU64); otherwise as bulk_copy_cluster(). Threads that
/// initialised the destination execute fence_proxy_async() before the barrier that precedes this.
/// PTX: cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.
template <BulkReduction Reduction, TensorElement Type>
RUNGS_DEVICE void bulk_reduce_cluster(std::uint32_t cluster_destination, const void* shared_source,
                                      std::uint32_t size_bytes,
                                      std::uint32_t cluster_barrier RUNGS_AND_WHERE) {
  static_assert(bulk_reduction_exists(Reduction, Type, false));
#if RUNGS_GPU_CUDA
  asm volatile(
      "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.%4.%5 [%0], "
      "[%1], %2, [%3];" ::"r"(cluster_destination),
      "r"(shared_u32(shared_source)), "r"(size_bytes), "r"(cluster_barrier),
      "C"(detail::OperationText<Reduction, Type>::text),
      "C"(detail::OperandText<Reduction, Type>::text)
      : "memory");
#else
  emulator::model::bulk_reduce_cluster(cluster_destination, shared_u32(shared_source, where),
                                       size_bytes, cluster_barrier, Reduction, Type, where);
#endif
}

/// Copies the block's shared memory to global memory, in the thread's open bulk group.
/// PTX: cp.async.bulk.global.shared::cta.bulk_group.
RUNGS_DEVICE void bulk_store(void* destination, const void* shared_source,
                             std::uint32_t size_bytes RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(destination),
               "r"(shared_u32(shared_source)), "r"(size_bytes)
               : "memory");
#else
  emulator::model::bulk_store(destination, shared_u32(shared_source, where), size_bytes, 0, where);
#endif
}

/// bulk_store() with an L2 policy. PTX: ....L2::cache_hint.
RUNGS_DEVICE void bulk_store_hint(void* destination, const void* shared_source,
                                  std::uint32_t size_bytes, std::uint64_t policy RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  asm volatile(
      "cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%0], [%1], %2, %3;" ::"l"(
          destination),
      "r"(shared_u32(shared_source)), "r"(size_bytes), "l"(policy)
      : "memory");
#else
  emulator::model::bulk_store(destination, shared_u32(shared_source, where), size_bytes, policy,
                              where);
#endif
}

/// destination[i] = destination[i] op source[i] in global memory, in the thread's open bulk group.
/// Sums round to nearest even; of f32 the hardware flushes subnormal operands and results, of f16
/// and bf16 it keeps them (.noftz). PTX: cp.reduce.async.bulk.global.shared::cta.bulk_group.
template <BulkReduction Reduction, TensorElement Type>
RUNGS_DEVICE void bulk_reduce(void* destination, const void* shared_source,
                              std::uint32_t size_bytes RUNGS_AND_WHERE) {
  static_assert(bulk_reduction_exists(Reduction, Type, true));
#if RUNGS_GPU_CUDA
  asm volatile(
      "cp.reduce.async.bulk.global.shared::cta.bulk_group.%3.%4 [%0], [%1], %2;" ::"l"(destination),
      "r"(shared_u32(shared_source)), "r"(size_bytes),
      "C"(detail::OperationText<Reduction, Type>::text),
      "C"(detail::OperandText<Reduction, Type>::text)
      : "memory");
#else
  emulator::model::bulk_reduce(destination, shared_u32(shared_source, where), size_bytes, Reduction,
                               Type, 0, where);
#endif
}

/// bulk_reduce() with an L2 policy. PTX: ....bulk_group.L2::cache_hint.
template <BulkReduction Reduction, TensorElement Type>
RUNGS_DEVICE void bulk_reduce_hint(void* destination, const void* shared_source,
                                   std::uint32_t size_bytes, std::uint64_t policy RUNGS_AND_WHERE) {
  static_assert(bulk_reduction_exists(Reduction, Type, true));
#if RUNGS_GPU_CUDA
  asm volatile(
      "cp.reduce.async.bulk.global.shared::cta.bulk_group.L2::cache_hint.%4.%5 [%0], [%1], %2, "
      "%3;" ::"l"(destination),
      "r"(shared_u32(shared_source)), "r"(size_bytes), "l"(policy),
      "C"(detail::OperationText<Reduction, Type>::text),
      "C"(detail::OperandText<Reduction, Type>::text)
      : "memory");
#else
  emulator::model::bulk_reduce(destination, shared_u32(shared_source, where), size_bytes, Reduction,
                               Type, policy, where);
#endif
}

/// Brings `size_bytes` of global memory into L2. Any thread, a hint. PTX:
/// cp.async.bulk.prefetch.L2.global.
RUNGS_DEVICE void bulk_prefetch(const void* source, std::uint32_t size_bytes RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(source), "r"(size_bytes)
               : "memory");
#else
  emulator::model::bulk_prefetch(source, size_bytes, 0, where);
#endif
}

/// bulk_prefetch() with an L2 policy. PTX: cp.async.bulk.prefetch.L2.global.L2::cache_hint.
RUNGS_DEVICE void bulk_prefetch_hint(const void* source, std::uint32_t size_bytes,
                                     std::uint64_t policy RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  asm volatile("cp.async.bulk.prefetch.L2.global.L2::cache_hint [%0], %1, %2;" ::"l"(source),
               "r"(size_bytes), "l"(policy)
               : "memory");
#else
  emulator::model::bulk_prefetch(source, size_bytes, policy, where);
#endif
}

/// Closes the thread's open bulk group: all its copies and reductions to global memory since the
/// last one. PTX: cp.async.bulk.commit_group.
RUNGS_DEVICE void bulk_commit(RUNGS_WHERE) {
#if RUNGS_GPU_CUDA
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
#else
  emulator::model::bulk_commit(where);
#endif
}

/// Waits until at most the thread's latest `Pending` groups are under way: what older ones wrote is
/// visible to this thread. PTX: cp.async.bulk.wait_group.
template <int Pending>
RUNGS_DEVICE void bulk_wait(RUNGS_WHERE) {
  static_assert(Pending >= 0);
#if RUNGS_GPU_CUDA
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(Pending) : "memory");
#else
  emulator::model::bulk_wait(Pending, false, where);
#endif
}

/// Waits until all but the thread's latest `Pending` groups have read their sources, which may then
/// be written again. PTX: cp.async.bulk.wait_group.read.
template <int Pending>
RUNGS_DEVICE void bulk_wait_read(RUNGS_WHERE) {
  static_assert(Pending >= 0);
#if RUNGS_GPU_CUDA
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(Pending) : "memory");
#else
  emulator::model::bulk_wait(Pending, true, where);
#endif
}

}  // namespace rungs::ptx
