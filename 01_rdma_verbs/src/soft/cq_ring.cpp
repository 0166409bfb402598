// The driver's half of completion queues.

#include "rings.hpp"

namespace rungs::verbs::soft {
namespace {

using mlx5::be16;
using mlx5::be32;

}  // namespace

CqRing::CqRing(mlx5::Cqe64* entries, std::uint32_t count, std::uint32_t* doorbell_record)
    : entries_(entries),
      count_(count),
      doorbell_record_(doorbell_record) {
  for (std::uint32_t i = 0; i < count; ++i) entries[i].op_own = mlx5::kCqeInvalid << 4;
}

bool CqRing::software_owns(const mlx5::Cqe64& cqe) const noexcept {
  // atomic_ref wants a mutable object; the load changes nothing.
  auto* const word = const_cast<std::uint32_t*>(mlx5::end_word(&cqe));
  const mlx5::CqeEnd end = mlx5::cqe_end(std::atomic_ref(*word).load(std::memory_order_acquire));
  const std::uint8_t lap = (consumer_ & count_) != 0;
  return end.opcode != mlx5::kCqeInvalid && end.owner == lap;
}

std::size_t CqRing::poll(std::span<Completion> out) noexcept {
  const std::uint32_t mask = count_ - 1;
  if (out.empty() || !software_owns(entries_[consumer_ & mask])) return 0;
  const std::lock_guard lock(mutex_);
  const std::uint32_t before = consumer_;
  std::size_t taken = 0;
  while (taken < out.size() && software_owns(entries_[consumer_ & mask])) {
    if (read(entries_[consumer_ & mask], out[taken])) ++taken;
    ++consumer_;
  }
  if (consumer_ != before) {
    store_release(doorbell_record_[mlx5::kCqConsumerRecord], be32(consumer_ & 0xffffff));
  }
  return taken;
}

bool CqRing::read(const mlx5::Cqe64& cqe, Completion& into) noexcept {
  const std::uint32_t qp_number = be32(cqe.sop_drop_qpn) & 0xffffff;
  const auto found = queue_pairs_.find(qp_number);
  if (found == queue_pairs_.end()) return false;
  QpRings& rings = *found->second;
  const std::uint8_t opcode = cqe.op_own >> 4;
  const std::uint16_t counter = be16(cqe.wqe_counter);

  into = Completion{};
  into.qp_number = qp_number;
  into.receive = opcode != mlx5::kCqeRequest && opcode != mlx5::kCqeRequestError;
  if (into.receive) {
    into.id = rings.recv.complete(counter);
    if (opcode == mlx5::kCqeReceiveSendImm) into.opcode = Opcode::kSendWithImm;
    if (opcode == mlx5::kCqeReceiveWriteImm) into.opcode = Opcode::kRdmaWriteWithImm;
  } else {
    into.id = rings.send.complete(counter);
    into.opcode = opcode_of_wqe(static_cast<std::uint8_t>(be32(cqe.sop_drop_qpn) >> 24));
  }
  if (opcode == mlx5::kCqeRequestError || opcode == mlx5::kCqeReceiveError) {
    into.status = status_of_syndrome(cqe.syndrome);
    into.vendor_syndrome = cqe.vendor_syndrome;
    return true;
  }
  into.size_bytes = be32(cqe.byte_cnt);
  if (into.opcode == Opcode::kSendWithImm || into.opcode == Opcode::kRdmaWriteWithImm)
    into.immediate = be32(cqe.imm);
  return true;
}

void CqRing::attach(std::uint32_t qp_number, std::shared_ptr<QpRings> rings) {
  const std::lock_guard lock(mutex_);
  queue_pairs_.emplace(qp_number, std::move(rings));
}

void CqRing::detach(std::uint32_t qp_number) noexcept {
  const std::lock_guard lock(mutex_);
  queue_pairs_.erase(qp_number);
}

}  // namespace rungs::verbs::soft
