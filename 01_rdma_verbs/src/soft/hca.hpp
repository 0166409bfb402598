#pragma once
// What the state machines of a queue pair see of the device they run in. Everything here is touched
// under the engine's lock only.

#include "memory.hpp"
#include "packet.hpp"
#include "queues.hpp"
#include "wire.hpp"

#include <chrono>
#include <cstdint>
#include <memory>

namespace rungs::verbs::soft {

using Clock = std::chrono::steady_clock;
constexpr Clock::duration to_duration(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

inline constexpr std::uint64_t kMaxMessageBytes = std::uint64_t{1} << 30;
inline constexpr std::uint32_t kMaxUnackedPsns = 128;
inline constexpr std::uint32_t kAckEvery = 64;             // packets of a long message
inline constexpr std::uint32_t kMaxOutstandingReads = 16;  // reads and atomics of one queue pair
inline constexpr unsigned kBurst = 32;  // packets a queue pair sends before the next one's turn

// How far PSN a is ahead of b, in [-2^23, 2^23).
constexpr std::int32_t psn_distance(std::uint32_t a, std::uint32_t b) noexcept {
  return static_cast<std::int32_t>((a - b) << 8) >> 8;
}
constexpr std::uint32_t psn_add(std::uint32_t psn, std::uint32_t n) noexcept {
  return (psn + n) & kPsnMask;
}
// PSNs that a message (or the answer to a read) of `bytes` takes.
constexpr std::uint32_t packet_count(std::uint64_t bytes, std::uint32_t mtu) noexcept {
  return bytes == 0 ? 1 : static_cast<std::uint32_t>((bytes + mtu - 1) / mtu);
}

struct Counters {
  Counter packets_sent, packets_received, packets_dropped, packets_rejected, retransmissions,
      naks_sent, doorbells, wqes, cqes;
};

// The other end of a queue pair.
struct Connection {
  WireAddress peer;
  std::uint32_t remote_qp = 0;
  std::uint32_t mtu = 0;
};

struct Hca {
  KeyTable keys;
  Counters counters;
  std::unique_ptr<PacketWire> wire;
  Clock::time_point now;   // of this turn of the engine
  bool wire_full = false;  // a packet could not be sent in this turn

  // Sends one packet of this connection. False: not now.
  bool transmit(const Connection& connection, Packet packet);
  // Takes one packet from the wire: its bytes in `buffer`. 0: none.
  std::size_t take_packet(std::span<std::byte> buffer, WireAddress& from);
};

}  // namespace rungs::verbs::soft
