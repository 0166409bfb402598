#pragma once
/// @file network_kernels.hpp
/// Kernels that talk over the network as a test tells them.

#include <rungs/core/dtype.hpp>
#include <rungs/gpu/device.hpp>
#include <rungs/symmetric/context_args.hpp>

#include <cstdint>

namespace rungs::symmetric {

/// One call of network_device.hpp.
struct NetworkStep {
  enum class Kind : std::int32_t { kPut, kPutSignal, kSet, kAdd, kGet, kQuiet };
  Kind kind = Kind::kQuiet;
  std::int32_t block = 0;  ///< who makes it
  std::int32_t peer = 0;
  std::uint64_t remote_offset = 0;
  std::uint64_t local_offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t signal_offset = 0;
  std::uint64_t value = 0;
};

/// Makes the calls, each block its own in order; adds to *failures how many returned false.
void launch_steps(const DeviceContext* context, const NetworkStep* steps, int count, int blocks,
                  std::uint32_t* failures, gpu::StreamHandle stream);

/// Every thread of `blocks` blocks makes `count` signals to `peer`: adds of 1 to the word at
/// `add_offset`; of each eight one sets the thread's own word behind `set_offset` to how many it
/// made. Then it waits for all.
struct Flood {
  int peer = 0;
  int blocks = 1;
  int threads = 1;
  int count = 1;
  std::uint64_t add_offset = 0;
  std::uint64_t set_offset = 0;
};
void launch_flood(const DeviceContext* context, const Flood& flood, std::uint32_t* failures,
                  gpu::StreamHandle stream);

/// Each of `blocks` blocks exchanges `rounds` messages of `words` words with the same block of
/// `peer`, both ways at once, over two slots. In its memory from `offset` on, everywhere alike:
///     send [blocks][2][words]  recv [blocks][2][words]  arrived [blocks]  taken [blocks]
/// *wrong counts words that were not there when the signal was.
struct Exchange {
  int peer = 0;
  int blocks = 1;
  int rounds = 1;
  int words = 1;
  std::uint64_t offset = 0;
  [[nodiscard]] RUNGS_HD std::uint64_t slot_bytes() const {
    return static_cast<std::uint64_t>(words) * sizeof(std::uint64_t);
  }
  [[nodiscard]] std::uint64_t bytes() const {
    return static_cast<std::uint64_t>(blocks) * (4 * slot_bytes() + 2 * sizeof(std::uint64_t));
  }
};
void launch_exchange(const DeviceContext* context, const Exchange& exchange, std::uint32_t* wrong,
                     std::uint32_t* failures, gpu::StreamHandle stream);

}  // namespace rungs::symmetric
