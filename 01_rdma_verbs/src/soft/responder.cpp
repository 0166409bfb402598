#include "qp_context.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace rungs::verbs::soft {
namespace {

// Answers that may wait; a peer that keeps to its windows has fewer. More are dropped, as if lost.
constexpr std::size_t kMaxAnswers = 1024;

struct MessagePacket {
  bool send = false;
  bool first = false;
  bool last = false;
  bool immediate = false;
};

MessagePacket classify(PacketOpcode opcode) {
  switch (opcode) {
    case PacketOpcode::kSendFirst:
      return {.send = true, .first = true};
    case PacketOpcode::kSendMiddle:
      return {.send = true};
    case PacketOpcode::kSendLast:
      return {.send = true, .last = true};
    case PacketOpcode::kSendLastImm:
      return {.send = true, .last = true, .immediate = true};
    case PacketOpcode::kSendOnly:
      return {.send = true, .first = true, .last = true};
    case PacketOpcode::kSendOnlyImm:
      return {.send = true, .first = true, .last = true, .immediate = true};
    case PacketOpcode::kWriteFirst:
      return {.first = true};
    case PacketOpcode::kWriteLast:
      return {.last = true};
    case PacketOpcode::kWriteLastImm:
      return {.last = true, .immediate = true};
    case PacketOpcode::kWriteOnly:
      return {.first = true, .last = true};
    case PacketOpcode::kWriteOnlyImm:
      return {.first = true, .last = true, .immediate = true};
    default:
      return {};  // kWriteMiddle
  }
}

bool is_atomic(PacketOpcode opcode) {
  return opcode == PacketOpcode::kFetchAdd || opcode == PacketOpcode::kCompareSwap;
}

}  // namespace

void Responder::start(std::uint32_t first_psn) { expected_ = first_psn & kPsnMask; }

void Responder::receive(const Packet& packet) {
  if (qp_.state() == QpState::kError) {
    // The NAK may have been lost: say it again, else the peer would only know that nobody answers.
    if (last_words_ && answers_.empty() && psn_distance(packet.psn, last_words_->psn) >= 0) {
      answers_.push_back(*last_words_);
    }
    return;
  }
  if (qp_.state() != QpState::kReady || answers_.size() >= kMaxAnswers) return;

  const std::int32_t ahead = psn_distance(packet.psn, expected_);
  if (ahead > 0) {
    if (!nak_sent_) not_acknowledge(kNakSequence);
    nak_sent_ = true;
    return;
  }
  if (ahead < 0) return repeat(packet);
  nak_sent_ = false;
  if (packet.opcode == PacketOpcode::kReadRequest) return execute_read(packet);
  if (is_atomic(packet.opcode)) return execute_atomic(packet);
  execute_message(packet);
}

// A packet of a send or write, the next one.
void Responder::execute_message(const Packet& packet) {
  const MessagePacket what = classify(packet.opcode);
  const Kind kind = what.send ? Kind::kSend : Kind::kWrite;
  const std::uint32_t mtu = qp_.connection.mtu;
  // 1. Does it continue what was begun, with the right size?
  const bool begins = message_ == Kind::kNone;
  const bool size_ok = what.last
                           ? packet.payload.size() <= mtu && (begins || !packet.payload.empty())
                           : packet.payload.size() == mtu;
  if (what.first != begins || (!begins && kind != message_) || !size_ok) {
    return refuse(kNakInvalidRequest);
  }
  // 2. A receive request, where the message needs one: a send from its first packet on, a write
  //    with immediate at its last.
  if ((what.send && what.first) || (!what.send && what.immediate)) {
    if (!qp_.recv_queue.take(receive_wqe_)) {
      not_acknowledge(static_cast<std::uint8_t>(kRnrNak | qp_.settings.rnr_timer_code));
      nak_sent_ = true;  // the packets behind this one are dropped in silence
      return;
    }
    holds_receive_ = true;
  }
  // 3. Place the payload.
  if (what.first) received_ = 0;
  if (kind == Kind::kWrite && what.first && !begin_write(packet)) return;
  if (!place_payload(packet, kind)) return;
  received_ += packet.payload.size();
  if (kind == Kind::kWrite && what.last && received_ != write_length_) {
    return refuse(kNakInvalidRequest);
  }
  // 4. Move on.
  expected_ = psn_add(expected_, 1);
  message_ = what.last ? Kind::kNone : kind;
  if (what.last) msn_ = psn_add(msn_, 1);
  if (packet.ack_request) acknowledge(packet.psn);
  if (!what.last || !(what.send || what.immediate)) return;
  const mlx5::CqeOpcode opcode = !what.send       ? mlx5::kCqeReceiveWriteImm
                                 : what.immediate ? mlx5::kCqeReceiveSendImm
                                                  : mlx5::kCqeReceiveSend;
  complete_receive(opcode, mlx5::kSyndromeNone, packet.immediate);
}

bool Responder::begin_write(const Packet& packet) {
  write_address_ = packet.remote_address;
  write_length_ = packet.dma_length;
  write_rkey_ = packet.rkey;
  if (write_length_ > 0 && !hca_.keys.allowed(write_rkey_, qp_.settings.pd, write_address_,
                                              write_length_, Access::kRemoteWrite)) {
    refuse(kNakRemoteAccess);
    return false;
  }
  return true;
}

bool Responder::place_payload(const Packet& packet, Kind kind) {
  const std::size_t size = packet.payload.size();
  if (kind == Kind::kSend) {
    if (received_ + size > receive_wqe_.capacity_bytes) {
      refuse(kNakInvalidRequest, mlx5::kLocalLengthError);
      return false;
    }
    if (!scatter(hca_.keys, qp_.settings.pd, receive_wqe_.used(), received_, packet.payload)) {
      refuse(kNakRemoteOperation, mlx5::kLocalProtectionError);
      return false;
    }
    return true;
  }
  if (received_ + size > write_length_) {
    refuse(kNakInvalidRequest);
    return false;
  }
  if (size == 0) return true;
  const std::uint64_t address = write_address_ + received_;
  if (!hca_.keys.allowed(write_rkey_, qp_.settings.pd, address, size, Access::kRemoteWrite)) {
    refuse(kNakRemoteAccess);  // the region went away under way
    return false;
  }
  copy_in(reinterpret_cast<void*>(address), packet.payload.data(), size);
  return true;
}

void Responder::execute_read(const Packet& packet) {
  if (message_ != Kind::kNone || packet.dma_length > kMaxMessageBytes) {
    return refuse(kNakInvalidRequest);
  }
  if (packet.dma_length > 0 &&
      !hca_.keys.allowed(packet.rkey, qp_.settings.pd, packet.remote_address, packet.dma_length,
                         Access::kRemoteRead)) {
    return refuse(kNakRemoteAccess);
  }
  answers_.push_back({.opcode = PacketOpcode::kReadResponseOnly,
                      .psn = packet.psn,
                      .address = packet.remote_address,
                      .rkey = packet.rkey,
                      .length = packet.dma_length});
  expected_ = psn_add(expected_, packet_count(packet.dma_length, qp_.connection.mtu));
  msn_ = psn_add(msn_, 1);
}

void Responder::execute_atomic(const Packet& packet) {
  if (message_ != Kind::kNone || packet.remote_address % 8 != 0) {
    return refuse(kNakInvalidRequest);
  }
  if (!hca_.keys.allowed(packet.rkey, qp_.settings.pd, packet.remote_address, 8,
                         Access::kRemoteAtomic)) {
    return refuse(kNakRemoteAccess);
  }
  auto* target = reinterpret_cast<std::uint64_t*>(packet.remote_address);
  std::uint64_t original = 0;
  if (packet.opcode == PacketOpcode::kFetchAdd) {
    original = __atomic_fetch_add(target, packet.swap_or_add, __ATOMIC_ACQ_REL);
  } else {
    original = packet.compare;
    __atomic_compare_exchange_n(target, &original, packet.swap_or_add, false, __ATOMIC_ACQ_REL,
                                __ATOMIC_ACQUIRE);
  }
  atomics_[next_atomic_] = {true, packet.psn, original};
  next_atomic_ = (next_atomic_ + 1) % atomics_.size();
  expected_ = psn_add(expected_, 1);
  msn_ = psn_add(msn_, 1);
  answers_.push_back(
      {.opcode = PacketOpcode::kAtomicAcknowledge, .psn = packet.psn, .original = original});
}

// A request that was executed already: its answer was lost, or the wire repeated it. Nothing is
// executed twice; a read is, for it changes nothing.
void Responder::repeat(const Packet& packet) {
  if (packet.opcode == PacketOpcode::kReadRequest) {
    const bool allowed = packet.dma_length == 0 ||
                         hca_.keys.allowed(packet.rkey, qp_.settings.pd, packet.remote_address,
                                           packet.dma_length, Access::kRemoteRead);
    if (!allowed) return;
    answers_.push_back({.opcode = PacketOpcode::kReadResponseOnly,
                        .psn = packet.psn,
                        .address = packet.remote_address,
                        .rkey = packet.rkey,
                        .length = packet.dma_length});
  } else if (is_atomic(packet.opcode)) {
    // Results are kept as long as the requester may still ask for them: the last
    // kMaxOutstandingReads.
    for (const AtomicResult& result : atomics_) {
      if (!result.valid || result.psn != packet.psn) continue;
      answers_.push_back({.opcode = PacketOpcode::kAtomicAcknowledge,
                          .psn = packet.psn,
                          .original = result.original});
    }
  } else {
    acknowledge(psn_add(expected_, kPsnMask));
  }
}

// An error that ends the connection: the peer is told, a receive request in use completes with
// `receive_syndrome`, the queue pair fails.
void Responder::refuse(std::uint8_t nak, std::uint8_t receive_syndrome) {
  not_acknowledge(nak);
  last_words_ = answers_.back();
  qp_.enter_error();
  if (holds_receive_ && receive_syndrome != mlx5::kFlushError) {
    complete_receive(mlx5::kCqeReceiveError, receive_syndrome, 0);
  }
  qp_.flush();
}

void Responder::complete_receive(mlx5::CqeOpcode opcode, std::uint8_t syndrome,
                                 std::uint32_t immediate) {
  holds_receive_ = false;
  CqeContent cqe;
  cqe.opcode = opcode;
  cqe.syndrome = syndrome;
  cqe.wqe_counter = receive_wqe_.index;
  if (opcode != mlx5::kCqeReceiveError) cqe.byte_count = static_cast<std::uint32_t>(received_);
  cqe.immediate = immediate;
  qp_.complete_receive(cqe);
}

void Responder::flush() {
  if (holds_receive_) complete_receive(mlx5::kCqeReceiveError, mlx5::kFlushError, 0);
  while (qp_.recv_queue.take(receive_wqe_)) {
    complete_receive(mlx5::kCqeReceiveError, mlx5::kFlushError, 0);
  }
}

}  // namespace rungs::verbs::soft
