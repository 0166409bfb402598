#pragma once
// RoCE v2 packets: BTH and extended headers, to and from bytes, with the invariant CRC
// (InfiniBand Architecture Specification, vol. 1, chapter 9, and annex A17).

#include "wire.hpp"

#include <cstdint>
#include <optional>
#include <span>

namespace rungs::verbs::soft {

// BTH opcodes of the RC service.
enum class PacketOpcode : std::uint8_t {
  kSendFirst = 0x00,
  kSendMiddle = 0x01,
  kSendLast = 0x02,
  kSendLastImm = 0x03,
  kSendOnly = 0x04,
  kSendOnlyImm = 0x05,
  kWriteFirst = 0x06,
  kWriteMiddle = 0x07,
  kWriteLast = 0x08,
  kWriteLastImm = 0x09,
  kWriteOnly = 0x0a,
  kWriteOnlyImm = 0x0b,
  kReadRequest = 0x0c,
  kReadResponseFirst = 0x0d,
  kReadResponseMiddle = 0x0e,
  kReadResponseLast = 0x0f,
  kReadResponseOnly = 0x10,
  kAcknowledge = 0x11,
  kAtomicAcknowledge = 0x12,
  kCompareSwap = 0x13,
  kFetchAdd = 0x14,
};

// AETH syndromes (bits 7..5 class, 4..0 value).
inline constexpr std::uint8_t kAckSyndrome = 0x1f;  // ACK, credits not used
inline constexpr std::uint8_t kRnrNak = 0x20;       // | timer code
inline constexpr std::uint8_t kNakSequence = 0x60;
inline constexpr std::uint8_t kNakInvalidRequest = 0x61;
inline constexpr std::uint8_t kNakRemoteAccess = 0x62;
inline constexpr std::uint8_t kNakRemoteOperation = 0x63;

inline constexpr std::uint32_t kPsnMask = 0xffffff;

// All headers of one packet; which of them are on the wire follows from the opcode.
struct Packet {
  PacketOpcode opcode = PacketOpcode::kAcknowledge;
  bool solicited = false;
  bool ack_request = false;
  std::uint32_t destination_qp = 0;  // 24 bits
  std::uint32_t psn = 0;             // 24 bits
  std::uint64_t remote_address = 0;  // RETH, AtomicETH
  std::uint32_t rkey = 0;
  std::uint32_t dma_length = 0;   // RETH
  std::uint64_t swap_or_add = 0;  // AtomicETH
  std::uint64_t compare = 0;
  std::uint8_t syndrome = 0;    // AETH
  std::uint32_t msn = 0;        // AETH, 24 bits
  std::uint64_t original = 0;   // AtomicAckETH
  std::uint32_t immediate = 0;  // ImmDt, host byte order
  std::span<const std::byte> payload;
};

// Writes the packet with pad and ICRC; returns its size. `into` holds kMaxPacketBytes.
std::size_t encode(const Packet& packet, const WireAddress& from, const WireAddress& to,
                   std::span<std::byte> into);
// Reads and checks a packet; payload points into `bytes`. Nothing: malformed or wrong ICRC (such
// packets are dropped, never answered).
std::optional<Packet> decode(std::span<const std::byte> bytes, const WireAddress& from,
                             const WireAddress& to);

bool has_reth(PacketOpcode opcode) noexcept;
bool has_aeth(PacketOpcode opcode) noexcept;
bool has_immediate(PacketOpcode opcode) noexcept;
bool is_response(PacketOpcode opcode) noexcept;

}  // namespace rungs::verbs::soft
