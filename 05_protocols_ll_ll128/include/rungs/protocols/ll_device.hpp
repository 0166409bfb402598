#pragma once
/// @file ll_device.hpp
/// The LL protocol ("low latency"): every 8 bytes of data travel with their own flags, so nobody
/// waits for a counter, a fence or a whole slot. For kernel sources.
///
///     line, 16 bytes   | data 0..3 | flag | data 4..7 | flag |      flag = step + 1, 32 bits
///
/// It needs one thing of the hardware: an aligned store of 8 bytes arrives whole, so a flag never
/// comes without the data beside it. That holds on every path (NVLink, PCIe, host memory). The
/// price is half of the bandwidth.
///
///     flag            writer                        reader                            resets
///     a line's flags  sender's thread of the line   receiver's thread of the line     wipe()
///     head            receiver's thread 0, release  sender's thread 0, acquire        nobody
///     go (shared)     thread 0, before barrier 1    all threads, after barrier 1      overwritten
///     failed (shared) a thread that gave up         all threads, after barrier 2      nobody
///
/// Steps, slots and credit are those of the link, shared with Simple: a launch may use either.
/// Source: NCCL's LL (docs/sources.md).

#include <rungs/collectives/protocol_device.hpp>
#include <rungs/collectives/reduce_device.hpp>
#include <rungs/collectives/wait_device.hpp>
#include <rungs/ptx/memory.hpp>
#include <rungs/ptx/sync.hpp>
#include <rungs/ptx/vector.hpp>

#include <cstddef>
#include <cstdint>

namespace rungs::protocols {

namespace detail {

/// The payload of a line.
template <class T>
struct LlData {
  static constexpr int kElements = 8 / static_cast<int>(sizeof(T));
  static_assert(sizeof(T) <= 8 && 8 % sizeof(T) == 0);
  collectives::detail::Pack<T, kElements> pack;

  RUNGS_DEVICE static LlData of(const ptx::U32x4& line) {
    const std::uint32_t words[2] = {line.x, line.z};
    LlData data;
    memcpy(&data, words, sizeof(data));
    return data;
  }
  RUNGS_DEVICE ptx::U32x4 line(std::uint32_t flag) const {
    std::uint32_t words[2];
    memcpy(words, this, sizeof(words));
    return {words[0], flag, words[1], flag};
  }
  /// The elements [begin, end) of `from`, at most kElements; the rest is zero.
  RUNGS_DEVICE static LlData load(const T* from, std::size_t begin, std::size_t end) {
    LlData data{};
    if (reinterpret_cast<std::uintptr_t>(from) % 8 == 0 && begin + kElements <= end) {
      data.pack = *reinterpret_cast<const collectives::detail::Pack<T, kElements>*>(from + begin);
      return data;
    }
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      if (begin + i < end) data.pack.at[i] = from[begin + i];
    }
    return data;
  }
  RUNGS_DEVICE void store(T* to, std::size_t begin, std::size_t end) const {
    if (reinterpret_cast<std::uintptr_t>(to) % 8 == 0 && begin + kElements <= end) {
      *reinterpret_cast<collectives::detail::Pack<T, kElements>*>(to + begin) = pack;
      return;
    }
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      if (begin + i < end) to[begin + i] = pack.at[i];
    }
  }
};

}  // namespace detail

struct Ll {
  static constexpr collectives::ProtocolId kId = collectives::ProtocolId::kLl;

  /// The flag of a link's step. Flags come again after 2^32 steps.
  RUNGS_HD static std::uint32_t flag_of(std::uint64_t step) {
    return static_cast<std::uint32_t>(step + 1);
  }
  /// Whether the sender fills the whole slot at this step, not only the lines that carry data: in
  /// kSlots steps before every multiple of 2^31. A line that is seldom used would otherwise keep a
  /// flag for 2^32 steps and be taken for new when that flag comes again.
  RUNGS_HD static bool wipes(std::uint64_t step) {
    constexpr std::uint32_t kMask = 0x80000000u - collectives::kSlots;  // 0x7ffffff8
    return (flag_of(step) & kMask) == kMask;
  }

  template <class T, class O>
  class Primitives {
   public:
    RUNGS_DEVICE Primitives(const collectives::KernelArgs& args, int channel, int recv_peer,
                            int send_peer)
        : wait_(args, channel),
          recv_peer_(recv_peer),
          send_peer_(send_peer),
          ranks_(args.communicator->size),
          slot_bytes_(args.communicator->slot_bytes[static_cast<int>(kId)]) {
      const collectives::DeviceCommunicator& c = *args.communicator;
      ptx::syncthreads();  // behind the last object's destructor
      failed_ = shared_flags();
      if (threadIdx.x == 0) failed_[0] = failed_[1] = 0;
      if (recv_peer >= 0) {
        recv_ = c.recv[channel * c.size + recv_peer];
        recv_step_ = *recv_.step;
      }
      if (send_peer >= 0) {
        send_ = c.send[channel * c.size + send_peer];
        send_step_ = *send_.step;
      }
      ptx::syncthreads();  // the flags are down, and everybody has read the counters
    }
    Primitives(const Primitives&) = delete;
    Primitives& operator=(const Primitives&) = delete;
    RUNGS_DEVICE ~Primitives() {
      if (threadIdx.x != 0) return;
      if (recv_peer_ >= 0) *recv_.step = recv_step_;
      if (send_peer_ >= 0) *send_.step = send_step_;
    }

    /// Half of a slot: the other half is flags.
    RUNGS_DEVICE std::size_t chunk() const { return slot_bytes_ / 2 / sizeof(T); }

    RUNGS_DEVICE void send(const T* from, std::size_t count) {
      step<false, true, false, false>(from, nullptr, count);
    }
    RUNGS_DEVICE void recv(T* to, std::size_t count) {
      step<true, false, false, false>(nullptr, to, count);
    }
    RUNGS_DEVICE void copy_send(const T* from, T* to, std::size_t count) {
      step<false, true, false, false>(from, to, count);
    }
    RUNGS_DEVICE void recv_copy_send(T* to, std::size_t count) {
      step<true, true, false, false>(nullptr, to, count);
    }
    RUNGS_DEVICE void recv_reduce_send(const T* mine, std::size_t count) {
      step<true, true, true, false>(mine, nullptr, count);
    }
    RUNGS_DEVICE void recv_reduce_copy(const T* mine, T* to, std::size_t count) {
      step<true, false, true, true>(mine, to, count);
    }
    RUNGS_DEVICE void recv_reduce_copy_send(const T* mine, T* to, std::size_t count) {
      step<true, true, true, true>(mine, to, count);
    }

   private:
    using Data = detail::LlData<T>;

    // Two words: a thread that is one step ahead of another writes the one that the other does not
    // read.
    RUNGS_DEVICE static std::uint32_t* shared_flags() {
      RUNGS_SHARED_ARRAY(std::uint32_t, flags, 2);
      return flags;
    }
    RUNGS_DEVICE ptx::U32x4* slot(const collectives::LinkSide& side, std::uint64_t step) const {
      return reinterpret_cast<ptx::U32x4*>(side.buffer[static_cast<int>(kId)] +
                                           step % collectives::kSlots * slot_bytes_);
    }

    /// Polls a line until both halves are of this step. False: gave up.
    RUNGS_DEVICE bool take(const ptx::U32x4* address, std::uint32_t flag, ptx::U32x4& line) {
      line = ptx::ld_volatile_v4(address);
      if (line.y == flag && line.w == flag) return true;
      wait_.begin();
      do {
        // The fault speaks of steps; a line shows the lower half of the one that wrote it last.
        if (wait_.give_up(recv_peer_, collectives::Awaited::kData, recv_step_ + 1,
                          line.y == flag ? line.w : line.y)) {
          return false;
        }
        line = ptx::ld_volatile_v4(address);
      } while (line.y != flag || line.w != flag);
      return true;
    }

    template <bool kReceives, bool kSends, bool kReduces, bool kFinishes>
    RUNGS_DEVICE void step(const T* mine, T* to, std::size_t count) {
      if (gave_up_) return;
      if constexpr (kSends) {
        // 1. One thread waits for a slot to put the result in. Barrier 1.
        RUNGS_SHARED(std::uint32_t, go);
        if (threadIdx.x == 0) go = wait_.credit(send_.head, send_step_, send_peer_) ? 1 : 0;
        ptx::syncthreads();
        if (go == 0) {
          gave_up_ = true;
          return;
        }
      }
      // 2. Every thread moves its own lines as they come.
      const ptx::U32x4* const in = kReceives ? slot(recv_, recv_step_) : nullptr;
      ptx::U32x4* const out = kSends ? slot(send_, send_step_) : nullptr;
      std::uint32_t* const failed = &failed_[parity_];
      const std::size_t lines = (count + Data::kElements - 1) / Data::kElements;
      for (std::size_t i = threadIdx.x; i < lines; i += blockDim.x) {
        const std::size_t first = i * Data::kElements;
        Data data;
        if constexpr (kReceives) {
          ptx::U32x4 line;
          if (!take(in + i, flag_of(recv_step_), line)) {
            ptx::st_relaxed_gpu(failed, 1u);  // others may say so at the same time
            break;
          }
          data = Data::of(line);
          if constexpr (kReduces) reduce<kFinishes>(data, Data::load(mine, first, count));
        } else {
          data = Data::load(mine, first, count);
        }
        if constexpr (kSends) ptx::st_volatile_v4(out + i, data.line(flag_of(send_step_)));
        if (to != nullptr) data.store(to, first, count);
      }
      if constexpr (kSends) {
        if (wipes(send_step_)) wipe(out, lines);
      }
      // 3. Barrier 2: all lines are read, the slot may be filled again.
      ptx::syncthreads();
      parity_ ^= 1;
      if (*failed != 0) {
        gave_up_ = true;
        return;
      }
      if constexpr (kSends) send_step_++;
      if constexpr (kReceives) {
        recv_step_++;
        if (threadIdx.x == 0) ptx::st_release_sys(recv_.head, recv_step_);
      }
    }

    template <bool kFinishes>
    RUNGS_DEVICE void reduce(Data& data, const Data& mine) const {
#pragma unroll
      for (int i = 0; i < Data::kElements; ++i) {
        data.pack.at[i] = O::apply(data.pack.at[i], mine.pack.at[i]);
        if constexpr (kFinishes) data.pack.at[i] = O::finish(data.pack.at[i], ranks_);
      }
    }

    /// Writes this step's flag to the lines that carry nothing.
    RUNGS_DEVICE void wipe(ptx::U32x4* out, std::size_t lines) {
      const std::uint32_t flag = flag_of(send_step_);
      for (std::size_t i = lines + threadIdx.x; i < slot_bytes_ / sizeof(ptx::U32x4);
           i += blockDim.x) {
        ptx::st_volatile_v4(out + i, {0, flag, 0, flag});
      }
    }

    collectives::Wait wait_;
    collectives::LinkSide recv_{};
    collectives::LinkSide send_{};
    std::uint64_t recv_step_ = 0;
    std::uint64_t send_step_ = 0;
    std::uint32_t* failed_ = nullptr;
    int recv_peer_;
    int send_peer_;
    int ranks_;
    std::uint32_t slot_bytes_;
    int parity_ = 0;
    bool gave_up_ = false;
  };
};

}  // namespace rungs::protocols
