#pragma once
/// @file protocol_simple_device.hpp
/// The Simple protocol: a slot is filled by the whole block, then a counter says so. For kernel
/// sources.
///
///     flag         writer                          reader                         resets
///     tail         sender's thread 0, release.sys  receiver's thread 0, acquire   nobody
///     head         receiver's thread 0, release    sender's thread 0, acquire     nobody
///     go (shared)  thread 0, before barrier 1      all threads, after barrier 1   overwritten
///
/// The release of thread 0 covers what the other threads stored, because barrier 2 orders their
/// stores before it and release is cumulative; acquire and barrier 1 do the same for the readers
/// (PTX ISA, "Causality order").

#include <rungs/collectives/protocol_device.hpp>
#include <rungs/collectives/reduce_device.hpp>
#include <rungs/collectives/wait_device.hpp>
#include <rungs/ptx/memory.hpp>
#include <rungs/ptx/sync.hpp>

#include <cstddef>
#include <cstdint>

namespace rungs::collectives {

struct Simple {
  static constexpr ProtocolId kId = ProtocolId::kSimple;

  template <class T, class O>
  class Primitives {
   public:
    RUNGS_DEVICE Primitives(const KernelArgs& args, int channel, int recv_peer, int send_peer)
        : wait_(args, channel),
          recv_peer_(recv_peer),
          send_peer_(send_peer),
          ranks_(args.communicator->size),
          slot_bytes_(args.communicator->slot_bytes[static_cast<int>(kId)]) {
      const DeviceCommunicator& c = *args.communicator;
      ptx::syncthreads();  // behind the last object's destructor
      if (recv_peer >= 0) {
        recv_ = c.recv[channel * c.size + recv_peer];
        recv_step_ = *recv_.step;
      }
      if (send_peer >= 0) {
        send_ = c.send[channel * c.size + send_peer];
        send_step_ = *send_.step;
      }
    }
    Primitives(const Primitives&) = delete;
    Primitives& operator=(const Primitives&) = delete;
    RUNGS_DEVICE ~Primitives() {
      ptx::syncthreads();  // everybody has read the counters
      if (threadIdx.x != 0) return;
      if (recv_peer_ >= 0) *recv_.step = recv_step_;
      if (send_peer_ >= 0) *send_.step = send_step_;
    }

    RUNGS_DEVICE std::size_t chunk() const { return slot_bytes_ / sizeof(T); }

    RUNGS_DEVICE void send(const T* from, std::size_t count) {
      step<false, true>([&](const T* /*in*/, T* out) { move<false>({out}, {from}, count); });
    }
    RUNGS_DEVICE void recv(T* to, std::size_t count) {
      step<true, false>([&](const T* in, T* /*out*/) { move<false>({to}, {in}, count); });
    }
    RUNGS_DEVICE void copy_send(const T* from, T* to, std::size_t count) {
      step<false, true>([&](const T* /*in*/, T* out) { move<false>({to, out}, {from}, count); });
    }
    RUNGS_DEVICE void recv_copy_send(T* to, std::size_t count) {
      step<true, true>([&](const T* in, T* out) { move<false>({to, out}, {in}, count); });
    }
    RUNGS_DEVICE void recv_reduce_send(const T* mine, std::size_t count) {
      step<true, true>([&](const T* in, T* out) { move<false>({out}, {in, mine}, count); });
    }
    RUNGS_DEVICE void recv_reduce_copy(const T* mine, T* to, std::size_t count) {
      step<true, false>([&](const T* in, T* /*out*/) { move<true>({to}, {in, mine}, count); });
    }
    RUNGS_DEVICE void recv_reduce_copy_send(const T* mine, T* to, std::size_t count) {
      step<true, true>([&](const T* in, T* out) { move<true>({to, out}, {in, mine}, count); });
    }

   private:
    template <bool kFinish, int kTargets, int kSources>
    RUNGS_DEVICE void move(T* const (&to)[kTargets], const T* const (&from)[kSources],
                           std::size_t count) {
      combine<O, kFinish>(to, from, count, ranks_);
    }

    RUNGS_DEVICE T* slot(const LinkSide& side, std::uint64_t step) const {
      return reinterpret_cast<T*>(side.buffer[static_cast<int>(kId)] + step % kSlots * slot_bytes_);
    }

    template <bool kReceives, bool kSends, class Move>
    RUNGS_DEVICE void step(const Move& move_elements) {
      if (gave_up_) return;
      RUNGS_SHARED(std::uint32_t, go);
      // 1. One thread waits: for the data, then for a slot to put the result in.
      if (threadIdx.x == 0) {
        bool ready = true;
        if constexpr (kReceives) {
          ready = wait_.at_least(recv_.tail, recv_step_ + 1, recv_peer_, Awaited::kData);
        }
        if constexpr (kSends) ready = ready && wait_.credit(send_.head, send_step_, send_peer_);
        go = ready ? 1 : 0;
      }
      // 2. Barrier 1: what it has acquired is everybody's.
      ptx::syncthreads();
      if (go == 0) {
        gave_up_ = true;
        return;
      }
      // 3. All threads move elements.
      move_elements(kReceives ? slot(recv_, recv_step_) : nullptr,
                    kSends ? slot(send_, send_step_) : nullptr);
      // 4. Barrier 2, then one thread tells both neighbours: the data first, it is waited for.
      ptx::syncthreads();
      if constexpr (kSends) {
        send_step_++;
        if (threadIdx.x == 0) ptx::st_release_sys(send_.tail, send_step_);
      }
      if constexpr (kReceives) {
        recv_step_++;
        if (threadIdx.x == 0) ptx::st_release_sys(recv_.head, recv_step_);
      }
    }

    Wait wait_;
    LinkSide recv_{};
    LinkSide send_{};
    std::uint64_t recv_step_ = 0;
    std::uint64_t send_step_ = 0;
    int recv_peer_;
    int send_peer_;
    int ranks_;
    std::uint32_t slot_bytes_;
    bool gave_up_ = false;
  };
};

}  // namespace rungs::collectives
