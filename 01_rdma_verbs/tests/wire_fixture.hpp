#pragma once
// Wires by themselves: streams of packets whose bytes follow from their number.

#include "soft/packet.hpp"
#include "soft/wire.hpp"

#include <rungs/core/deadline.hpp>
#include <rungs/core/error.hpp>
#include <rungs/testing/random.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <vector>

namespace rungs::verbs::soft {

using namespace std::chrono_literals;
using Bytes = std::vector<std::byte>;

inline std::unique_ptr<PacketWire> open_wire(Wire kind) {
  SoftOptions options;
  options.wire = kind;
  return kind == Wire::kUdp ? open_udp_wire(options) : open_shared_memory_wire(options);
}

// Packet `index` of a stream: its size and bytes follow from the index.
inline Bytes packet_of(std::uint64_t stream, std::uint64_t index, std::size_t max_bytes = 4124) {
  testing::Random random(stream * 1000003 + index);
  Bytes bytes(16 + random.below(max_bytes - 15));
  std::memcpy(bytes.data(), &index, sizeof(index));
  for (std::size_t i = 8; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(random.next());
  return bytes;
}

inline void send_all(PacketWire& wire, const WireAddress& to, const Bytes& packet) {
  const Deadline deadline = Deadline::after(20s);
  while (!wire.send(to, packet)) {
    if (deadline.passed()) RUNGS_THROW(kTimeout, "the wire takes no packet");
    wire.wait(0.01);
  }
}

// The next packet; empty after `patience`.
inline Bytes take(PacketWire& wire, WireAddress& from,
                  std::chrono::duration<double> patience = 20s) {
  Bytes bytes(kMaxPacketBytes);
  const Deadline deadline = Deadline::after(patience);
  for (;;) {
    bytes.resize(kMaxPacketBytes);
    bytes.resize(wire.receive(bytes, from));
    if (!bytes.empty() || deadline.passed()) return bytes;
    wire.wait(std::min(0.1, deadline.remaining().count()));
  }
}

inline std::size_t open_files() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    ++count;
  }
  return count;
}

inline std::size_t ring_mappings() {
  std::size_t count = 0;
  std::FILE* const maps = std::fopen("/proc/self/maps", "r");
  std::array<char, 512> line;
  while (std::fgets(line.data(), line.size(), maps) != nullptr) {
    if (std::strstr(line.data(), "rungs-verbs-ring") != nullptr) ++count;
  }
  std::fclose(maps);
  return count;
}

}  // namespace rungs::verbs::soft
