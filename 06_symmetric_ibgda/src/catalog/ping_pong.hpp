#pragma once
/// @file ping_pong.hpp
/// The kernel of the put ladder.

#include <rungs/gpu/device.hpp>
#include <rungs/symmetric/context_args.hpp>

#include <cstddef>
#include <cstdint>

namespace rungs::symmetric {

/// One rank's side of `round_trips` exchanges with the other.
struct PingPong {
  std::uint8_t* messages;  ///< [round_trips, size_bytes] in the heap: what rank 0 sends
  std::uint8_t* windows;   ///< [round_trips, size_bytes] in the heap: what arrives
  std::uint64_t* arrived;  ///< in the heap: messages that have arrived, over all launches
  std::uint64_t before;    ///< what it says before the first one
  std::size_t size_bytes;
  std::size_t round_trips;
};

/// Enqueues it; 0 round trips load the kernel and do nothing.
void launch_ping_pong(const DeviceContext* context, const PingPong& side, gpu::StreamHandle stream);

}  // namespace rungs::symmetric
