#pragma once
/// @file root_device.hpp
/// The naive collectives: everything goes to one rank, which works it out and sends it back. Over
/// any protocol P whose later calls see what earlier ones wrote (Simple). For kernel sources: one
/// block runs one channel.
///
/// All ranks go through the same list of (source, destination, slot) in the same order, so a rank
/// that waits always waits for something that the others do before. That it cannot deadlock is all
/// that is good about it: the root's links carry n - 1 times the data, one peer after the other.

#include <rungs/collectives/protocol_device.hpp>
#include <rungs/collectives/reduce_device.hpp>
#include <rungs/collectives/ring_device.hpp>

#include <cstddef>
#include <cstdint>

namespace rungs::collectives {

namespace detail {

/// One rank's view of a star.
template <class P, class T>
class Star {
 public:
  RUNGS_DEVICE explicit Star(const KernelArgs& args)
      : args_(args),
        share_(channel_share<T>(args, channel())) {
    const typename P::template Primitives<T, Sum> none(args, channel(), -1, -1);
    slot_ = none.chunk();
  }
  RUNGS_DEVICE int rank() const { return args_.communicator->rank; }
  RUNGS_DEVICE int size() const { return args_.communicator->size; }
  RUNGS_DEVICE bool is_root() const { return rank() == args_.root; }
  RUNGS_DEVICE T* scratch() const {
    const DeviceCommunicator& c = *args_.communicator;
    return reinterpret_cast<T*>(c.scratch + static_cast<std::size_t>(channel()) *
                                                c.slot_bytes[static_cast<int>(P::kId)]);
  }
  /// Rank `peer`'s part of a buffer of all ranks' parts.
  template <class U>
  RUNGS_DEVICE U* part_of(U* base, int peer) const {
    return base + static_cast<std::size_t>(peer) * args_.count;
  }
  template <class Move>
  RUNGS_DEVICE void for_each_slot(const Move& move) const {
    for_slots(share_.begin, share_.end - share_.begin, share_.end, slot_, move);
  }
  /// This channel's share of a local copy.
  RUNGS_DEVICE void copy_share(T* to, const T* from) const {
    copy(to + share_.begin, from + share_.begin, share_.end - share_.begin);
  }

  RUNGS_DEVICE void send_to(int peer, const T* from, std::size_t count) const {
    typename P::template Primitives<T, Sum> link(args_, channel(), -1, peer);
    link.send(from, count);
  }
  RUNGS_DEVICE void recv_from(int peer, T* to, std::size_t count) const {
    typename P::template Primitives<T, Sum> link(args_, channel(), peer, -1);
    link.recv(to, count);
  }
  RUNGS_DEVICE void forward(int from, int to, T* through, std::size_t count) const {
    typename P::template Primitives<T, Sum> link(args_, channel(), from, to);
    link.recv_copy_send(through, count);
  }
  /// At the root: to = O of mine and what each peer sends, in the order of ranks.
  template <class O>
  RUNGS_DEVICE void reduce_all(const T* mine, T* to, std::size_t count) const {
    const int last = args_.root == size() - 1 ? size() - 2 : size() - 1;
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == args_.root) continue;
      if (peer == last) {
        typename P::template Primitives<T, O> link(args_, channel(), peer, -1);
        link.recv_reduce_copy(mine, to, count);
      } else {
        typename P::template Primitives<T, Partial<O>> link(args_, channel(), peer, -1);
        link.recv_reduce_copy(mine, to, count);
      }
      mine = to;
    }
  }
  /// At the root: to every rank but itself and `except`.
  RUNGS_DEVICE void send_to_all(const T* from, std::size_t count, int except = -1) const {
    for (int peer = 0; peer < size(); ++peer) {
      if (peer != args_.root && peer != except) send_to(peer, from, count);
    }
  }

 private:
  RUNGS_DEVICE static int channel() { return static_cast<int>(blockIdx.x); }
  const KernelArgs& args_;
  Span share_;
  std::size_t slot_ = 0;
};

}  // namespace detail

/// recv[i] = O over ranks of send[i]. All threads of the block, as all functions below.
template <class P, class T, class O>
RUNGS_DEVICE void root_all_reduce(const KernelArgs& args) {
  const detail::Star<P, T> star(args);
  const T* const send = static_cast<const T*>(args.send);
  T* const recv = static_cast<T*>(args.recv);
  star.for_each_slot([&](std::size_t at, std::size_t count) {
    if (star.is_root()) {
      star.template reduce_all<O>(send + at, recv + at, count);
      star.send_to_all(recv + at, count);
    } else {
      star.send_to(args.root, send + at, count);
      star.recv_from(args.root, recv + at, count);
    }
  });
}

/// recv[i] = O over ranks of send[rank * count + i]. What belongs to others goes through scratch.
template <class P, class T, class O>
RUNGS_DEVICE void root_reduce_scatter(const KernelArgs& args) {
  const detail::Star<P, T> star(args);
  const T* const send = static_cast<const T*>(args.send);
  T* const recv = static_cast<T*>(args.recv);
  for (int owner = 0; owner < star.size(); ++owner) {
    const T* const mine = star.part_of(send, owner);
    star.for_each_slot([&](std::size_t at, std::size_t count) {
      if (!star.is_root()) {
        star.send_to(args.root, mine + at, count);
        if (star.rank() == owner) star.recv_from(args.root, recv + at, count);
      } else if (owner == args.root) {
        star.template reduce_all<O>(mine + at, recv + at, count);
      } else {
        star.template reduce_all<O>(mine + at, star.scratch(), count);
        star.send_to(owner, star.scratch(), count);
      }
    });
  }
}

/// recv[r * count + i] = rank r's send[i].
template <class P, class T>
RUNGS_DEVICE void root_all_gather(const KernelArgs& args) {
  const detail::Star<P, T> star(args);
  const T* const send = static_cast<const T*>(args.send);
  T* const recv = static_cast<T*>(args.recv);
  star.copy_share(star.part_of(recv, star.rank()), send);
  for (int source = 0; source < star.size(); ++source) {
    T* const to = star.part_of(recv, source);
    star.for_each_slot([&](std::size_t at, std::size_t count) {
      if (star.is_root()) {
        if (source != args.root) star.recv_from(source, to + at, count);
        star.send_to_all(source == args.root ? send + at : to + at, count, source);
      } else if (star.rank() == source) {
        star.send_to(args.root, send + at, count);
      } else {
        star.recv_from(args.root, to + at, count);
      }
    });
  }
}

/// recv[i] = root's send[i].
template <class P, class T>
RUNGS_DEVICE void root_broadcast(const KernelArgs& args) {
  const detail::Star<P, T> star(args);
  const T* const send = static_cast<const T*>(args.send);
  T* const recv = static_cast<T*>(args.recv);
  if (star.is_root()) star.copy_share(recv, send);
  star.for_each_slot([&](std::size_t at, std::size_t count) {
    if (star.is_root()) {
      star.send_to_all(send + at, count);
    } else {
      star.recv_from(args.root, recv + at, count);
    }
  });
}

/// recv[r * count + i] = rank r's send[rank * count + i]. The root passes on what is not its own.
template <class P, class T>
RUNGS_DEVICE void root_all_to_all(const KernelArgs& args) {
  const detail::Star<P, T> star(args);
  const T* const send = static_cast<const T*>(args.send);
  T* const recv = static_cast<T*>(args.recv);
  const int me = star.rank();
  star.copy_share(star.part_of(recv, me), star.part_of(send, me));
  for (int from = 0; from < star.size(); ++from) {
    for (int to = 0; to < star.size(); ++to) {
      if (from == to) continue;
      const T* const out = star.part_of(send, to);
      T* const in = star.part_of(recv, from);
      star.for_each_slot([&](std::size_t at, std::size_t count) {
        if (me == from) {
          star.send_to(star.is_root() ? to : args.root, out + at, count);
        } else if (me == to) {
          star.recv_from(star.is_root() ? from : args.root, in + at, count);
        } else if (star.is_root()) {
          star.forward(from, to, star.scratch(), count);
        }
      });
    }
  }
}

}  // namespace rungs::collectives
