#pragma once
/// @file soft.hpp
/// The software HCA's options and counters.

#include <rungs/config.hpp>

#include <cstdint>
#include <string>

namespace rungs::verbs {

/// What carries the packets.
enum class Wire {
  kSharedMemory,  ///< rings in memory that both devices map: threads and processes of one host
  kUdp,           ///< RoCE v2 packets in UDP datagrams
};

/// How a software HCA is made. The fault knobs act on what this device sends, packet by packet,
/// from a seed: a run can be repeated.
struct SoftOptions {
  Wire wire = Wire::kSharedMemory;
  std::string address = "127.0.0.1";  ///< kUdp: local IPv4 address
  std::uint16_t udp_port = 0;         ///< kUdp: 0 takes any free one (hardware listens at 4791)
  std::uint16_t mtu_bytes = 4096;     ///< 256, 512, 1024, 2048 or 4096
  double loss = 0;                    ///< share of packets dropped, 0 to 0.9
  double duplicate = 0;               ///< share sent twice
  double reorder = 0;                 ///< share held back behind the next packet
  double delay_seconds = 0;           ///< added to every packet
  std::uint64_t seed = 1;
};

/// What a software HCA counted since it was opened.
struct WireCounters {
  std::uint64_t packets_sent = 0;      ///< handed to the wire, repeats included
  std::uint64_t packets_received = 0;  ///< well formed and for a queue pair of this device
  std::uint64_t packets_dropped = 0;   ///< by the loss knob
  std::uint64_t packets_rejected = 0;  ///< malformed, bad ICRC, unknown queue pair
  std::uint64_t retransmissions = 0;   ///< packets sent again
  std::uint64_t naks_sent = 0;         ///< out of sequence, RNR and errors
  std::uint64_t doorbells = 0;
  std::uint64_t wqes = 0;
  std::uint64_t cqes = 0;
};

}  // namespace rungs::verbs
