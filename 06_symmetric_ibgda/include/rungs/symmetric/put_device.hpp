#pragma once
/// @file put_device.hpp
/// One-sided communication from a kernel. For kernel sources.
///
/// All threads of a block call these with the same arguments (each contains block barriers). `mine`
/// and `signal` are pointers into this rank's heap and name the peer's copy; `from` may be any
/// device memory for mapped peers, but must lie in the heap for peers over the network. What the
/// block's threads wrote there before the call is put.
///
/// put(c, peer, mine, from, bytes)
///     The bytes are there when a later put_signal or signal_* of this block to this peer, or a
///     barrier, has been seen.
/// put_signal(c, peer, mine, from, bytes, s, value)
///     The bytes are there before word s has `value`.
/// signal_set(c, peer, s, value), signal_add(c, peer, s, value)
///     All earlier puts of this block to this peer are there before the change of word s. Adding is
///     atomic; all writers of one word must reach it alike: mapped, or over the network.
/// get(c, peer, to, mine, bytes)
///     `to` holds the peer's bytes; over the network `to` lies in the heap. False: gave up.
/// wait_signal(c, s, value, peer)
///     This rank's word s, which `peer` writes, is at least `value` (acquire). False: gave up.
/// quiet(c, peer)
///     Earlier puts of this block have left `from` and arrived. False: gave up.
/// barrier(c)
///     Every rank has called it, in one block each; what was put before has arrived. False: gave
///     up.
///
/// bytes: any number, 0 included; aligned to 16 they move 16 at a time. After a wait has given up
/// (fault written or abort seen) every further wait returns false at its first look; nothing traps.
///
///     flag            writer                            reader         resets
///     signal word     whoever the caller says           this rank      nobody: it only grows
///     barrier_flags   [i]: rank i                       this rank      nobody: epochs
///     barrier_epoch   this rank's barrier               the next one   nobody
///     there (shared)  thread 0, before a block barrier  all threads    overwritten
///     abort, claim, fault   as in ptx/wait.hpp

#include <rungs/gpu/kernel.hpp>
#include <rungs/ptx/atomic.hpp>
#include <rungs/ptx/fence.hpp>
#include <rungs/ptx/memory.hpp>
#include <rungs/ptx/sync.hpp>
#include <rungs/ptx/wait.hpp>
#include <rungs/symmetric/context_args.hpp>
#include <rungs/symmetric/network_device.hpp>

#include <cstddef>
#include <cstdint>

namespace rungs::symmetric {
namespace detail {

/// Copies `bytes` with all threads of the block.
template <class Unit>
RUNGS_DEVICE void copy_units(void* to, const void* from, std::size_t units) {
  Unit* const target = static_cast<Unit*>(to);
  const Unit* const source = static_cast<const Unit*>(from);
  for (std::size_t i = threadIdx.x; i < units; i += blockDim.x) target[i] = source[i];
}

struct alignas(16) Chunk {
  std::uint64_t words[2];
};

RUNGS_DEVICE void copy_bytes(void* to, const void* from, std::size_t bytes) {
  const std::uint64_t bits = reinterpret_cast<std::uintptr_t>(to) |
                             reinterpret_cast<std::uintptr_t>(from) | std::uint64_t{bytes};
  if (bits % sizeof(Chunk) == 0) return copy_units<Chunk>(to, from, bytes / sizeof(Chunk));
  if (bits % 4 == 0) return copy_units<std::uint32_t>(to, from, bytes / 4);
  copy_units<std::uint8_t>(to, from, bytes);
}

/// One thread: waits until *word >= value (acquire, system scope).
RUNGS_DEVICE bool wait_word(const DeviceContext& c, const std::uint64_t* word, std::uint64_t value,
                            int peer, Awaited awaited) {
  gpu::Wait wait(c.wait());
  for (;;) {
    const std::uint64_t seen = ptx::ld_acquire_sys(word);
    if (seen >= value) return true;
    if (wait.give_up(0, peer, static_cast<std::uint32_t>(c.offset(word) / 8),
                     static_cast<std::uint32_t>(awaited), value, seen))
      return false;
  }
}

/// What thread 0 found, told to all threads of the block. Ends with a block barrier, so that
/// `there` may be used again.
template <class Ask>
RUNGS_DEVICE bool ask_thread_0(const Ask& ask) {
  RUNGS_SHARED(std::uint32_t, there);
  ptx::syncthreads();
  if (threadIdx.x == 0) there = ask() ? 1 : 0;
  ptx::syncthreads();
  const bool answer = there != 0;
  ptx::syncthreads();
  return answer;
}

}  // namespace detail

/// See the head of this file. Block.
RUNGS_DEVICE void put(const DeviceContext& c, int peer, void* mine, const void* from,
                      std::size_t bytes) {
  if (bytes == 0) return;
  // What all threads of the block have written to `from` is put.
  ptx::syncthreads();
  if (c.heap[peer] != nullptr) {
    detail::copy_bytes(c.at(peer, static_cast<std::byte*>(mine)), from, bytes);
    return;
  }
  if (threadIdx.x == 0) network_put(c, peer, c.offset(mine), c.offset(from), bytes);
}

/// See the head of this file. Block.
RUNGS_DEVICE void signal_set(const DeviceContext& c, int peer, std::uint64_t* signal,
                             std::uint64_t value) {
  // What all threads have stored comes before thread 0's release.
  ptx::syncthreads();
  if (threadIdx.x != 0) return;
  if (c.heap[peer] != nullptr) {
    ptx::st_release_sys(c.at(peer, signal), value);
  } else {
    network_signal(c, peer, c.offset(signal), value, false);
  }
}

/// See the head of this file. Block.
RUNGS_DEVICE void signal_add(const DeviceContext& c, int peer, std::uint64_t* signal,
                             std::uint64_t value) {
  ptx::syncthreads();
  if (threadIdx.x != 0) return;
  if (c.heap[peer] != nullptr) {
    ptx::fence_acq_rel_sys();
    ptx::red_add_sys(c.at(peer, signal), value);
  } else {
    network_signal(c, peer, c.offset(signal), value, true);
  }
}

/// See the head of this file. Block.
RUNGS_DEVICE void put_signal(const DeviceContext& c, int peer, void* mine, const void* from,
                             std::size_t bytes, std::uint64_t* signal, std::uint64_t value) {
  if (c.heap[peer] != nullptr || bytes == 0) {
    put(c, peer, mine, from, bytes);
    signal_set(c, peer, signal, value);
    return;
  }
  ptx::syncthreads();
  if (threadIdx.x == 0)
    network_put_signal(c, peer, c.offset(mine), c.offset(from), bytes, c.offset(signal), value);
}

/// See the head of this file. Block.
RUNGS_DEVICE bool get(const DeviceContext& c, int peer, void* to, const void* mine,
                      std::size_t bytes) {
  if (c.heap[peer] != nullptr) {
    detail::copy_bytes(to, c.at(peer, static_cast<const std::byte*>(mine)), bytes);
    ptx::syncthreads();
    return true;
  }
  return detail::ask_thread_0(
      [&] { return network_get(c, peer, c.offset(to), c.offset(mine), bytes); });
}

/// See the head of this file. Block.
RUNGS_DEVICE bool wait_signal(const DeviceContext& c, const std::uint64_t* signal,
                              std::uint64_t value, int peer) {
  return detail::ask_thread_0(
      [&] { return detail::wait_word(c, signal, value, peer, Awaited::kSignal); });
}

/// See the head of this file. Block.
RUNGS_DEVICE bool quiet(const DeviceContext& c, int peer) {
  if (c.heap[peer] != nullptr) {
    ptx::syncthreads();
    return true;
  }
  return detail::ask_thread_0([&] { return network_quiet(c, peer); });
}

/// All ranks, one block of each; calls on one context run one after the other. See the head of this
/// file.
RUNGS_DEVICE bool barrier(const DeviceContext& c) {
  const std::uint64_t epoch = ptx::ld_relaxed_gpu(c.barrier_epoch) + 1;
  // 1. Announce: the next rank first, so that no peer hears all at once.
  for (int step = 1; step < c.size; ++step) {
    const int peer = c.rank + step < c.size ? c.rank + step : c.rank + step - c.size;
    signal_set(c, peer, c.barrier_flags + c.rank, epoch);
  }
  // 2. Wait for every announcement.
  const bool passed = detail::ask_thread_0([&] {
    for (int step = 1; step < c.size; ++step) {
      const int peer = c.rank + step < c.size ? c.rank + step : c.rank + step - c.size;
      if (!detail::wait_word(c, c.barrier_flags + peer, epoch, peer, Awaited::kBarrier))
        return false;
    }
    return true;
  });
  // 3. Everybody has read the epoch.
  if (threadIdx.x == 0) ptx::st_relaxed_gpu(c.barrier_epoch, epoch);
  ptx::syncthreads();
  return passed;
}

}  // namespace rungs::symmetric
