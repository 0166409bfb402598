#pragma once
/// @file wait_device.hpp
/// Waiting inside a kernel, with an end: for protocols. For kernel sources.
///
///     flag           writer                    reader            resets
///     abort          host; a wait that gave up every wait        nobody: the communicator is over
///     claim          first wait that gives up  every wait        nobody
///     fault->set     who took the claim        host              nobody

#include <rungs/collectives/kernel_args.hpp>
#include <rungs/gpu/kernel.hpp>
#include <rungs/ptx/atomic.hpp>
#include <rungs/ptx/memory.hpp>
#include <rungs/ptx/sync.hpp>

#include <cstdint>

namespace rungs::collectives {

/// Failed polls between two looks at the clock and at the abort word, which lies across PCIe.
inline constexpr unsigned kPollsBetweenLooks = RUNGS_GPU_CUDA ? 256 : 32;

/// One thread's waits. They end when the flag is there, when the deadline has passed or when the
/// communicator was aborted; the first to give up leaves the fault record.
class Wait {
 public:
  RUNGS_DEVICE Wait(const KernelArgs& args, int channel)
      : communicator_(args.communicator),
        operation_(static_cast<std::uint32_t>(args.operation)),
        channel_(static_cast<std::uint32_t>(channel)),
        what_(args.what) {}

  /// Begins a wait: its deadline counts from the first look on.
  RUNGS_DEVICE void begin() {
    polls_ = 0;
    end_ns_ = 0;
  }

  /// Call after every failed poll. True: give up; the record is written and abort is set.
  /// @param expected,seen steps of the link: what would have ended the wait, and what is there
  RUNGS_DEVICE bool give_up(int peer, Awaited awaited, std::uint64_t expected, std::uint64_t seen) {
    if (++polls_ % kPollsBetweenLooks != 0) return false;
    const DeviceCommunicator& c = *communicator_;
    const bool aborted = ptx::ld_relaxed_sys(c.abort) != 0;
    if (!aborted) {
      const std::uint64_t now = ptx::globaltimer_ns();
      if (end_ns_ == 0) end_ns_ = now + c.timeout_ns;
      if (now < end_ns_) return false;
    }
    if (ptx::atomic_cas_gpu(c.claim, 0u, 1u) == 0u) {
      c.fault->kernel = operation_;
      c.fault->rank = c.rank;
      c.fault->peer = peer;
      c.fault->slot = channel_;
      c.fault->reserved = pack_wait(what_, awaited);
      c.fault->expected = expected;
      c.fault->seen = seen;
      ptx::st_release_sys(&c.fault->set, 2u);
    }
    if (!aborted) ptx::st_release_sys(c.abort, static_cast<std::uint32_t>(AbortCause::kDeadline));
    return true;
  }

  /// Polls until *word >= expected; acquires. False: gave up.
  RUNGS_DEVICE bool at_least(const std::uint64_t* word, std::uint64_t expected, int peer,
                             Awaited awaited) {
    begin();
    for (;;) {
      const std::uint64_t seen = ptx::ld_acquire_sys(word);
      if (seen >= expected) return true;
      if (give_up(peer, awaited, expected, seen)) return false;
    }
  }

  /// The same for the credit that filling `step` takes: its slot was drained kSlots steps ago.
  RUNGS_DEVICE bool credit(const std::uint64_t* head, std::uint64_t step, int peer) {
    if (step < kSlots) return true;
    return at_least(head, step + 1 - kSlots, peer, Awaited::kCredit);
  }

 private:
  const DeviceCommunicator* communicator_;
  std::uint64_t end_ns_ = 0;
  std::uint32_t operation_;
  std::uint32_t channel_;
  std::uint32_t polls_ = 0;
  Collective what_;
};

}  // namespace rungs::collectives
