#pragma once
/// @file sync.hpp
/// Barriers of a block, of warps and of clusters; shuffles and votes; register allocation; time.

#include <rungs/ptx/where.hpp>

#include <cstring>
#include <type_traits>

#if !RUNGS_GPU_CUDA
#include <rungs/emulator/model_memory.hpp>
#endif

namespace rungs::ptx {

/// Waits for all threads of the block; their writes to shared and global memory are visible
/// afterwards. All threads of the block. PTX: barrier.sync 0 (9.7.13, "barrier").
RUNGS_DEVICE void syncthreads(RUNGS_WHERE) {
#if RUNGS_GPU_CUDA
  __syncthreads();
#else
  emulator::model::block_barrier(0, -1, true, where);
#endif
}

/// Waits for the lanes of `mask`; orders their memory accesses.
/// Every lane of the mask, with the same mask. PTX: bar.warp.sync.
RUNGS_DEVICE void syncwarp(std::uint32_t mask = ~0u RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  __syncwarp(mask);
#else
  emulator::model::warp_collective(emulator::model::Collective::kSyncWarp, mask, 0, 0, where);
#endif
}

/// Waits until `threads` threads have arrived at barrier `id`; orders memory among them.
/// Whole warps. PTX: bar.sync id, threads.
/// @param id 0 to 15; 0 is syncthreads()'s
/// @param threads a multiple of 32, counting those of bar_arrive()
RUNGS_DEVICE void bar_sync(int id, int threads RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
#else
  emulator::model::block_barrier(id, threads, true, where);
#endif
}

/// Arrives at barrier `id` without waiting: the producer's half of bar_sync(). Releases earlier
/// writes. Whole warps. PTX: bar.arrive id, threads.
RUNGS_DEVICE void bar_arrive(int id, int threads RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
#else
  emulator::model::block_barrier(id, threads, false, where);
#endif
}

#if !RUNGS_GPU_CUDA
namespace detail {
template <class T>
T shuffle(emulator::model::Collective kind, std::uint32_t mask, T value, int argument,
          emulator::Location where) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
  std::uint64_t bits = 0;
  memcpy(&bits, &value, sizeof(T));
  bits = emulator::model::warp_collective(kind, mask, bits, static_cast<std::uint32_t>(argument),
                                          where);
  memcpy(&value, &bits, sizeof(T));
  return value;
}
}  // namespace detail
#endif

/// `value` of lane `lane` (modulo 32). Every lane of the mask; orders no memory. PTX:
/// shfl.sync.idx.
template <class T>
RUNGS_DEVICE T shfl_idx(std::uint32_t mask, T value, int lane RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  return __shfl_sync(mask, value, lane);
#else
  return detail::shuffle(emulator::model::Collective::kShuffleIndex, mask, value, lane, where);
#endif
}

/// `value` of lane (own lane ^ `lane_mask`). Every lane of the mask. PTX: shfl.sync.bfly.
template <class T>
RUNGS_DEVICE T shfl_xor(std::uint32_t mask, T value, int lane_mask RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  return __shfl_xor_sync(mask, value, lane_mask);
#else
  return detail::shuffle(emulator::model::Collective::kShuffleXor, mask, value, lane_mask, where);
#endif
}

/// `value` of lane (own lane + `delta`), or the own value past lane 31. Every lane of the mask.
/// PTX: shfl.sync.down.
template <class T>
RUNGS_DEVICE T shfl_down(std::uint32_t mask, T value, int delta RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  return __shfl_down_sync(mask, value, static_cast<unsigned>(delta));
#else
  return detail::shuffle(emulator::model::Collective::kShuffleDown, mask, value, delta, where);
#endif
}

/// `value` of lane (own lane - `delta`), or the own value below lane 0. Every lane of the mask.
/// PTX: shfl.sync.up.
template <class T>
RUNGS_DEVICE T shfl_up(std::uint32_t mask, T value, int delta RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  return __shfl_up_sync(mask, value, static_cast<unsigned>(delta));
#else
  return detail::shuffle(emulator::model::Collective::kShuffleUp, mask, value, delta, where);
#endif
}

/// Bit i: the predicate of lane i, for the lanes of the mask. Every lane of the mask. PTX:
/// vote.sync.ballot.
RUNGS_DEVICE std::uint32_t ballot(std::uint32_t mask, bool predicate RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  return __ballot_sync(mask, predicate);
#else
  return static_cast<std::uint32_t>(emulator::model::warp_collective(
      emulator::model::Collective::kBallot, mask, predicate, 0, where));
#endif
}

/// Whether any lane of the mask has a true predicate. Every lane of the mask. PTX: vote.sync.any.
RUNGS_DEVICE bool any(std::uint32_t mask, bool predicate RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  return __any_sync(mask, predicate) != 0;
#else
  return emulator::model::warp_collective(emulator::model::Collective::kAny, mask, predicate, 0,
                                          where) != 0;
#endif
}

/// Whether all lanes of the mask have a true predicate. Every lane of the mask. PTX: vote.sync.all.
RUNGS_DEVICE bool all(std::uint32_t mask, bool predicate RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  return __all_sync(mask, predicate) != 0;
#else
  return emulator::model::warp_collective(emulator::model::Collective::kAll, mask, predicate, 0,
                                          where) != 0;
#endif
}

/// True in exactly one lane of the warp, the same one every time. The whole warp, converged. PTX:
/// elect.sync.
RUNGS_DEVICE bool elect_one(RUNGS_WHERE) {
#if RUNGS_GPU_CUDA
  std::uint32_t elected;
  asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.b32 %0, 1, 0, p;\n}"
               : "=r"(elected)::"memory");
  return elected != 0;
#else
  return emulator::model::warp_collective(emulator::model::Collective::kElect, ~0u, 0, 0, where) !=
         0;
#endif
}

/// Raises the warp's registers a thread to `Registers` (a multiple of 8, 24 to 256, not below the
/// present number); waits until the block has them free. All warps of a warpgroup, aligned. PTX:
/// setmaxnreg.inc. The emulator keeps the accounts (model::set_registers()).
template <int Registers>
RUNGS_DEVICE void setmaxnreg_inc(RUNGS_WHERE) {
  static_assert(Registers % 8 == 0 && Registers >= 24 && Registers <= 256);
#if RUNGS_GPU_CUDA
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers));
#else
  emulator::model::set_registers(Registers, true, where);
#endif
}

/// Gives registers above `Registers` a thread (a multiple of 8, 24 to 256, not above the present
/// number) back to the block. All warps of a warpgroup, aligned. PTX: setmaxnreg.dec.
template <int Registers>
RUNGS_DEVICE void setmaxnreg_dec(RUNGS_WHERE) {
  static_assert(Registers % 8 == 0 && Registers >= 24 && Registers <= 256);
#if RUNGS_GPU_CUDA
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers));
#else
  emulator::model::set_registers(Registers, false, where);
#endif
}

/// Suspends the thread for about `nanoseconds` (0 to twice that). PTX: nanosleep.u32.
RUNGS_DEVICE void nanosleep(unsigned nanoseconds RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  __nanosleep(nanoseconds);
#else
  static_cast<void>(nanoseconds);
  emulator::model::yield(where);
#endif
}

/// A clock in nanoseconds, the same for all blocks; a GPU may step it by about a microsecond. PTX:
/// %globaltimer.
RUNGS_DEVICE std::uint64_t globaltimer_ns() {
#if RUNGS_GPU_CUDA
  std::uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)::"memory");
  return now;
#else
  return emulator::model::clock_ns();
#endif
}

/// This block's rank in its cluster. PTX: %cluster_ctarank.
RUNGS_DEVICE std::uint32_t cluster_rank() {
#if RUNGS_GPU_CUDA
  std::uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
#else
  return emulator::model::cluster_rank();
#endif
}

/// The shared::cluster address of `address` (from shared_u32()) in block `rank` of the cluster.
/// PTX: mapa.
RUNGS_DEVICE std::uint32_t map_shared(std::uint32_t address, std::uint32_t rank RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  std::uint32_t mapped;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(mapped) : "r"(address), "r"(rank));
  return mapped;
#else
  return emulator::model::map_shared(address, rank, where);
#endif
}

/// Arrives at the cluster's barrier; releases earlier writes. All threads of the cluster, aligned.
/// PTX: barrier.cluster.arrive.release.
RUNGS_DEVICE void cluster_arrive(RUNGS_WHERE) {
#if RUNGS_GPU_CUDA
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#else
  emulator::model::cluster_barrier_arrive(true, true, where);
#endif
}

/// Waits for the barrier that cluster_arrive() began; acquires. All threads of the cluster,
/// aligned. PTX: barrier.cluster.wait.acquire.
RUNGS_DEVICE void cluster_wait(RUNGS_WHERE) {
#if RUNGS_GPU_CUDA
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#else
  emulator::model::cluster_barrier_wait(true, where);
#endif
}

}  // namespace rungs::ptx
