#pragma once
/// @file protocol_device.hpp
/// The contract between algorithms (root, ring, later tree) and protocols (Simple, LL, LL128): how
/// one block moves one chunk over one link. For kernel sources.
///
/// An algorithm is a template over a protocol type P. `P::Primitives<T, O>` (O: Sum, Max, Avg or a
/// Partial of them) is constructed by all threads of a block and offers the calls below; every
/// thread makes the same calls with the same arguments. One call handles one step of the receive
/// link, of the send link, or of both: at most chunk() elements, which fit one slot. `count` may be
/// 0: the step still passes, so that both sides keep counting alike.
///
///     Primitives(const KernelArgs&, int channel, int recv_peer, int send_peer);   // -1: none
///     chunk()                              elements that one slot carries: the same for
///                                          every rank, a multiple of 16 bytes
///     send(from, n)                        from -> peer
///     recv(to, n)                          peer -> to
///     copy_send(from, to, n)               from -> to and peer
///     recv_copy_send(to, n)                peer -> to and on to the next
///     recv_reduce_send(mine, n)            op(peer's, mine) -> next
///     recv_reduce_copy(mine, to, n)        op(peer's, mine), finished -> to
///     recv_reduce_copy_send(mine, to, n)   op(peer's, mine), finished -> to and next
///     ~Primitives()                        stores the step counters: the next launch goes on there
///
/// "Finished": O::finish(value, ranks), the division of an average. `mine` and `to` may be the same
/// memory. User pointers are aligned to the element only. One kernel may construct several objects
/// over the same links, one after the other: a constructor waits (block barrier) until what the
/// last destructor stored can be read. (Simple also lets a later call read what an earlier one
/// wrote to `to`; the root algorithm needs that, the ring does not.) After a wait has given up
/// (fault written or abort seen) every further call returns at once; nothing traps.

#include <rungs/collectives/kernel_args.hpp>
#include <rungs/gpu/kernel.hpp>

#include <concepts>
#include <cstddef>

namespace rungs::collectives {

/// What a Primitives<T, O> offers.
template <class P, class T>
concept ProtocolPrimitives = requires(P p, const T* from, T* to, std::size_t n) {
  { p.chunk() } -> std::convertible_to<std::size_t>;
  p.send(from, n);
  p.recv(to, n);
  p.copy_send(from, to, n);
  p.recv_copy_send(to, n);
  p.recv_reduce_send(from, n);
  p.recv_reduce_copy(from, to, n);
  p.recv_reduce_copy_send(from, to, n);
};

}  // namespace rungs::collectives
