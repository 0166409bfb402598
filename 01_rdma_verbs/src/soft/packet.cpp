#include "packet.hpp"

#include "icrc.hpp"

#include <cassert>
#include <cstring>

namespace rungs::verbs::soft {
namespace {

// BTH (base transport header):
//   0 opcode | 1 solicited 1, migration 1, pad 2, version 4 | 2 partition key 16
//   4 FECN 1, BECN 1, reserved 6 | 5 destination queue pair 24
//   8 acknowledge 1, reserved 7 | 9 packet sequence number 24
constexpr std::size_t kBthBytes = 12;
constexpr std::size_t kRethBytes = 16;       // address 64, rkey 32, length 32
constexpr std::size_t kAtomicEthBytes = 28;  // address 64, rkey 32, swap or add 64, compare 64
constexpr std::size_t kAethBytes = 4;        // syndrome 8, message sequence number 24
constexpr std::size_t kAtomicAckBytes = 8;   // the old value
constexpr std::size_t kImmediateBytes = 4;
constexpr std::size_t kIcrcBytes = 4;
constexpr std::size_t kMaxPayloadBytes = 4096;
constexpr std::uint8_t kSolicitedBit = 0x80;
constexpr std::uint8_t kMigratedBit = 0x40;  // hardware sends 1 and rxe 0: not looked at
constexpr std::uint16_t kDefaultPartition = 0xffff;

bool is_atomic(PacketOpcode opcode) {
  return opcode == PacketOpcode::kCompareSwap || opcode == PacketOpcode::kFetchAdd;
}

// Whether a packet of this opcode may carry payload. Only and last packets of a message may be
// empty.
bool may_have_payload(PacketOpcode opcode) {
  return opcode <= PacketOpcode::kWriteOnlyImm ||
         (opcode >= PacketOpcode::kReadResponseFirst && opcode <= PacketOpcode::kReadResponseOnly);
}

std::size_t header_bytes(PacketOpcode opcode) {
  return kBthBytes + (has_reth(opcode) ? kRethBytes : 0) +
         (is_atomic(opcode) ? kAtomicEthBytes : 0) + (has_aeth(opcode) ? kAethBytes : 0) +
         (opcode == PacketOpcode::kAtomicAcknowledge ? kAtomicAckBytes : 0) +
         (has_immediate(opcode) ? kImmediateBytes : 0);
}

std::uint32_t ipv4(const Gid& gid) {
  return std::uint32_t{gid[12]} << 24 | std::uint32_t{gid[13]} << 16 | std::uint32_t{gid[14]} << 8 |
         gid[15];
}

std::uint32_t icrc_between(const WireAddress& from, const WireAddress& to,
                           std::span<const std::byte> without_icrc) {
  IpHeader ip;
  ip.source = ipv4(from.gid);
  ip.destination = ipv4(to.gid);
  ip.source_port = from.udp_port;
  ip.destination_port = to.udp_port;
  return icrc(ip, without_icrc);
}

// Fields follow each other without alignment, the most significant byte first.
class Writer {
 public:
  explicit Writer(std::byte* at) : at_(at) {}
  void put(std::uint64_t value, int size_bytes) {
    for (int i = size_bytes - 1; i >= 0; --i) *at_++ = static_cast<std::byte>(value >> (8 * i));
  }
  void put(std::span<const std::byte> bytes) {
    if (!bytes.empty()) std::memcpy(at_, bytes.data(), bytes.size());
    at_ += bytes.size();
  }

 private:
  std::byte* at_;
};

class Reader {
 public:
  explicit Reader(const std::byte* at) : at_(at) {}
  std::uint64_t take(int size_bytes) {
    std::uint64_t value = 0;
    for (int i = 0; i < size_bytes; ++i) value = value << 8 | static_cast<std::uint8_t>(*at_++);
    return value;
  }
  std::uint32_t take_32(int size_bytes = 4) { return static_cast<std::uint32_t>(take(size_bytes)); }

 private:
  const std::byte* at_;
};

// The ICRC travels with its least significant byte first, unlike everything else.
std::uint32_t load_icrc(const std::byte* at) {
  std::uint32_t value = 0;
  for (int i = 3; i >= 0; --i) value = value << 8 | static_cast<std::uint32_t>(at[i]);
  return value;
}
void store_icrc(std::byte* at, std::uint32_t value) {
  for (int i = 0; i < 4; ++i) at[i] = static_cast<std::byte>(value >> (8 * i));
}

}  // namespace

bool has_reth(PacketOpcode opcode) noexcept {
  return opcode == PacketOpcode::kWriteFirst || opcode == PacketOpcode::kWriteOnly ||
         opcode == PacketOpcode::kWriteOnlyImm || opcode == PacketOpcode::kReadRequest;
}

bool has_aeth(PacketOpcode opcode) noexcept {
  return is_response(opcode) && opcode != PacketOpcode::kReadResponseMiddle;
}

bool has_immediate(PacketOpcode opcode) noexcept {
  return opcode == PacketOpcode::kSendLastImm || opcode == PacketOpcode::kSendOnlyImm ||
         opcode == PacketOpcode::kWriteLastImm || opcode == PacketOpcode::kWriteOnlyImm;
}

bool is_response(PacketOpcode opcode) noexcept {
  return opcode >= PacketOpcode::kReadResponseFirst && opcode <= PacketOpcode::kAtomicAcknowledge;
}

std::size_t encode(const Packet& packet, const WireAddress& from, const WireAddress& to,
                   std::span<std::byte> into) {
  const PacketOpcode opcode = packet.opcode;
  const std::size_t headers = header_bytes(opcode);
  const std::size_t pad = (4 - packet.payload.size() % 4) % 4;
  const std::size_t covered = headers + packet.payload.size() + pad;
  assert(opcode <= PacketOpcode::kFetchAdd && packet.payload.size() <= kMaxPayloadBytes);
  assert(packet.payload.empty() || may_have_payload(opcode));
  assert(covered + kIcrcBytes <= into.size());

  Writer out(into.data());
  out.put(static_cast<std::uint8_t>(opcode), 1);
  out.put((packet.solicited ? kSolicitedBit : 0u) | kMigratedBit | pad << 4, 1);
  out.put(kDefaultPartition, 2);
  out.put(packet.destination_qp & 0xffffff, 4);
  out.put((packet.ack_request ? 0x80000000u : 0u) | (packet.psn & kPsnMask), 4);
  // On the wire a RETH comes before an immediate, and an AETH before the value of an atomic.
  if (has_reth(opcode)) {
    out.put(packet.remote_address, 8);
    out.put(packet.rkey, 4);
    out.put(packet.dma_length, 4);
  }
  if (is_atomic(opcode)) {
    out.put(packet.remote_address, 8);
    out.put(packet.rkey, 4);
    out.put(packet.swap_or_add, 8);
    out.put(packet.compare, 8);
  }
  if (has_aeth(opcode)) {
    out.put(packet.syndrome, 1);
    out.put(packet.msn & 0xffffff, 3);
  }
  if (opcode == PacketOpcode::kAtomicAcknowledge) out.put(packet.original, 8);
  if (has_immediate(opcode)) out.put(packet.immediate, 4);
  out.put(packet.payload);
  out.put(0, static_cast<int>(pad));
  store_icrc(&into[covered], icrc_between(from, to, into.first(covered)));
  return covered + kIcrcBytes;
}

std::optional<Packet> decode(std::span<const std::byte> bytes, const WireAddress& from,
                             const WireAddress& to) {
  if (bytes.size() < kBthBytes + kIcrcBytes || bytes.size() > kMaxPacketBytes) return std::nullopt;
  const auto opcode = static_cast<PacketOpcode>(bytes[0]);
  if (opcode > PacketOpcode::kFetchAdd) return std::nullopt;
  const std::size_t headers = header_bytes(opcode);
  const auto flags = static_cast<std::uint8_t>(bytes[1]);
  const std::size_t pad = flags >> 4 & 3;
  const bool version_0 = (flags & 0x0f) == 0;
  const std::size_t covered = bytes.size() - kIcrcBytes;
  if (!version_0 || covered % 4 != 0 || covered < headers + pad) return std::nullopt;
  const std::size_t payload = covered - headers - pad;
  if (payload > kMaxPayloadBytes) return std::nullopt;
  if (!may_have_payload(opcode) && covered != headers) return std::nullopt;
  if (load_icrc(&bytes[covered]) != icrc_between(from, to, bytes.first(covered))) {
    return std::nullopt;
  }

  Reader in(bytes.data() + 2);
  if (in.take_32(2) != kDefaultPartition) return std::nullopt;
  Packet packet;
  packet.opcode = opcode;
  packet.solicited = (flags & kSolicitedBit) != 0;
  packet.destination_qp = in.take_32() & 0xffffff;
  const std::uint32_t sequence = in.take_32();
  packet.ack_request = (sequence & 0x80000000u) != 0;
  packet.psn = sequence & kPsnMask;
  if (has_reth(opcode)) {
    packet.remote_address = in.take(8);
    packet.rkey = in.take_32();
    packet.dma_length = in.take_32();
  }
  if (is_atomic(opcode)) {
    packet.remote_address = in.take(8);
    packet.rkey = in.take_32();
    packet.swap_or_add = in.take(8);
    packet.compare = in.take(8);
  }
  if (has_aeth(opcode)) {
    packet.syndrome = static_cast<std::uint8_t>(in.take(1));
    packet.msn = in.take_32(3);
  }
  if (opcode == PacketOpcode::kAtomicAcknowledge) packet.original = in.take(8);
  if (has_immediate(opcode)) packet.immediate = in.take_32();
  packet.payload = bytes.subspan(headers, payload);
  return packet;
}

}  // namespace rungs::verbs::soft
