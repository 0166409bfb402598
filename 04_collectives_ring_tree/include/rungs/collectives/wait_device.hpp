#pragma once
/// @file wait_device.hpp
/// Waits of a collective's kernels, for protocols: gpu::Wait with what a link's records say. For
/// kernel sources.

#include <rungs/collectives/kernel_args.hpp>
#include <rungs/gpu/kernel.hpp>
#include <rungs/ptx/memory.hpp>
#include <rungs/ptx/wait.hpp>

#include <cstdint>

namespace rungs::collectives {

/// One thread's waits. They end when the flag is there, when the deadline has passed or when the
/// communicator was aborted; the first to give up leaves the fault record.
class Wait {
 public:
  RUNGS_DEVICE Wait(const KernelArgs& args, int channel)
      : wait_({args.communicator->abort, args.communicator->claim, args.communicator->fault,
               args.communicator->timeout_ns, args.communicator->rank}),
        operation_(static_cast<std::uint32_t>(args.operation)),
        channel_(static_cast<std::uint32_t>(channel)),
        what_(args.what) {}

  /// Begins a wait: its deadline counts from the first look on.
  RUNGS_DEVICE void begin() { wait_.begin(); }

  /// Call after every failed poll. True: give up; the record is written and abort is set.
  /// @param expected,seen steps of the link: what would have ended the wait, and what is there
  RUNGS_DEVICE bool give_up(int peer, Awaited awaited, std::uint64_t expected, std::uint64_t seen) {
    return wait_.give_up(operation_, peer, channel_, pack_wait(what_, awaited), expected, seen);
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
  gpu::Wait wait_;
  std::uint32_t operation_;
  std::uint32_t channel_;
  Collective what_;
};

}  // namespace rungs::collectives
