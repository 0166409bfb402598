#include "qp_context.hpp"
#include "timers.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace rungs::verbs::soft {
namespace {

bool is_write(std::uint8_t opcode) {
  return opcode == mlx5::kRdmaWrite || opcode == mlx5::kRdmaWriteImm;
}
bool is_atomic(std::uint8_t opcode) {
  return opcode == mlx5::kAtomicFetchAdd || opcode == mlx5::kAtomicCompareSwap;
}
bool has_immediate(std::uint8_t opcode) {
  return opcode == mlx5::kSendImm || opcode == mlx5::kRdmaWriteImm;
}

// BTH opcode of packet `first`/`last` of a send or write.
PacketOpcode message_opcode(std::uint8_t wqe_opcode, bool first, bool last) {
  const bool imm = has_immediate(wqe_opcode);
  if (is_write(wqe_opcode)) {
    if (first && last) return imm ? PacketOpcode::kWriteOnlyImm : PacketOpcode::kWriteOnly;
    if (first) return PacketOpcode::kWriteFirst;
    if (last) return imm ? PacketOpcode::kWriteLastImm : PacketOpcode::kWriteLast;
    return PacketOpcode::kWriteMiddle;
  }
  if (first && last) return imm ? PacketOpcode::kSendOnlyImm : PacketOpcode::kSendOnly;
  if (first) return PacketOpcode::kSendFirst;
  if (last) return imm ? PacketOpcode::kSendLastImm : PacketOpcode::kSendLast;
  return PacketOpcode::kSendMiddle;
}

}  // namespace

void Requester::start(std::uint32_t first_psn) {
  una_ = cursor_psn_ = highest_ = next_psn_ = first_psn & kPsnMask;
}

void Requester::doorbell() {
  qp_.send_queue.read_record();
  if (qp_.state() == QpState::kError) flush_queue();
}

bool Requester::progress() {
  if (qp_.state() != QpState::kReady || hca_.now < rnr_until_) return false;
  bool moved = false;
  unsigned sent = 0;
  while (sent < kBurst) {
    // 1. Complete or fail what waits at the front for nothing but its turn.
    moved |= settle_front();
    if (qp_.state() != QpState::kReady) return true;
    // 2. The WQE to send from: the one at the cursor, or a new one.
    if (cursor_ == inflight_.size()) {
      if (!fetch()) break;
      moved = true;
      continue;
    }
    Inflight& wqe = inflight_[cursor_];
    if (wqe.local_error != mlx5::kSyndromeNone) break;
    if (cursor_psn_ == wqe.end_psn()) {
      ++cursor_;
      continue;
    }
    // 3. One packet, if the window is open.
    if (psn_distance(cursor_psn_, una_) >= static_cast<std::int32_t>(kMaxUnackedPsns)) break;
    // The timer runs even if the wire takes nothing: the peer may have stopped emptying it.
    if (timer_ == Clock::time_point::max()) timer_ = hca_.now + qp_.settings.ack_timeout;
    if (!send_one(wqe)) break;
    ++sent;
  }
  return moved || sent > 0;
}

bool Requester::fetch() {
  SendQueue& queue = qp_.send_queue;
  if (queue.empty()) return false;
  queue.read(queue.consumer(), wqe_);
  const bool expects_data = wqe_.opcode == mlx5::kRdmaRead || is_atomic(wqe_.opcode);
  if (wqe_.fence && reads_outstanding_ > 0) return false;
  if (expects_data && reads_outstanding_ >= kMaxOutstandingReads) return false;

  Inflight& wqe = inflight_.emplace_back();
  wqe.index = queue.consumer();
  wqe.opcode = wqe_.opcode;
  wqe.local_error = find_local_error(wqe_);
  wqe.signalled = wqe_.signalled;
  wqe.expects_data = expects_data;
  wqe.length = wqe_.length;
  wqe.first_psn = next_psn_;
  if (wqe.local_error == mlx5::kSyndromeNone && wqe_.opcode != mlx5::kNop) {
    wqe.packets = is_atomic(wqe_.opcode) ? 1 : packet_count(wqe.length, qp_.connection.mtu);
  }
  next_psn_ = wqe.end_psn();
  if (expects_data) ++reads_outstanding_;
  queue.skip(wqe_.wqebbs);
  hca_.counters.wqes.add();
  return true;
}

std::uint8_t Requester::find_local_error(const SendWqe& wqe) const {
  if (!wqe.well_formed) return mlx5::kLocalQpOperationError;
  if (wqe.length > kMaxMessageBytes) return mlx5::kLocalLengthError;
  if (is_atomic(wqe.opcode) && (wqe.length != 8 || wqe.remote_address % 8 != 0)) {
    return mlx5::kLocalQpOperationError;
  }
  const bool written = wqe.opcode == mlx5::kRdmaRead || is_atomic(wqe.opcode);
  const Access access = written ? Access::kLocalWrite : Access::kLocalRead;
  for (const LocalSegment& segment : wqe.segments()) {
    if (!hca_.keys.allowed(segment.lkey, qp_.settings.pd, segment.address, segment.size_bytes,
                           access)) {
      return mlx5::kLocalProtectionError;
    }
  }
  return mlx5::kSyndromeNone;
}

bool Requester::send_one(Inflight& wqe) {
  qp_.send_queue.read(wqe.index, wqe_);
  Packet packet;
  packet.psn = cursor_psn_;
  packet.remote_address = wqe_.remote_address;
  packet.rkey = wqe_.rkey;
  std::uint32_t psns = 1;
  if (wqe.opcode == mlx5::kRdmaRead) {
    // One request asks for all that is missing; each packet of the answer has a PSN.
    const std::uint64_t done = std::uint64_t{wqe.received} * qp_.connection.mtu;
    packet.opcode = PacketOpcode::kReadRequest;
    packet.ack_request = true;
    packet.remote_address += done;
    packet.dma_length = static_cast<std::uint32_t>(wqe.length - done);
    psns = wqe.packets - wqe.received;
  } else if (is_atomic(wqe.opcode)) {
    packet.opcode =
        wqe.opcode == mlx5::kAtomicFetchAdd ? PacketOpcode::kFetchAdd : PacketOpcode::kCompareSwap;
    packet.ack_request = true;
    packet.swap_or_add = wqe_.swap_add;
    packet.compare = wqe_.compare;
  }
  const bool sent = wqe.expects_data ? hca_.transmit(qp_.connection, packet)
                                     : send_request_packet(wqe, packet, wqe_);
  if (!sent) return false;
  if (psn_distance(cursor_psn_, highest_) < 0) hca_.counters.retransmissions.add();
  cursor_psn_ = psn_add(cursor_psn_, psns);
  if (psn_distance(cursor_psn_, highest_) > 0) highest_ = cursor_psn_;
  return true;
}

// A packet of a send or write.
bool Requester::send_request_packet(Inflight& wqe, Packet packet, const SendWqe& request) {
  const std::uint32_t mtu = qp_.connection.mtu;
  const auto number = static_cast<std::uint32_t>(psn_distance(cursor_psn_, wqe.first_psn));
  const std::uint64_t offset = std::uint64_t{number} * mtu;
  const std::size_t size = std::min<std::uint64_t>(mtu, wqe.length - offset);
  const bool last = number + 1 == wqe.packets;
  packet.opcode = message_opcode(wqe.opcode, number == 0, last);
  packet.ack_request = last || (number + 1) % kAckEvery == 0;
  packet.dma_length = static_cast<std::uint32_t>(wqe.length);
  packet.immediate = request.immediate;
  std::array<std::byte, 4096> staging;
  if (request.is_inline) {
    packet.payload = request.inline_bytes().subspan(offset, size);
  } else {
    const auto payload =
        gather(hca_.keys, qp_.settings.pd, request.segments(), offset, size, staging);
    if (!payload) {  // the region went away under way
      wqe.local_error = mlx5::kLocalProtectionError;
      return false;
    }
    packet.payload = *payload;
  }
  return hca_.transmit(qp_.connection, packet);
}

// Completes NOPs and raises local errors at the front. Whether anything moved.
bool Requester::settle_front() {
  bool moved = false;
  while (!inflight_.empty()) {
    const Inflight& front = inflight_.front();
    if (front.local_error != mlx5::kSyndromeNone) {
      fail_front(front.local_error);
      return true;
    }
    if (front.packets > 0) break;
    complete_front();
    moved = true;
  }
  return moved;
}

// The peer answered: una_ moves on, counts and timer begin anew.
void Requester::moved_to(std::uint32_t una) {
  una_ = una;
  if (cursor_ == 0 && psn_distance(cursor_psn_, una_) < 0) cursor_psn_ = una_;
  went_back_ = false;
  timeouts_ = 0;
  rnr_naks_ = 0;
  timer_ =
      anything_sent_unanswered() ? hca_.now + qp_.settings.ack_timeout : Clock::time_point::max();
}

void Requester::go_back() {
  went_back_ = true;
  cursor_ = 0;
  cursor_psn_ = una_;
  timer_ = Clock::time_point::max();  // starts with the first packet sent again
}

void Requester::repair() {
  if (!went_back_) go_back();
}

void Requester::check_timer() {
  if (hca_.now < timer_ || qp_.state() != QpState::kReady) return;
  if (++timeouts_ > qp_.settings.retry_count) {
    fail_front(mlx5::kRetryExceededError);
  } else {
    go_back();
  }
}

Clock::time_point Requester::next_timer() const noexcept {
  if (qp_.state() != QpState::kReady) return Clock::time_point::max();
  return rnr_until_ > hca_.now ? rnr_until_ : timer_;
}

void Requester::complete_front() {
  const Inflight done = inflight_.front();
  inflight_.pop_front();
  if (cursor_ > 0) --cursor_;
  if (done.expects_data) --reads_outstanding_;
  if (!done.signalled) return;
  CqeContent cqe;
  cqe.wqe_opcode = done.opcode;
  cqe.wqe_counter = done.index;
  if (done.expects_data) cqe.byte_count = static_cast<std::uint32_t>(done.length);
  qp_.complete_send(cqe);
}

void Requester::fail_front(std::uint8_t syndrome) {
  if (inflight_.empty()) return;  // a full completion queue failed the pair just before
  const Inflight failed = inflight_.front();
  inflight_.pop_front();
  CqeContent cqe;
  cqe.opcode = mlx5::kCqeRequestError;
  cqe.wqe_opcode = failed.opcode;
  cqe.syndrome = syndrome;
  cqe.wqe_counter = failed.index;
  qp_.enter_error();
  qp_.complete_send(cqe);
  qp_.flush();
}

void Requester::flush() {
  std::deque<Inflight> left;
  left.swap(inflight_);
  cursor_ = 0;
  timer_ = Clock::time_point::max();
  for (const Inflight& wqe : left) {
    CqeContent cqe;
    cqe.opcode = mlx5::kCqeRequestError;
    cqe.wqe_opcode = wqe.opcode;
    cqe.syndrome = mlx5::kFlushError;
    cqe.wqe_counter = wqe.index;
    qp_.complete_send(cqe);
  }
  qp_.send_queue.read_record();
  flush_queue();
}

void Requester::flush_queue() {
  SendQueue& queue = qp_.send_queue;
  while (!queue.empty()) {
    queue.read(queue.consumer(), wqe_);
    CqeContent cqe;
    cqe.opcode = mlx5::kCqeRequestError;
    cqe.wqe_opcode = wqe_.opcode;
    cqe.syndrome = mlx5::kFlushError;
    cqe.wqe_counter = queue.consumer();
    queue.skip(wqe_.wqebbs);
    qp_.complete_send(cqe);
  }
}

}  // namespace rungs::verbs::soft
