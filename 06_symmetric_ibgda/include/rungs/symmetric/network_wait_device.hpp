#pragma once
/// @file network_wait_device.hpp
/// Waits for the network, inside a kernel. For kernel sources.

#include <rungs/gpu/kernel.hpp>
#include <rungs/ptx/wait.hpp>
#include <rungs/symmetric/context_args.hpp>

#include <cstdint>

namespace rungs::symmetric::detail {

/// One thread's wait. It ends when the condition holds, when the deadline has passed, when the
/// context was aborted or when the request failed; the first to give up leaves the fault record.
class NetworkWait {
 public:
  RUNGS_DEVICE NetworkWait(const DeviceContext& context, int peer, Awaited awaited,
                           std::uint64_t request)
      : wait_(context.wait()),
        request_(static_cast<std::uint32_t>(request)),
        peer_(peer),
        awaited_(static_cast<std::uint32_t>(awaited)) {}

  /// Call after every failed poll. True: give up.
  RUNGS_DEVICE bool give_up(std::uint64_t expected, std::uint64_t seen) {
    return wait_.give_up(0, peer_, request_, awaited_, expected, seen);
  }

  /// Gives up at once: what is awaited cannot happen any more.
  RUNGS_DEVICE void record(std::uint64_t expected, std::uint64_t seen) {
    wait_.record(0, peer_, request_, awaited_, expected, seen);
  }

 private:
  gpu::Wait wait_;
  std::uint32_t request_;
  int peer_;
  std::uint32_t awaited_;
};

}  // namespace rungs::symmetric::detail
