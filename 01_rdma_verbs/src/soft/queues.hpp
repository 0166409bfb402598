#pragma once
// The device's half of the queues: reads WQEs and doorbell records, writes CQEs. It trusts nothing
// it reads. Called under the engine's lock only.

#include "memory.hpp"

#include <rungs/verbs/mlx5.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace rungs::verbs::soft {

// What only the thread under the engine's lock changes and any thread may read.
class Counter {
 public:
  void add(std::uint64_t n = 1) noexcept { set(get() + n); }
  void set(std::uint64_t value) noexcept { value_.store(value, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t get() const noexcept {
    return value_.load(std::memory_order_relaxed);
  }

 private:
  std::atomic<std::uint64_t> value_{0};
};

// A send WQE, read from the ring and taken apart.
class SendWqe {
 public:
  std::uint8_t opcode = mlx5::kNop;
  std::uint32_t wqebbs = 1;
  bool well_formed = false;  // index, queue pair, opcode and segments make sense
  bool signalled = false;
  bool fence = false;
  std::uint32_t immediate = 0;
  std::uint64_t remote_address = 0;
  std::uint32_t rkey = 0;
  std::uint64_t swap_add = 0;
  std::uint64_t compare = 0;
  std::uint64_t length = 0;  // payload bytes
  bool is_inline = false;

  // Where the payload lies; for inline data see inline_bytes().
  [[nodiscard]] std::span<const LocalSegment> segments() const {
    return {segments_.data(), segment_count_};
  }
  [[nodiscard]] std::span<const std::byte> inline_bytes() const {
    return std::span(bytes_).subspan(inline_offset_, length);
  }

 private:
  friend class SendQueue;
  void parse(std::uint32_t index, std::uint32_t qp_number);
  void parse_data(std::size_t offset, std::size_t end);

  alignas(8) std::array<std::byte, (mlx5::kMaxWqeSegments + 1) * mlx5::kSegmentBytes> bytes_;
  std::array<LocalSegment, mlx5::kMaxWqeSegments> segments_;
  std::size_t segment_count_ = 0;
  std::size_t inline_offset_ = 0;
};

class SendQueue {
 public:
  SendQueue(const std::byte* ring, std::uint32_t wqebbs, std::uint32_t qp_number,
            std::uint32_t* doorbell_record, std::uint64_t* doorbell)
      : ring_(ring),
        wqebbs_(wqebbs),
        qp_number_(qp_number),
        doorbell_record_(doorbell_record),
        doorbell_(doorbell) {}

  // Whether the register was written since the last look. True: producer() may have moved.
  bool doorbell_rang() noexcept;
  // The same without taking note of it.
  [[nodiscard]] bool doorbell_waits() const noexcept;
  // Reads the record: how many WQEBBs were ever posted, 16 bits.
  void read_record() noexcept;
  [[nodiscard]] bool empty() const noexcept { return consumer_ == producer_; }
  [[nodiscard]] std::uint16_t consumer() const noexcept { return consumer_; }
  void skip(std::uint32_t wqebbs) noexcept;

  // The WQE that begins at WQEBB `index` (16 bits); used again for each packet, as hardware does.
  void read(std::uint16_t index, SendWqe& into) const noexcept;

 private:
  const std::byte* ring_;
  std::uint32_t wqebbs_;
  std::uint32_t qp_number_;
  std::uint32_t* doorbell_record_;
  std::uint64_t* doorbell_;
  std::uint16_t producer_ = 0;
  std::uint16_t consumer_ = 0;  // next WQE that the requester has not begun
};

// A receive request, taken by a message.
struct RecvWqe {
  std::uint16_t index = 0;
  std::uint64_t capacity_bytes = 0;
  std::array<LocalSegment, 32> segments;
  std::size_t segment_count = 0;
  [[nodiscard]] std::span<const LocalSegment> used() const {
    return {segments.data(), segment_count};
  }
};
inline constexpr std::uint32_t kMaxSegments = 30;
static_assert(kMaxSegments <= 32);

class RecvQueue {
 public:
  RecvQueue(const std::byte* ring, std::uint32_t entries, std::uint32_t stride_bytes,
            std::uint32_t* doorbell_record)
      : ring_(ring),
        entries_(entries),
        stride_bytes_(stride_bytes),
        doorbell_record_(doorbell_record) {}
  // Takes the next request. False: none is posted.
  bool take(RecvWqe& into) noexcept;
  // Whether take() would succeed.
  [[nodiscard]] bool any() const noexcept;

 private:
  const std::byte* ring_;
  std::uint32_t entries_;
  std::uint32_t stride_bytes_;
  std::uint32_t* doorbell_record_;
  std::uint16_t consumer_ = 0;
};

// What a CQE says.
struct CqeContent {
  mlx5::CqeOpcode opcode = mlx5::kCqeRequest;
  std::uint8_t wqe_opcode = 0;
  std::uint8_t syndrome = mlx5::kSyndromeNone;
  std::uint32_t qp_number = 0;
  std::uint16_t wqe_counter = 0;
  std::uint32_t byte_count = 0;
  std::uint32_t immediate = 0;
};

class CqWriter {
 public:
  CqWriter(mlx5::Cqe64* entries, std::uint32_t count, std::uint32_t* doorbell_record,
           Counter& written)
      : entries_(entries),
        count_(count),
        doorbell_record_(doorbell_record),
        written_(written) {}
  // False: the driver has not consumed the entry that stands here. The completion is lost and the
  // queue unusable, as on hardware.
  bool write(const CqeContent& content) noexcept;
  [[nodiscard]] bool overflowed() const noexcept {
    return overflowed_.load(std::memory_order_acquire);
  }

 private:
  mlx5::Cqe64* entries_;
  std::uint32_t count_;
  std::uint32_t* doorbell_record_;
  Counter& written_;
  std::uint32_t producer_ = 0;
  std::atomic<bool> overflowed_{false};
};

}  // namespace rungs::verbs::soft
