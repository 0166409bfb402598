#pragma once
/// @file one_shot_device.hpp
/// One block's part in the one-shot all-reduce (src/optimized/one_shot_ll.cu explains it).

#include <rungs/collectives/kernel_entries.hpp>
#include <rungs/collectives/ring_device.hpp>
#include <rungs/protocols/ll_device.hpp>

#include <cstddef>
#include <cstdint>

namespace rungs::symmetric::detail {

using collectives::Awaited;
using collectives::KernelArgs;
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

}  // namespace rungs::symmetric::detail
