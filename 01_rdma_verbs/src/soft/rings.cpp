#include "rings.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace rungs::verbs::soft {
namespace {

using mlx5::be16;
using mlx5::be32;
using mlx5::be64;

bool is_atomic(Opcode opcode) {
  return opcode == Opcode::kFetchAdd || opcode == Opcode::kCompareSwap;
}
bool is_send(Opcode opcode) { return opcode == Opcode::kSend || opcode == Opcode::kSendWithImm; }
bool has_immediate(Opcode opcode) {
  return opcode == Opcode::kSendWithImm || opcode == Opcode::kRdmaWriteWithImm;
}

mlx5::WqeOpcode wqe_opcode(Opcode opcode) {
  switch (opcode) {
    case Opcode::kSend:
      return mlx5::kSend;
    case Opcode::kSendWithImm:
      return mlx5::kSendImm;
    case Opcode::kRdmaWrite:
      return mlx5::kRdmaWrite;
    case Opcode::kRdmaWriteWithImm:
      return mlx5::kRdmaWriteImm;
    case Opcode::kRdmaRead:
      return mlx5::kRdmaRead;
    case Opcode::kFetchAdd:
      return mlx5::kAtomicFetchAdd;
    case Opcode::kCompareSwap:
      return mlx5::kAtomicCompareSwap;
  }
  return mlx5::kNop;
}

mlx5::DataSegment data_segment(const Segment& segment) {
  return {be32(segment.size_bytes), be32(segment.lkey),
          be64(reinterpret_cast<std::uintptr_t>(segment.address))};
}

// A WQE under construction: segments one after the other. `put` zeroes the pad of a segment.
class WqeBuilder {
 public:
  template <class Segment>
  void put(const Segment& segment) {
    std::memcpy(bytes_.data() + size_, &segment, sizeof segment);
    size_ += mlx5::kSegmentBytes;
  }
  void put_inline(std::span<const Segment> segments, std::uint32_t total) {
    const std::uint32_t header = be32(total | mlx5::kInlineFlag);
    std::size_t end = size_ + sizeof header;
    std::memcpy(bytes_.data() + size_, &header, sizeof header);
    for (const Segment& segment : segments) {
      if (segment.size_bytes == 0) continue;
      std::memcpy(bytes_.data() + end, segment.address, segment.size_bytes);
      end += segment.size_bytes;
    }
    size_ = (end + mlx5::kSegmentBytes - 1) / mlx5::kSegmentBytes * mlx5::kSegmentBytes;
    std::memset(bytes_.data() + end, 0, size_ - end);
  }
  [[nodiscard]] std::uint32_t segments() const {
    return static_cast<std::uint32_t>(size_ / mlx5::kSegmentBytes);
  }
  [[nodiscard]] std::size_t size_bytes() const { return size_; }
  [[nodiscard]] std::byte* data() { return bytes_.data(); }

 private:
  alignas(
      8) std::array<std::byte, std::size_t{mlx5::kMaxWqeSegments + 1} * mlx5::kSegmentBytes> bytes_;
  std::size_t size_ = 0;
};

}  // namespace

SendRing::SendRing(const QueueShape& shape, std::uint32_t qp_number, std::byte* ring,
                   std::uint32_t* doorbell_record, std::uint64_t* doorbell, DoorbellWake& wake)
    : shape_(shape),
      qp_number_(qp_number),
      ring_(ring),
      doorbell_record_(doorbell_record),
      doorbell_(doorbell),
      wake_(wake),
      wqe_head_(shape.send_wqebbs),
      ids_(shape.send_wqebbs) {}

std::size_t SendRing::slots_free() const noexcept {
  return shape_.send_requests - (head_ - tail_.load(std::memory_order_acquire));
}

PostError SendRing::check(const SendRequest& request) const noexcept {
  if (slots_free() == 0) return PostError::kQueueFull;
  if (request.segments.size() > shape_.max_segments) return PostError::kTooManySegments;
  if (is_atomic(request.opcode) &&
      (request.segments.size() != 1 || request.segments[0].size_bytes != 8 ||
       request.remote_address % 8 != 0)) {
    return PostError::kBadRequest;
  }
  if (request.opcode > Opcode::kCompareSwap) return PostError::kBadRequest;
  if (request.inline_data) {
    if (is_atomic(request.opcode) || request.opcode == Opcode::kRdmaRead) {
      return PostError::kBadRequest;
    }
    std::uint64_t total = 0;
    for (const Segment& segment : request.segments) total += segment.size_bytes;
    if (total > shape_.max_inline_bytes) return PostError::kInlineTooLong;
  }
  return PostError::kNone;
}

PostError SendRing::put(const SendRequest& request) noexcept {
  if (const PostError error = check(request); error != PostError::kNone) return error;

  WqeBuilder wqe;
  wqe.put(mlx5::CtrlSegment{});
  if (!is_send(request.opcode)) {
    wqe.put(mlx5::RemoteSegment{be64(request.remote_address), be32(request.rkey), 0});
  }
  if (is_atomic(request.opcode)) {
    wqe.put(mlx5::AtomicSegment{be64(request.add_or_swap), be64(request.compare)});
  }
  std::uint32_t inline_bytes = 0;
  if (request.inline_data) {
    for (const Segment& segment : request.segments) inline_bytes += segment.size_bytes;
  }
  if (inline_bytes > 0) {
    wqe.put_inline(request.segments, inline_bytes);
  } else {
    for (const Segment& segment : request.segments) {
      // On hardware a byte count of 0 means 2 GiB: empty pieces are left out.
      if (segment.size_bytes > 0) wqe.put(data_segment(segment));
    }
  }

  mlx5::CtrlSegment ctrl{};
  ctrl.opmod_idx_opcode = be32((post_ & 0xffff) << 8 | wqe_opcode(request.opcode));
  ctrl.qpn_ds = be32(qp_number_ << 8 | wqe.segments());
  ctrl.fm_ce_se = static_cast<std::uint8_t>((request.signalled ? mlx5::kCqUpdate : 0) |
                                            (request.fence ? mlx5::kFence : 0));
  ctrl.imm = has_immediate(request.opcode) ? be32(request.immediate) : 0;
  std::memcpy(wqe.data(), &ctrl, sizeof ctrl);
  std::memcpy(&last_ctrl_, &ctrl, sizeof last_ctrl_);

  write_to_ring(wqe.data(), wqe.size_bytes());
  const std::uint32_t block = post_ & (shape_.send_wqebbs - 1);
  wqe_head_[block] = head_;
  ids_[block] = request.id;
  ++head_;
  post_ +=
      static_cast<std::uint32_t>((wqe.size_bytes() + mlx5::kWqebbBytes - 1) / mlx5::kWqebbBytes);
  return PostError::kNone;
}

void SendRing::write_to_ring(const std::byte* wqe, std::size_t size_bytes) noexcept {
  const std::size_t begin = std::size_t{post_ & (shape_.send_wqebbs - 1)} * mlx5::kWqebbBytes;
  const std::size_t to_end = std::min(size_bytes, shape_.send_bytes() - begin);
  std::memcpy(ring_ + begin, wqe, to_end);
  std::memcpy(ring_, wqe + to_end, size_bytes - to_end);
}

void SendRing::ring_doorbell() noexcept {
  // 1. The record says how far the queue reaches; releasing it publishes the WQEs.
  store_release(doorbell_record_[mlx5::kSendRecord], be32(post_ & 0xffff));
  // 2. The register says that there is something to look at. Sequentially consistent, as is the
  //    device's look at the register after it said that it goes to sleep: one of the two sees the
  //    other.
  std::atomic_ref(*doorbell_).store(last_ctrl_, std::memory_order_seq_cst);
  wake_.doorbell_written();
}

std::uint64_t SendRing::complete(std::uint16_t wqe_counter) noexcept {
  const std::uint32_t block = wqe_counter & (shape_.send_wqebbs - 1);
  const std::uint64_t id = ids_[block];
  tail_.store(wqe_head_[block] + 1, std::memory_order_release);
  return id;
}

RecvRing::RecvRing(const QueueShape& shape, std::byte* ring, std::uint32_t* doorbell_record)
    : shape_(shape),
      ring_(ring),
      doorbell_record_(doorbell_record),
      ids_(shape.recv_requests) {}

PostError RecvRing::put(const RecvRequest& request) noexcept {
  if (head_ - tail_.load(std::memory_order_acquire) >= shape_.recv_requests) {
    return PostError::kQueueFull;
  }
  if (request.segments.size() > shape_.max_segments) return PostError::kTooManySegments;
  const std::uint32_t entry = head_ & (shape_.recv_requests - 1);
  std::byte* to = ring_ + std::size_t{entry} * shape_.recv_stride_bytes;
  std::byte* const end = to + shape_.recv_stride_bytes;
  for (const Segment& segment : request.segments) {
    if (segment.size_bytes == 0) continue;
    const mlx5::DataSegment data = data_segment(segment);
    std::memcpy(to, &data, sizeof data);
    to += sizeof data;
  }
  if (to < end) {
    const mlx5::DataSegment stop{0, be32(mlx5::kInvalidLkey), 0};
    std::memcpy(to, &stop, sizeof stop);
  }
  ids_[entry] = request.id;
  ++head_;
  return PostError::kNone;
}

void RecvRing::ring_doorbell() noexcept {
  // No register: the device reads the record when a message needs an entry.
  store_release(doorbell_record_[mlx5::kReceiveRecord], be32(head_ & 0xffff));
}

std::uint64_t RecvRing::complete(std::uint16_t wqe_counter) noexcept {
  const std::uint64_t id = ids_[wqe_counter & (shape_.recv_requests - 1)];
  tail_.store(tail_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  return id;
}

}  // namespace rungs::verbs::soft
