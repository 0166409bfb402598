#pragma once
/// @file network_device.hpp
/// One-sided operations over the network, for kernel sources: what put_device.hpp calls for peers
/// with Reach::kNetwork.
///
/// One thread calls, for itself. Offsets are in the heaps: the caller's and the peer's. What other
/// threads of the block wrote into the heap is sent if a block barrier stands between.
///
///     function             what holds
///     network_put          all puts and signals of one thread to one peer arrive in its order;
///                          the bytes may be overwritten here after network_quiet()
///     network_put_signal   the bytes are there before the signal word has `value`
///     network_signal       sets or adds; behind all earlier puts of this thread to this peer
///     network_get          returns when the bytes are here
///     network_quiet        returns when what this thread posted to the peer is completed (and what
///                          others had posted when it was called)
///
/// Each returns false when it gave up: the fault record is written or abort was seen. Any number of
/// threads and blocks may call at once.

#include <rungs/symmetric/network_proxy_device.hpp>
#include <rungs/symmetric/network_queue_device.hpp>

namespace rungs::symmetric {

/// Writes `bytes` (any number) from this rank's heap into the peer's. One thread.
RUNGS_DEVICE bool network_put(const DeviceContext& context, int peer, std::uint64_t remote_offset,
                              std::uint64_t local_offset, std::uint64_t bytes) {
  if (bytes == 0) return true;
  if (context.network == Network::kGpuInitiated) {
    return detail::queue_put(context, peer, remote_offset, local_offset, bytes);
  }
  return detail::proxy_post(context, {.remote_offset = remote_offset,
                                      .local_offset = local_offset,
                                      .bytes = bytes,
                                      .operations = kProxyPut,
                                      .peer = peer});
}

/// The same, and then sets the 8-byte word at `signal_offset` of the peer's heap (a multiple of 8)
/// to `value`. Who sees the value (acquire, system scope) sees the bytes. One thread.
RUNGS_DEVICE bool network_put_signal(const DeviceContext& context, int peer,
                                     std::uint64_t remote_offset, std::uint64_t local_offset,
                                     std::uint64_t bytes, std::uint64_t signal_offset,
                                     std::uint64_t value) {
  if (context.network == Network::kGpuInitiated) {
    return detail::queue_put_signal(context, peer, remote_offset, local_offset, bytes,
                                    signal_offset, value);
  }
  return detail::proxy_post(context, {.remote_offset = remote_offset,
                                      .local_offset = local_offset,
                                      .bytes = bytes,
                                      .signal_offset = signal_offset,
                                      .value = value,
                                      .operations = kProxyPut | kProxySignalSet,
                                      .peer = peer});
}

/// Sets the word at `signal_offset` to `value`, or adds `value` to it, atomically among all adds
/// that reach it over an HCA. One thread.
RUNGS_DEVICE bool network_signal(const DeviceContext& context, int peer,
                                 std::uint64_t signal_offset, std::uint64_t value, bool add) {
  if (context.network == Network::kGpuInitiated) {
    return detail::queue_signal(context, peer, signal_offset, value, add);
  }
  return detail::proxy_post(context, {.signal_offset = signal_offset,
                                      .value = value,
                                      .operations = add ? kProxySignalAdd : kProxySignalSet,
                                      .peer = peer});
}

/// Waits until all that was posted to `peer` before this call is completed: sent bytes may be
/// overwritten here, and are in the peer's memory. One thread.
RUNGS_DEVICE bool network_quiet(const DeviceContext& context, int peer) {
  return context.network == Network::kGpuInitiated ? detail::queue_quiet(context, peer)
                                                   : detail::proxy_quiet(context, peer);
}

/// Reads `bytes` of the peer's heap into this rank's; they are here when it returns. One thread;
/// for its block after a barrier.
RUNGS_DEVICE bool network_get(const DeviceContext& context, int peer, std::uint64_t local_offset,
                              std::uint64_t remote_offset, std::uint64_t bytes) {
  if (bytes == 0) return true;
  if (context.network == Network::kGpuInitiated) {
    return detail::queue_get(context, peer, local_offset, remote_offset, bytes);
  }
  return detail::proxy_post(context, {.remote_offset = remote_offset,
                                      .local_offset = local_offset,
                                      .bytes = bytes,
                                      .operations = kProxyGet,
                                      .peer = peer}) &&
         detail::proxy_quiet(context, peer);
}

}  // namespace rungs::symmetric
