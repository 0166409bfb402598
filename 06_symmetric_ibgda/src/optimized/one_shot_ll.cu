// All-reduce in one step: every rank gives its values to every other, and each adds up all of them.
//
// New against the ring over LL: one hop instead of 2(n - 1). The price is that a rank sends its
// whole buffer n - 1 times instead of twice, so it is for small ones.
// Layout: slots of the links as everywhere in stage 04, filled with stage 05's lines (8 bytes of
// data, 8 of flags). Line i of a step carries the same elements from every rank, and one thread
// handles it on both sides: a value is given away before it may be overwritten (in place).
// Cost: 1 step, 2 S (n - 1) bytes sent by a rank. Why lines, and not data with one counter behind
// it: for 8 bytes a counter costs a fence, two barriers and a second flight, lines cost 8 bytes.
// Sum: in the order of ranks, on every rank alike: the same bits everywhere, in every run.
// Credit: among steps of this kernel it is always there, because whoever sends step s has taken the
// peer's s - 1. It is waited for because other kernels use the links between two calls, and a
// broadcast's root runs ahead of its peers.
//
//     flag              writer                             reader                          resets
//     a line's flags    sender's thread of the line        receiver's thread of the line   wiping
//     head              receiver's thread of the peer      sender's thread of the peer     nobody
//     failed[0] shared  a thread that got no credit        all, after barrier 1            nobody
//     failed[1] shared  a thread that got no line          all, after barrier 2            nobody
//
// Sources: NCCL's AllReduce_AGxLL_R (docs/sources.md); wiping: ll_device.hpp.

#include <rungs/collectives/kernel_entries.hpp>
#include <rungs/collectives/ring_device.hpp>
#include <rungs/protocols/ll_device.hpp>

#include "detail/one_shot_entries.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace rungs::symmetric::detail {
namespace {

using collectives::Awaited;
using collectives::Kernel;
using collectives::KernelArgs;
using collectives::KernelEntry;
using collectives::kMaxRanks;
using collectives::LinkSide;
using protocols::Ll;
using ptx::U32x4;

/// What a block knows of its links, by peer. Thread p of the block (and p + blockDim.x, ...) looks
/// after peer p.
struct Links {
  const std::byte* in[kMaxRanks];  // kSlots slots
  std::byte* out[kMaxRanks];
  std::uint64_t recv_step[kMaxRanks];
  std::uint64_t send_step[kMaxRanks];
  std::uint32_t failed[2];
};

template <class T, class O>
class OneShot {
 public:
  RUNGS_DEVICE OneShot(const KernelArgs& args, Links& links)
      : links_(links),
        communicator_(*args.communicator),
        send_(static_cast<const T*>(args.send)),
        recv_(static_cast<T*>(args.recv)),
        channel_(static_cast<int>(blockIdx.x)),
        rank_(communicator_.rank),
        ranks_(communicator_.size),
        slot_bytes_(
            communicator_.slot_bytes[static_cast<int>(collectives::ProtocolId::kSymmetric)]),
        share_(collectives::detail::channel_share<T>(args, channel_)),
        wait_(args, channel_) {}

  RUNGS_DEVICE void run() {
    if (threadIdx.x == 0) links_.failed[0] = links_.failed[1] = 0;
    for_my_peers([&](int peer) {
      constexpr int kBuffer = static_cast<int>(collectives::ProtocolId::kSymmetric);
      links_.in[peer] = recv_side(peer).buffer[kBuffer];
      links_.out[peer] = send_side(peer).buffer[kBuffer];
      links_.recv_step[peer] = *recv_side(peer).step;
      links_.send_step[peer] = *send_side(peer).step;
    });
    ptx::syncthreads();  // `failed` is down
    const std::size_t chunk = slot_bytes_ / 2 / sizeof(T);
    for (std::size_t at = share_.begin; at < share_.end; at += chunk) {
      if (!step(at, collectives::detail::least(chunk, share_.end - at))) return;
    }
    for_my_peers([&](int peer) {
      *recv_side(peer).step = links_.recv_step[peer];
      *send_side(peer).step = links_.send_step[peer];
    });
  }

 private:
  using Data = protocols::detail::LlData<T>;
  static constexpr int kAhead = 4;  // lines that a thread loads before it looks at the first

  RUNGS_DEVICE const LinkSide& recv_side(int peer) const {
    return communicator_.recv[channel_ * ranks_ + peer];
  }
  RUNGS_DEVICE const LinkSide& send_side(int peer) const {
    return communicator_.send[channel_ * ranks_ + peer];
  }
  template <class Each>
  RUNGS_DEVICE void for_my_peers(const Each& each) const {
    for (int peer = static_cast<int>(threadIdx.x); peer < ranks_;
         peer += static_cast<int>(blockDim.x)) {
      if (peer != rank_) each(peer);
    }
  }
  RUNGS_DEVICE std::size_t slot_of(std::uint64_t step) const {
    return step % collectives::kSlots * slot_bytes_;
  }
  RUNGS_DEVICE const U32x4* lines_from(int peer) const {
    return reinterpret_cast<const U32x4*>(links_.in[peer] + slot_of(links_.recv_step[peer]));
  }
  RUNGS_DEVICE U32x4* lines_to(int peer) const {
    return reinterpret_cast<U32x4*>(links_.out[peer] + slot_of(links_.send_step[peer]));
  }

  /// The elements [at, at + count). False: gave up.
  RUNGS_DEVICE bool step(std::size_t at, std::size_t count) {
    const std::size_t lines = (count + Data::kElements - 1) / Data::kElements;
    // 1. Each peer's thread waits for a slot there. Barrier 1.
    for_my_peers([&](int peer) {
      if (!wait_.credit(send_side(peer).head, links_.send_step[peer], peer))
        ptx::st_relaxed_gpu(&links_.failed[0], 1u);
    });
    ptx::syncthreads();
    if (links_.failed[0] != 0) return false;
    // 2. Give all lines away, to the next rank first: not all ranks to the same one.
    for (int k = 1; k < ranks_; ++k) {
      const int peer = rank_ + k < ranks_ ? rank_ + k : rank_ + k - ranks_;
      give(peer, at, count, lines);
    }
    // 3. Add up the lines as they come.
    for (std::size_t i = threadIdx.x; i < lines; i += blockDim.x) {
      if (add_line(at, count, i)) continue;
      ptx::st_relaxed_gpu(&links_.failed[1], 1u);
      break;
    }
    // 4. Barrier 2: all lines are read, their slots may be filled again.
    ptx::syncthreads();
    if (links_.failed[1] != 0) return false;
    for_my_peers([&](int peer) {
      links_.send_step[peer]++;
      ptx::st_release_sys(recv_side(peer).head, ++links_.recv_step[peer]);
    });
    return true;
  }

  RUNGS_DEVICE void give(int peer, std::size_t at, std::size_t count, std::size_t lines) const {
    const std::uint64_t step = links_.send_step[peer];
    const std::uint32_t flag = Ll::flag_of(step);
    U32x4* const out = lines_to(peer);
    for (std::size_t i = threadIdx.x; i < lines; i += blockDim.x)
      ptx::st_volatile_v4(out + i, Data::load(send_ + at, i * Data::kElements, count).line(flag));
    if (!Ll::wipes(step)) return;
    for (std::size_t i = lines + threadIdx.x; i < slot_bytes_ / sizeof(U32x4); i += blockDim.x)
      ptx::st_volatile_v4(out + i, {0, flag, 0, flag});
  }

  /// recv = sum over ranks, in their order, of line i. False: gave up.
  RUNGS_DEVICE bool add_line(std::size_t at, std::size_t count, std::size_t i) {
    const std::size_t first = i * Data::kElements;
    const Data mine = Data::load(send_ + at, first, count);
    Data sum{};
    for (int base = 0; base < ranks_; base += kAhead) {
      U32x4 line[kAhead];
#pragma unroll
      for (int a = 0; a < kAhead; ++a) {
        const int peer = base + a;
        if (peer < ranks_ && peer != rank_) line[a] = ptx::ld_volatile_v4(lines_from(peer) + i);
      }
#pragma unroll
      for (int a = 0; a < kAhead; ++a) {
        const int peer = base + a;
        if (peer >= ranks_) break;
        if (peer != rank_ && !complete(peer, i, line[a])) return false;
        add(sum, peer == rank_ ? mine : Data::of(line[a]), peer == 0);
      }
    }
#pragma unroll
    for (int e = 0; e < Data::kElements; ++e) sum.pack.at[e] = O::finish(sum.pack.at[e], ranks_);
    sum.store(recv_ + at, first, count);
    return true;
  }

  /// Polls until both halves of the line are of this step. False: gave up.
  RUNGS_DEVICE bool complete(int peer, std::size_t i, U32x4& line) {
    const std::uint32_t flag = Ll::flag_of(links_.recv_step[peer]);
    if (line.y == flag && line.w == flag) return true;
    wait_.begin();
    do {
      if (wait_.give_up(peer, Awaited::kData, links_.recv_step[peer] + 1,
                        line.y == flag ? line.w : line.y)) {
        return false;
      }
      line = ptx::ld_volatile_v4(lines_from(peer) + i);
    } while (line.y != flag || line.w != flag);
    return true;
  }

  RUNGS_DEVICE static void add(Data& sum, const Data& next, bool first) {
#pragma unroll
    for (int e = 0; e < Data::kElements; ++e)
      sum.pack.at[e] = first ? next.pack.at[e] : O::apply(sum.pack.at[e], next.pack.at[e]);
  }

  Links& links_;
  const collectives::DeviceCommunicator& communicator_;
  const T* send_;
  T* recv_;
  int channel_;
  int rank_;
  int ranks_;
  std::size_t slot_bytes_;
  collectives::detail::Span share_;
  collectives::Wait wait_;
};

template <class T, class O>
RUNGS_KERNEL(kOneShotThreads, 1)
one_shot_all_reduce_kernel(KernelArgs args) {
  RUNGS_SHARED(Links, links);
  OneShot<T, O>(args, links).run();
}

/// The kernels above, by name.
struct OneShotKernels {
  template <class T, class O>
  static Kernel all_reduce() {
    return &one_shot_all_reduce_kernel<T, O>;
  }
};

}  // namespace

std::vector<KernelEntry> one_shot_entries() {
  return collectives::kernel_entries<OneShotKernels, collectives::Sum, collectives::Max,
                                     collectives::Avg>(
      {.algorithm = kOneShot,
       .protocol = collectives::ProtocolId::kSymmetric,
       .threads = kOneShotThreads,
       .slot_bytes = kOneShotSlotBytes,
       .payload_bytes = kOneShotSlotBytes / 2,
       .illegal = &one_shot_illegal});
}

}  // namespace rungs::symmetric::detail
