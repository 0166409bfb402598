#pragma once
/// @file fault.hpp
/// What a kernel that waited too long leaves behind. Kernels never trap: the record goes to
/// host-mapped memory, an abort flag is set, and the host throws.

#include <rungs/config.hpp>

#include <cstdint>

namespace rungs::gpu {

/// One record in host-mapped memory, written once by the first thread that gives up.
struct Fault {
  std::uint32_t set;     ///< 0 none, 1 being written, 2 complete
  std::uint32_t kernel;  ///< the stage's own number for the kernel
  std::int32_t rank;     ///< who waited
  std::int32_t peer;     ///< for whom
  std::uint32_t slot;    ///< which flag, slot or step
  std::uint32_t reserved;
  std::uint64_t expected;  ///< value awaited
  std::uint64_t seen;      ///< last value read
};
static_assert(sizeof(Fault) == 40);

/// Values of an abort word.
enum class AbortCause : std::uint32_t {
  kNone = 0,
  kHost = 1,      ///< the host gave up, or a peer was lost
  kDeadline = 2,  ///< a wait of this rank's own kernels gave up
};

/// What waits of one rank's kernels share (wait_device.hpp).
struct WaitControl {
  std::uint32_t* abort = nullptr;  ///< host-mapped; non-zero (an AbortCause) ends every wait
  /// device; the first wait that gives up takes it: host memory has no atomics that a GPU and a CPU
  /// share over PCIe
  std::uint32_t* claim = nullptr;
  Fault* fault = nullptr;  ///< host-mapped; who took the claim writes it
  std::uint64_t timeout_ns = 0;
  std::int32_t rank = 0;  ///< who waits
};

}  // namespace rungs::gpu
