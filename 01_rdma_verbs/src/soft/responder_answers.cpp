// The responder's mouth: acknowledgements, NAKs, answers to reads and atomics.

#include "qp_context.hpp"

#include <algorithm>
#include <array>

namespace rungs::verbs::soft {
namespace {

PacketOpcode read_response_opcode(std::uint32_t number, std::uint32_t count) {
  if (count == 1) return PacketOpcode::kReadResponseOnly;
  if (number == 0) return PacketOpcode::kReadResponseFirst;
  return number + 1 == count ? PacketOpcode::kReadResponseLast : PacketOpcode::kReadResponseMiddle;
}

}  // namespace

void Responder::acknowledge(std::uint32_t psn) {
  // One ACK speaks for all before it.
  if (!answers_.empty() && answers_.back().opcode == PacketOpcode::kAcknowledge &&
      answers_.back().syndrome == kAckSyndrome) {
    answers_.back().psn = psn;
    return;
  }
  answers_.push_back({.opcode = PacketOpcode::kAcknowledge, .psn = psn});
}

void Responder::not_acknowledge(std::uint8_t syndrome) {
  answers_.push_back(
      {.opcode = PacketOpcode::kAcknowledge, .psn = expected_, .syndrome = syndrome});
  hca_.counters.naks_sent.add();
}

bool Responder::progress() {
  unsigned sent = 0;
  while (!answers_.empty() && sent < kBurst) {
    Answer& answer = answers_.front();
    if (answer.opcode == PacketOpcode::kReadResponseOnly) {
      const std::uint32_t count = packet_count(answer.length, qp_.connection.mtu);
      if (!send_read_packet(answer)) break;
      ++sent;
      if (++answer.sent == count) answers_.pop_front();
      continue;
    }
    Packet packet;
    packet.opcode = answer.opcode;
    packet.psn = answer.psn;
    packet.syndrome = answer.syndrome;
    packet.msn = msn_;
    packet.original = answer.original;
    if (!hca_.transmit(qp_.connection, packet)) break;
    ++sent;
    answers_.pop_front();
  }
  return sent > 0;
}

bool Responder::send_read_packet(Answer& answer) {
  const std::uint32_t mtu = qp_.connection.mtu;
  const std::uint64_t offset = std::uint64_t{answer.sent} * mtu;
  const std::size_t size = std::min<std::uint64_t>(mtu, answer.length - offset);
  std::array<std::byte, 4096> staging;
  Packet packet;
  packet.opcode = read_response_opcode(answer.sent, packet_count(answer.length, mtu));
  packet.psn = psn_add(answer.psn, answer.sent);
  packet.msn = msn_;
  packet.syndrome = kAckSyndrome;
  if (size > 0) {
    const std::uint64_t address = answer.address + offset;
    if (!hca_.keys.allowed(answer.rkey, qp_.settings.pd, address, size, Access::kRemoteRead)) {
      answer.length = 0;  // the region went away under way: nothing more to say about it
      answers_.pop_front();
      if (qp_.state() == QpState::kReady) refuse(kNakRemoteAccess);
      return false;
    }
    const auto* from = reinterpret_cast<const std::byte*>(address);
    if (size > kPolledBytes) {
      packet.payload = {from, size};
    } else {
      copy_out(staging.data(), from, size);
      packet.payload = std::span(staging).first(size);
    }
  }
  return hca_.transmit(qp_.connection, packet);
}

}  // namespace rungs::verbs::soft
