#pragma once
/// @file network_proxy_device.hpp
/// Work requests posted by a thread of the CPU that the kernel asks: the naive way. For kernel
/// sources; the functions that kernels call are in network_device.hpp.
///
///     1  reserve    a slot of the ring in host memory: an atomic add; wait until it is free
///     2  write      the descriptor, its sequence number last
///     3  wait       (quiet, get) until the proxy's count of completions reaches the posted ones
///
/// Cost: descriptor over PCIe, a poll of the proxy, then what the proxy does with verbs; one thread
/// serves all blocks and all peers.

#include <rungs/ptx/fence.hpp>
#include <rungs/symmetric/network_args.hpp>
#include <rungs/symmetric/network_wait_device.hpp>

#include <cstdint>

namespace rungs::symmetric::detail {

/// Waits until slot and sequence number `index` may be written.
RUNGS_DEVICE bool wait_for_slot(const DeviceContext& context, ProxyQueue& proxy, int peer,
                                std::uint64_t index) {
  if (index < proxy.slot_count) return true;
  const std::uint64_t needed = index - proxy.slot_count + 1;
  if (ptx::peek_relaxed_gpu(&proxy.taken_seen) >= needed) {
    ptx::fence_acq_rel_gpu();
    return true;
  }
  NetworkWait wait(context, peer, Awaited::kQueueSlot, index);
  for (;;) {
    const std::uint64_t taken = ptx::ld_acquire_sys(proxy.taken);
    if (taken >= needed) {
      // An older count that overwrites a newer one does no harm.
      ptx::st_release_gpu(&proxy.taken_seen, taken);
      return true;
    }
    if (wait.give_up(needed, taken)) return false;
  }
}

RUNGS_DEVICE bool proxy_post(const DeviceContext& context, const ProxyDescriptor& descriptor) {
  ProxyQueue& proxy = *context.proxy;
  // Counted first: whoever waits for the count then waits for every slot reserved before.
  ptx::atomic_add_gpu(&proxy.posted[descriptor.peer], 1);
  ptx::fence_acq_rel_gpu();
  const std::uint64_t index = ptx::atomic_add_gpu(&proxy.reserved, 1);
  if (!wait_for_slot(context, proxy, descriptor.peer, index)) return false;
  ProxyDescriptor& slot = proxy.slots[index & (proxy.slot_count - 1)];
  slot.remote_offset = descriptor.remote_offset;
  slot.local_offset = descriptor.local_offset;
  slot.bytes = descriptor.bytes;
  slot.signal_offset = descriptor.signal_offset;
  slot.value = descriptor.value;
  slot.operations = descriptor.operations;
  slot.peer = descriptor.peer;
  // Payload and descriptor, before the number that says so.
  ptx::fence_acq_rel_sys();
  ptx::st_release_sys(&slot.sequence, index + 1);
  return true;
}

RUNGS_DEVICE bool proxy_quiet(const DeviceContext& context, int peer) {
  ProxyQueue& proxy = *context.proxy;
  const std::uint64_t posted = ptx::peek_relaxed_gpu(&proxy.posted[peer]);
  const std::uint64_t* const done = proxy.done + peer * kProxyDoneStride;
  NetworkWait wait(context, peer, Awaited::kCompletion, posted);
  for (;;) {
    const std::uint64_t seen = ptx::ld_acquire_sys(done);
    if (seen >= posted) return true;
    if (wait.give_up(posted, seen)) return false;
  }
}

}  // namespace rungs::symmetric::detail
