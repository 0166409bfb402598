#pragma once
/// @file wait.hpp
/// Waiting inside a kernel, with an end. For kernel sources.
///
///     flag           writer                    reader            resets
///     abort          host; a wait that gave up every wait        nobody: the communication is over
///     claim          first wait that gives up  every wait        nobody
///     fault->set     who took the claim        host              nobody

#include <rungs/gpu/fault.hpp>
#include <rungs/gpu/kernel.hpp>
#include <rungs/ptx/atomic.hpp>
#include <rungs/ptx/memory.hpp>
#include <rungs/ptx/sync.hpp>

#include <cstdint>

namespace rungs::gpu {

/// Failed polls between two looks at the clock and at the abort word, which lies across PCIe.
inline constexpr unsigned kPollsBetweenLooks = RUNGS_GPU_CUDA ? 256 : 32;

/// One thread's waits. They end when the caller's condition holds, when the deadline has passed or
/// when the abort word is set; the first to give up leaves the fault record.
class Wait {
 public:
  RUNGS_DEVICE explicit Wait(const WaitControl& control) : control_(control) {}

  /// Begins a wait: its deadline counts from the first look on.
  RUNGS_DEVICE void begin() {
    polls_ = 0;
    end_ns_ = 0;
  }

  /// Call after every failed poll. True: give up; the record is written and abort is set.
  /// @param kernel,peer,slot,reserved,expected,seen fields of the record: what was awaited
  RUNGS_DEVICE bool give_up(std::uint32_t kernel, int peer, std::uint32_t slot,
                            std::uint32_t reserved, std::uint64_t expected, std::uint64_t seen) {
    if (++polls_ % kPollsBetweenLooks != 0) return false;
    if (ptx::ld_relaxed_sys(control_.abort) == 0) {
      const std::uint64_t now = ptx::globaltimer_ns();
      if (end_ns_ == 0) end_ns_ = now + control_.timeout_ns;
      if (now < end_ns_) return false;
    }
    record(kernel, peer, slot, reserved, expected, seen);
    return true;
  }

  /// Gives up at once: what is awaited cannot happen any more.
  RUNGS_DEVICE void record(std::uint32_t kernel, int peer, std::uint32_t slot,
                           std::uint32_t reserved, std::uint64_t expected, std::uint64_t seen) {
    if (ptx::atomic_cas_gpu(control_.claim, 0u, 1u) == 0u) {
      Fault& fault = *control_.fault;
      fault.kernel = kernel;
      fault.rank = control_.rank;
      fault.peer = peer;
      fault.slot = slot;
      fault.reserved = reserved;
      fault.expected = expected;
      fault.seen = seen;
      ptx::st_release_sys(&fault.set, 2u);
    }
    if (ptx::ld_relaxed_sys(control_.abort) == 0) {
      ptx::st_release_sys(control_.abort, static_cast<std::uint32_t>(AbortCause::kDeadline));
    }
  }

 private:
  WaitControl control_;
  std::uint64_t end_ns_ = 0;
  std::uint32_t polls_ = 0;
};

}  // namespace rungs::gpu
