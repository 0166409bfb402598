#pragma once
/// @file async_copy.hpp
/// cp.async: copies of 4, 8 or 16 bytes from global to shared memory that do not pass through
/// registers (PTX ISA, "Data Movement and Conversion Instructions: Non-bulk copy").
///
/// Each thread starts its own copies, gathers them in groups and waits for its own groups only:
///
///     cp_async_cg(&stage[i], &source[i]);   // every thread its part
///     cp_async_commit_group();
///     ...                                    // later groups
///     cp_async_wait_group<1>();              // all but this thread's youngest group have landed
///     syncthreads();                         // and so have the other threads'
///
/// The copies of a thread, even those of one group, land in any order. They are weak writes of the
/// generic proxy: visible to the issuing thread after its wait, to others after a barrier that
/// follows the wait; wgmma and TMA need fence_proxy_async() between. Until then the destination may
/// be neither read nor written.
///
/// Destination and source are aligned to the size of the copy. Any thread; not aligned.

#include <rungs/ptx/descriptor.hpp>

#if !RUNGS_GPU_CUDA
#include <rungs/emulator/model_warp.hpp>
#endif

namespace rungs::ptx {

/// Starts a copy of `Bytes` (4, 8 or 16) that is cached in L1 and L2. PTX:
/// cp.async.ca.shared.global.
template <int Bytes>
RUNGS_DEVICE void cp_async_ca(void* shared_destination, const void* source RUNGS_AND_WHERE) {
  static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16);
#if RUNGS_GPU_CUDA
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(shared_u32(shared_destination)),
               "l"(__cvta_generic_to_global(source)), "n"(Bytes)
               : "memory");
#else
  emulator::model::cp_async(shared_destination, source, Bytes, Bytes, where);
#endif
}

/// The same, of which only the first `source_bytes` are read; the rest of the destination becomes
/// zero. PTX: cp.async.ca.shared.global with src-size.
/// @param source_bytes 0 to `Bytes`; with 0 the source is not read and may be any address
template <int Bytes>
RUNGS_DEVICE void cp_async_ca_zero_fill(void* shared_destination, const void* source,
                                        std::uint32_t source_bytes RUNGS_AND_WHERE) {
  static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16);
#if RUNGS_GPU_CUDA
  asm volatile(
      "cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared_u32(shared_destination)),
      "l"(__cvta_generic_to_global(source)), "n"(Bytes), "r"(source_bytes)
      : "memory");
#else
  emulator::model::cp_async(shared_destination, source, Bytes, source_bytes, where);
#endif
}

/// Starts a copy of 16 bytes that is cached in L2 only. PTX: cp.async.cg.shared.global.
RUNGS_DEVICE void cp_async_cg(void* shared_destination, const void* source RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_u32(shared_destination)),
               "l"(__cvta_generic_to_global(source))
               : "memory");
#else
  emulator::model::cp_async(shared_destination, source, 16, 16, where);
#endif
}

/// The same with zero fill, see cp_async_ca_zero_fill(). PTX: cp.async.cg.shared.global with
/// src-size.
RUNGS_DEVICE void cp_async_cg_zero_fill(void* shared_destination, const void* source,
                                        std::uint32_t source_bytes RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  asm volatile(
      "cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_u32(shared_destination)),
      "l"(__cvta_generic_to_global(source)), "r"(source_bytes)
      : "memory");
#else
  emulator::model::cp_async(shared_destination, source, 16, source_bytes, where);
#endif
}

/// Ends the calling thread's group: the copies since the last one, perhaps none. PTX:
/// cp.async.commit_group.
RUNGS_DEVICE void cp_async_commit_group() {
#if RUNGS_GPU_CUDA
  asm volatile("cp.async.commit_group;" ::: "memory");
#else
  emulator::model::cp_async_commit_group();
#endif
}

/// Waits until all but the calling thread's youngest `Pending` groups have landed. PTX:
/// cp.async.wait_group.
template <int Pending>
RUNGS_DEVICE void cp_async_wait_group(RUNGS_WHERE) {
  static_assert(Pending >= 0);
#if RUNGS_GPU_CUDA
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
#else
  emulator::model::cp_async_wait_group(Pending, where);
#endif
}

/// Waits for all copies of the calling thread, committed or not. PTX: cp.async.wait_all.
RUNGS_DEVICE void cp_async_wait_all(RUNGS_WHERE) {
#if RUNGS_GPU_CUDA
  asm volatile("cp.async.wait_all;" ::: "memory");
#else
  emulator::model::cp_async_wait_all(where);
#endif
}

/// Lets `*barrier` receive an arrival when the calling thread's copies so far have landed. The
/// phase's pending count is raised by one for it, so the count given to mbarrier_init() does not
/// hold these arrivals. Does not wait. A waiter on the barrier sees the copies.
/// PTX: cp.async.mbarrier.arrive.shared::cta.b64.
RUNGS_DEVICE void cp_async_mbarrier_arrive(std::uint64_t* barrier RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  asm volatile("cp.async.mbarrier.arrive.shared::cta.b64 [%0];" ::"r"(shared_u32(barrier))
               : "memory");
#else
  emulator::model::cp_async_mbarrier_arrive(shared_u32(barrier, where), false, where);
#endif
}

/// The same without raising the pending count: the count given to mbarrier_init() holds one arrival
/// a thread for it. PTX: cp.async.mbarrier.arrive.noinc.shared::cta.b64.
RUNGS_DEVICE void cp_async_mbarrier_arrive_noinc(std::uint64_t* barrier RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(shared_u32(barrier))
               : "memory");
#else
  emulator::model::cp_async_mbarrier_arrive(shared_u32(barrier, where), true, where);
#endif
}

}  // namespace rungs::ptx
