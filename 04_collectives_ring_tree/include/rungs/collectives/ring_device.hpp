#pragma once
/// @file ring_device.hpp
/// Collectives around a ring of ranks, and all-to-all in pairs, over any protocol P
/// (protocol_device.hpp). For kernel sources: one block runs one channel.
///
///     all-reduce, 3 ranks, chunks a, b, c  place 0    place 1    place 2
///       reduce  step 0      send              c          a          b
///               steps 1..n-2  add, pass on    b          c          a
///               step n-1    add: complete     a          b          c         ... and pass on
///       gather  steps 1..n-2  keep, pass on   c          a          b
///               last        keep              b          c          a
///
/// Every chunk is added up in one order, along the ring, and handed on as it is: all ranks get the
/// same bits, in every run. A rank sends and receives 2(n - 1)/n of the data, whatever n.
///
/// Credit: a rank sends one chunk before it takes one, so at most n chunks are under way in n
/// links. A chunk is kChunkSlots slots and a link holds kSlots. With kChunkSlots = kSlots all links
/// could be full, each rank waiting for the next to drain: a deadlock. Half of it lets a slot be
/// filled while the one before it is being drained.

#include <rungs/collectives/protocol_device.hpp>
#include <rungs/collectives/reduce_device.hpp>

#include <cstddef>
#include <cstdint>

namespace rungs::collectives {

/// Slots that a rank fills in one step before it goes on to the next.
inline constexpr int kChunkSlots = kSlots / 2;

namespace detail {

/// A range of elements.
struct Span {
  std::size_t begin;
  std::size_t end;
};

RUNGS_DEVICE std::size_t least(std::size_t a, std::size_t b) { return a < b ? a : b; }
/// ceil(a / parts), rounded up to a multiple of `unit`.
RUNGS_DEVICE std::size_t part(std::size_t a, std::size_t parts, std::size_t unit) {
  return ((a + parts - 1) / parts + unit - 1) / unit * unit;
}

/// The elements that this channel moves; cut at multiples of 128 bytes.
template <class T>
RUNGS_DEVICE Span channel_share(const KernelArgs& args, int channel) {
  const std::size_t each =
      part(args.count, static_cast<std::size_t>(args.channels), 128 / sizeof(T));
  const std::size_t begin = least(args.count, each * static_cast<std::size_t>(channel));
  return {begin, least(args.count, begin + each)};
}

/// The ring of a channel as one rank sees it.
class RingView {
 public:
  RUNGS_DEVICE RingView(const DeviceCommunicator& c, int channel)
      : order_(c.ring + channel * c.size),
        size_(c.size),
        place_(c.place[channel]) {}
  RUNGS_DEVICE int size() const { return size_; }
  RUNGS_DEVICE int place() const { return place_; }
  /// The place `steps` before this rank's, for steps in [0, size].
  RUNGS_DEVICE int place_before(int steps) const {
    const int place = place_ - steps;
    return place < 0 ? place + size_ : place;
  }
  RUNGS_DEVICE int rank_before(int steps) const { return order_[place_before(steps)]; }
  RUNGS_DEVICE int previous() const { return rank_before(1); }
  RUNGS_DEVICE int next() const { return rank_before(size_ - 1); }

 private:
  const int* order_;
  int size_;
  int place_;
};

/// Calls move(at, count) for each slot of the chunk [begin, begin + length) of the data, which ends
/// at `end`. The number of calls depends on `length` only: it is the same on every rank.
template <class Move>
RUNGS_DEVICE void for_slots(std::size_t begin, std::size_t length, std::size_t end,
                            std::size_t slot, const Move& move) {
  for (std::size_t done = 0; done < length; done += slot) {
    const std::size_t at = least(begin + done, end);
    move(at, least(least(slot, length - done), end - at));
  }
}

}  // namespace detail

/// recv[i] = O over ranks of send[i]. All threads of the block.
template <class P, class T, class O>
RUNGS_DEVICE void ring_all_reduce(const KernelArgs& args) {
  const T* const send = static_cast<const T*>(args.send);
  T* const recv = static_cast<T*>(args.recv);
  const int channel = static_cast<int>(blockIdx.x);
  const detail::RingView ring(*args.communicator, channel);
  const int n = ring.size();
  const detail::Span share = detail::channel_share<T>(args, channel);
  typename P::template Primitives<T, O> link(args, channel, ring.previous(), ring.next());
  const std::size_t slot = link.chunk();

  std::size_t base = share.begin;
  while (base < share.end) {
    const auto ranks = static_cast<std::size_t>(n);
    const std::size_t chunk =
        detail::least(kChunkSlots * slot, detail::part(share.end - base, ranks, 16 / sizeof(T)));
    // The chunk that set out at the place `steps` before this one.
    const auto in_chunk = [&](int steps, const auto& move) {
      const auto index = static_cast<std::size_t>(ring.place_before(steps));
      detail::for_slots(base + index * chunk, chunk, share.end, slot, move);
    };
    // 1. Send the chunk that will be complete one place back.
    in_chunk(1, [&](std::size_t at, std::size_t count) { link.send(send + at, count); });
    // 2. Add mine to what comes along and pass it on.
    for (int step = 2; step < n; ++step) {
      in_chunk(step,
               [&](std::size_t at, std::size_t count) { link.recv_reduce_send(send + at, count); });
    }
    // 3. My own chunk has been everywhere else: complete. Keep it and send it round.
    in_chunk(0, [&](std::size_t at, std::size_t count) {
      link.recv_reduce_copy_send(send + at, recv + at, count);
    });
    // 4. Keep the others' complete chunks and pass them on.
    for (int step = 1; step < n - 1; ++step) {
      in_chunk(step,
               [&](std::size_t at, std::size_t count) { link.recv_copy_send(recv + at, count); });
    }
    // 5. The last one has been everywhere.
    in_chunk(n - 1, [&](std::size_t at, std::size_t count) { link.recv(recv + at, count); });
    base += ranks * chunk;
  }
}

/// recv[r * count + i] = rank r's send[i]. All threads of the block.
template <class P, class T>
RUNGS_DEVICE void ring_all_gather(const KernelArgs& args) {
  const T* const send = static_cast<const T*>(args.send);
  T* const recv = static_cast<T*>(args.recv);
  const int channel = static_cast<int>(blockIdx.x);
  const detail::RingView ring(*args.communicator, channel);
  const int n = ring.size();
  const detail::Span share = detail::channel_share<T>(args, channel);
  typename P::template Primitives<T, Sum> link(args, channel, ring.previous(), ring.next());
  const std::size_t slot = link.chunk();
  const auto part_of = [&](int rank) { return recv + static_cast<std::size_t>(rank) * args.count; };
  const bool in_place = part_of(args.communicator->rank) == send;

  for (std::size_t base = share.begin; base < share.end; base += kChunkSlots * slot) {
    const std::size_t chunk = detail::least(kChunkSlots * slot, share.end - base);
    // 1. Keep my own part and send it.
    T* to = part_of(args.communicator->rank);
    detail::for_slots(base, chunk, share.end, slot, [&](std::size_t at, std::size_t count) {
      if (in_place) {
        link.send(send + at, count);
      } else {
        link.copy_send(send + at, to + at, count);
      }
    });
    // 2. Keep what comes along and pass it on.
    for (int step = 1; step < n - 1; ++step) {
      to = part_of(ring.rank_before(step));
      detail::for_slots(base, chunk, share.end, slot, [&](std::size_t at, std::size_t count) {
        link.recv_copy_send(to + at, count);
      });
    }
    // 3. The next rank's part has been everywhere.
    to = part_of(ring.next());
    detail::for_slots(base, chunk, share.end, slot,
                      [&](std::size_t at, std::size_t count) { link.recv(to + at, count); });
  }
}

/// recv[i] = O over ranks of send[rank * count + i]. All threads of the block.
template <class P, class T, class O>
RUNGS_DEVICE void ring_reduce_scatter(const KernelArgs& args) {
  const T* const send = static_cast<const T*>(args.send);
  T* const recv = static_cast<T*>(args.recv);
  const int channel = static_cast<int>(blockIdx.x);
  const detail::RingView ring(*args.communicator, channel);
  const int n = ring.size();
  const detail::Span share = detail::channel_share<T>(args, channel);
  typename P::template Primitives<T, O> link(args, channel, ring.previous(), ring.next());
  const std::size_t slot = link.chunk();
  const auto part_of = [&](int rank) { return send + static_cast<std::size_t>(rank) * args.count; };

  for (std::size_t base = share.begin; base < share.end; base += kChunkSlots * slot) {
    const std::size_t chunk = detail::least(kChunkSlots * slot, share.end - base);
    // 1. Send my share of the previous rank's result: it ends there, after a whole round.
    const T* mine = part_of(ring.previous());
    detail::for_slots(base, chunk, share.end, slot,
                      [&](std::size_t at, std::size_t count) { link.send(mine + at, count); });
    // 2. Add mine to what comes along and pass it on.
    for (int step = 2; step < n; ++step) {
      mine = part_of(ring.rank_before(step));
      detail::for_slots(base, chunk, share.end, slot, [&](std::size_t at, std::size_t count) {
        link.recv_reduce_send(mine + at, count);
      });
    }
    // 3. My own result comes in complete but for my share.
    mine = part_of(args.communicator->rank);
    detail::for_slots(base, chunk, share.end, slot, [&](std::size_t at, std::size_t count) {
      link.recv_reduce_copy(mine + at, recv + at, count);
    });
  }
}

/// recv[i] = root's send[i]: a chain from the root round the ring. All threads of the block.
template <class P, class T>
RUNGS_DEVICE void ring_broadcast(const KernelArgs& args) {
  const T* const send = static_cast<const T*>(args.send);
  T* const recv = static_cast<T*>(args.recv);
  const int channel = static_cast<int>(blockIdx.x);
  const detail::RingView ring(*args.communicator, channel);
  const bool first = args.communicator->rank == args.root;
  const bool last = ring.next() == args.root;
  const detail::Span share = detail::channel_share<T>(args, channel);
  typename P::template Primitives<T, Sum> link(args, channel, first ? -1 : ring.previous(),
                                               last ? -1 : ring.next());
  const auto each = [&](const auto& move) {
    detail::for_slots(share.begin, share.end - share.begin, share.end, link.chunk(), move);
  };

  if (first && send == recv) {
    each([&](std::size_t at, std::size_t count) { link.send(send + at, count); });
  } else if (first) {
    each([&](std::size_t at, std::size_t count) { link.copy_send(send + at, recv + at, count); });
  } else if (last) {
    each([&](std::size_t at, std::size_t count) { link.recv(recv + at, count); });
  } else {
    each([&](std::size_t at, std::size_t count) { link.recv_copy_send(recv + at, count); });
  }
}

/// recv[r * count + i] = rank r's send[rank * count + i]: in round j every rank sends to the one j
/// further and takes from the one j before, so that all links work and none twice. All threads of
/// the block.
template <class P, class T>
RUNGS_DEVICE void pairwise_all_to_all(const KernelArgs& args) {
  const T* const send = static_cast<const T*>(args.send);
  T* const recv = static_cast<T*>(args.recv);
  const int channel = static_cast<int>(blockIdx.x);
  const int rank = args.communicator->rank;
  const int n = args.communicator->size;
  const detail::Span share = detail::channel_share<T>(args, channel);
  const auto part_of = [&](auto* base, int peer) {
    return base + static_cast<std::size_t>(peer) * args.count;
  };

  copy(part_of(recv, rank) + share.begin, part_of(send, rank) + share.begin,
       share.end - share.begin);
  for (int round = 1; round < n; ++round) {
    const int to = rank + round < n ? rank + round : rank + round - n;
    const int from = rank >= round ? rank - round : rank - round + n;
    typename P::template Primitives<T, Sum> link(args, channel, from, to);
    detail::for_slots(share.begin, share.end - share.begin, share.end, link.chunk(),
                      [&](std::size_t at, std::size_t count) {
                        link.send(part_of(send, to) + at, count);
                        link.recv(part_of(recv, from) + at, count);
                      });
  }
}

}  // namespace rungs::collectives
