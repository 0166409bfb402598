#include "queues.hpp"

#include <algorithm>
#include <cstring>

namespace rungs::verbs::soft {
namespace {

using mlx5::be16;
using mlx5::be32;
using mlx5::be64;

std::uint32_t load_acquire(std::uint32_t& word) noexcept {
  return be32(std::atomic_ref(word).load(std::memory_order_acquire));
}

template <class T>
T read_as(const std::byte* bytes) noexcept {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

}  // namespace

bool SendQueue::doorbell_waits() const noexcept {
  return std::atomic_ref(*doorbell_).load(std::memory_order_seq_cst) != 0;
}

bool SendQueue::doorbell_rang() noexcept {
  // A control segment is never all zero, so zero can stand for "not rung". Look before exchanging:
  // the exchange takes the cache line away from the driver.
  std::atomic_ref doorbell(*doorbell_);
  if (doorbell.load(std::memory_order_relaxed) == 0) return false;
  return doorbell.exchange(0, std::memory_order_acquire) != 0;
}

void SendQueue::read_record() noexcept {
  producer_ = static_cast<std::uint16_t>(load_acquire(doorbell_record_[mlx5::kSendRecord]));
}

void SendQueue::skip(std::uint32_t wqebbs) noexcept {
  // A broken WQE may claim to reach beyond what was posted.
  const auto posted = static_cast<std::uint16_t>(producer_ - consumer_);
  consumer_ = static_cast<std::uint16_t>(consumer_ + std::min<std::uint32_t>(wqebbs, posted));
}

void SendQueue::read(std::uint16_t index, SendWqe& into) const noexcept {
  const std::size_t ring_bytes = std::size_t{wqebbs_} * mlx5::kWqebbBytes;
  const std::size_t begin = (index & (wqebbs_ - 1)) * std::size_t{mlx5::kWqebbBytes};
  const auto ctrl = read_as<mlx5::CtrlSegment>(ring_ + begin);
  const std::size_t claimed = (be32(ctrl.qpn_ds) & 0x3f) * std::size_t{mlx5::kSegmentBytes};
  const std::size_t size = std::max(claimed, sizeof ctrl);  // the longest is shorter than any ring
  const std::size_t to_end = std::min(size, ring_bytes - begin);
  std::memcpy(into.bytes_.data(), ring_ + begin, to_end);
  std::memcpy(into.bytes_.data() + to_end, ring_, size - to_end);
  into.parse(index, qp_number_);
}

void SendWqe::parse(std::uint32_t index, std::uint32_t qp_number) {
  const auto ctrl = read_as<mlx5::CtrlSegment>(bytes_.data());
  const std::uint32_t first = be32(ctrl.opmod_idx_opcode);
  const std::uint32_t second = be32(ctrl.qpn_ds);
  const std::size_t end = (second & 0x3f) * std::size_t{mlx5::kSegmentBytes};
  opcode = static_cast<std::uint8_t>(first);
  wqebbs = std::max<std::uint32_t>(
      1, static_cast<std::uint32_t>((end + mlx5::kWqebbBytes - 1) / mlx5::kWqebbBytes));
  signalled = (ctrl.fm_ce_se & mlx5::kCqUpdate) != 0;
  fence = (ctrl.fm_ce_se & mlx5::kFence) != 0;
  immediate = be32(ctrl.imm);
  remote_address = 0;
  rkey = 0;
  length = 0;
  is_inline = false;
  segment_count_ = 0;
  well_formed = end >= sizeof ctrl && (first >> 8 & 0xffff) == index && second >> 8 == qp_number;
  if (!well_formed) return;

  std::size_t offset = sizeof ctrl;
  const auto has = [&](std::size_t bytes) { return offset + bytes <= end; };
  switch (opcode) {
    case mlx5::kNop:
    case mlx5::kSend:
    case mlx5::kSendImm:
      break;
    case mlx5::kRdmaWrite:
    case mlx5::kRdmaWriteImm:
    case mlx5::kRdmaRead:
    case mlx5::kAtomicCompareSwap:
    case mlx5::kAtomicFetchAdd: {
      well_formed = has(sizeof(mlx5::RemoteSegment));
      if (!well_formed) return;
      const auto remote = read_as<mlx5::RemoteSegment>(bytes_.data() + offset);
      remote_address = be64(remote.address);
      rkey = be32(remote.rkey);
      offset += sizeof remote;
      break;
    }
    default:
      well_formed = false;
      return;
  }
  if (opcode == mlx5::kAtomicCompareSwap || opcode == mlx5::kAtomicFetchAdd) {
    well_formed = has(sizeof(mlx5::AtomicSegment));
    if (!well_formed) return;
    const auto atomic = read_as<mlx5::AtomicSegment>(bytes_.data() + offset);
    swap_add = be64(atomic.swap_add);
    compare = be64(atomic.compare);
    offset += sizeof atomic;
  }
  parse_data(offset, end);
}

void SendWqe::parse_data(std::size_t offset, std::size_t end) {
  const bool may_be_inline = opcode == mlx5::kSend || opcode == mlx5::kSendImm ||
                             opcode == mlx5::kRdmaWrite || opcode == mlx5::kRdmaWriteImm;
  for (; offset + mlx5::kSegmentBytes <= end; offset += mlx5::kSegmentBytes) {
    const auto data = read_as<mlx5::DataSegment>(bytes_.data() + offset);
    const std::uint32_t size = be32(data.byte_count);
    if ((size & mlx5::kInlineFlag) != 0) {
      // One inline segment, and nothing else, is what drivers write.
      is_inline = true;
      length = size & ~mlx5::kInlineFlag;
      inline_offset_ = offset + sizeof data.byte_count;
      well_formed = may_be_inline && segment_count_ == 0 && inline_offset_ + length <= end;
      return;
    }
    segments_[segment_count_++] = {be64(data.address), size, be32(data.lkey)};
    length += size;
  }
}

bool RecvQueue::any() const noexcept {
  return static_cast<std::uint16_t>(load_acquire(doorbell_record_[mlx5::kReceiveRecord])) !=
         consumer_;
}

bool RecvQueue::take(RecvWqe& into) noexcept {
  if (!any()) return false;
  const std::byte* entry = ring_ + (consumer_ & (entries_ - 1)) * std::size_t{stride_bytes_};
  into.index = consumer_++;
  into.capacity_bytes = 0;
  into.segment_count = 0;
  for (std::uint32_t at = 0; at + mlx5::kSegmentBytes <= stride_bytes_; at += mlx5::kSegmentBytes) {
    const auto data = read_as<mlx5::DataSegment>(entry + at);
    if (be32(data.lkey) == mlx5::kInvalidLkey) break;
    const std::uint32_t size = be32(data.byte_count);
    into.segments[into.segment_count++] = {be64(data.address), size, be32(data.lkey)};
    into.capacity_bytes += size;
  }
  return true;
}

bool CqWriter::write(const CqeContent& content) noexcept {
  const std::uint32_t consumed = load_acquire(doorbell_record_[mlx5::kCqConsumerRecord]);
  if (((producer_ - consumed) & 0xffffff) >= count_) {
    overflowed_.store(true, std::memory_order_release);
  }
  if (overflowed()) return false;
  mlx5::Cqe64& cqe = entries_[producer_ & (count_ - 1)];
  const bool error =
      content.opcode == mlx5::kCqeRequestError || content.opcode == mlx5::kCqeReceiveError;
  cqe.imm = be32(content.immediate);
  cqe.byte_cnt = be32(content.byte_count);
  cqe.vendor_syndrome = 0;
  cqe.syndrome = error ? content.syndrome : std::uint8_t{0};
  cqe.sop_drop_qpn = be32(std::uint32_t{content.wqe_opcode} << 24 | content.qp_number);
  const std::uint32_t lap = (producer_ & count_) != 0;
  const std::uint32_t end = static_cast<std::uint32_t>(content.opcode) << 28 | lap << 24 |
                            be16(content.wqe_counter);  // signature 0
  std::atomic_ref(*mlx5::end_word(&cqe)).store(end, std::memory_order_release);
  ++producer_;
  written_.add();
  return true;
}

}  // namespace rungs::verbs::soft
