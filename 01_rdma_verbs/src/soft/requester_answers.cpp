// The requester's ears: acknowledgements, answers to reads and atomics, NAKs.

#include "qp_context.hpp"
#include "timers.hpp"

#include <algorithm>

namespace rungs::verbs::soft {

void Requester::receive(const Packet& packet) {
  if (qp_.state() != QpState::kReady) return;
  if (packet.opcode != PacketOpcode::kAcknowledge) {
    receive_data(packet);
  } else if (packet.syndrome >> 5 == 0) {
    receive_acknowledge(packet);
  } else {
    receive_nak(packet);
  }
  if (qp_.state() == QpState::kReady) settle_front();
}

// Everything before `psn` arrived at the peer. Completes what that covers; false if the answer to a
// read or atomic is missing before it, which was lost then.
bool Requester::acknowledge_before(std::uint32_t psn) {
  while (!inflight_.empty()) {
    const Inflight& front = inflight_.front();
    if (front.local_error != mlx5::kSyndromeNone) return true;
    if (front.expects_data) return psn_distance(psn, una_) <= 0;
    if (psn_distance(psn, front.end_psn()) < 0) {
      if (psn_distance(psn, una_) > 0) moved_to(psn);
      return true;
    }
    moved_to(front.end_psn());
    complete_front();
  }
  return true;
}

void Requester::receive_acknowledge(const Packet& packet) {
  const std::uint32_t behind = psn_add(packet.psn, 1);
  if (psn_distance(behind, una_) <= 0 || psn_distance(behind, highest_) > 0) return;
  if (!acknowledge_before(behind)) repair();
}

void Requester::receive_data(const Packet& packet) {
  const auto found = std::find_if(inflight_.begin(), inflight_.end(),
                                  [](const Inflight& wqe) { return wqe.expects_data; });
  if (found == inflight_.end()) return;
  const std::uint32_t expected = psn_add(found->first_psn, found->received);
  if (psn_distance(packet.psn, expected) < 0 || psn_distance(packet.psn, highest_) >= 0) return;
  // An answer acknowledges all that was sent before the request.
  acknowledge_before(found->first_psn);
  if (packet.psn != expected || inflight_.empty()) {
    repair();
    return;
  }
  Inflight& wqe = inflight_.front();
  const bool atomic = packet.opcode == PacketOpcode::kAtomicAcknowledge;
  if (!wqe.expects_data || atomic != (wqe.opcode != mlx5::kRdmaRead)) {
    fail_front(mlx5::kBadResponseError);
    return;
  }
  const std::uint64_t offset = std::uint64_t{wqe.received} * qp_.connection.mtu;
  std::span<const std::byte> payload = packet.payload;
  if (atomic) payload = std::as_bytes(std::span(&packet.original, 1));
  if (payload.size() != std::min<std::uint64_t>(qp_.connection.mtu, wqe.length - offset)) {
    fail_front(mlx5::kBadResponseError);
    return;
  }
  qp_.send_queue.read(wqe.index, wqe_);
  if (!scatter(hca_.keys, qp_.settings.pd, wqe_.segments(), offset, payload)) {
    fail_front(mlx5::kLocalProtectionError);
    return;
  }
  ++wqe.received;
  const bool done = wqe.received == wqe.packets;
  moved_to(psn_add(expected, 1));
  if (done) complete_front();
}

void Requester::receive_nak(const Packet& packet) {
  if (psn_distance(packet.psn, una_) < 0 || psn_distance(packet.psn, highest_) >= 0) return;
  const bool nothing_missing = acknowledge_before(packet.psn);
  if (packet.syndrome >> 5 == kRnrNak >> 5) {
    if (!nothing_missing) return repair();
    if (hca_.now < rnr_until_) return;  // a duplicate
    if (qp_.settings.rnr_retry_count != kRnrForever && ++rnr_naks_ > qp_.settings.rnr_retry_count) {
      return fail_front(mlx5::kRnrRetryExceededError);
    }
    rnr_until_ = hca_.now + to_duration(rnr_seconds(packet.syndrome & 0x1f));
    return go_back();
  }
  switch (packet.syndrome) {
    case kNakSequence:
      return repair();
    case kNakInvalidRequest:
      return fail_front(mlx5::kRemoteInvalidRequestError);
    case kNakRemoteAccess:
      return fail_front(mlx5::kRemoteAccessError);
    case kNakRemoteOperation:
      return fail_front(mlx5::kRemoteOperationError);
    default:
      return fail_front(mlx5::kBadResponseError);
  }
}

}  // namespace rungs::verbs::soft
