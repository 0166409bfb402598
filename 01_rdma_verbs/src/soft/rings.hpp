#pragma once
// The driver's half of the queues: builds WQEs, keeps account of slots, rings doorbells, reads
// CQEs.
// What it shares with the device is only memory in mlx5.hpp's layouts (and Doorbells' wake-up,
// which hardware does not need). The scheme is that of rdma-core's mlx5 provider.

#include <rungs/verbs/mlx5.hpp>
#include <rungs/verbs/types.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

namespace rungs::verbs::soft {

inline void store_release(std::uint32_t& word, std::uint32_t value) noexcept {
  std::atomic_ref(word).store(value, std::memory_order_release);
}

// Wakes the device when it sleeps. Hardware is woken by the bus write to the register itself.
class DoorbellWake {
 public:
  virtual ~DoorbellWake() = default;
  virtual void doorbell_written() noexcept = 0;
};

// The shape of a queue pair's queues, worked out from what was asked for.
struct QueueShape {
  std::uint32_t send_requests = 0;  // slots, a power of two
  std::uint32_t send_wqebbs = 0;    // blocks, a power of two: room for send_requests of the longest
  std::uint32_t recv_requests = 0;
  std::uint32_t recv_stride_bytes = 0;
  std::uint32_t max_segments = 0;
  std::uint32_t max_inline_bytes = 0;
  [[nodiscard]] std::size_t recv_bytes() const {
    return std::size_t{recv_requests} * recv_stride_bytes;
  }
  [[nodiscard]] std::size_t send_bytes() const {
    return std::size_t{send_wqebbs} * mlx5::kWqebbBytes;
  }
};

// A send queue. One thread posts; another may poll the completion queue.
//
// Two counts that look alike: post_ counts WQEBBs (ring positions), head_ and tail_ count requests
// (slots). A slot is free again only when a completion was polled that covers it: tail_ jumps to
// behind the request that the CQE names. So unsignalled requests hold their slots, long after the
// device is done with them, until a later signalled one is polled; a queue of unsignalled requests
// only is full for ever, with an empty completion queue.
class SendRing {
 public:
  SendRing(const QueueShape& shape, std::uint32_t qp_number, std::byte* ring,
           std::uint32_t* doorbell_record, std::uint64_t* doorbell, DoorbellWake& wake);

  // Writes one WQE; the device does not see it before ring_doorbell().
  PostError put(const SendRequest& request) noexcept;
  void ring_doorbell() noexcept;
  [[nodiscard]] std::size_t slots_free() const noexcept;
  // Frees the slots up to the WQE at this position; returns its request's id.
  std::uint64_t complete(std::uint16_t wqe_counter) noexcept;

 private:
  [[nodiscard]] PostError check(const SendRequest& request) const noexcept;
  void write_to_ring(const std::byte* wqe, std::size_t size_bytes) noexcept;

  QueueShape shape_;
  std::uint32_t qp_number_;
  std::byte* ring_;
  std::uint32_t* doorbell_record_;
  std::uint64_t* doorbell_;
  DoorbellWake& wake_;
  std::uint32_t post_ = 0;               // WQEBBs
  std::uint32_t head_ = 0;               // requests
  std::atomic<std::uint32_t> tail_{0};   // requests
  std::uint64_t last_ctrl_ = 0;          // what the doorbell register is given
  std::vector<std::uint32_t> wqe_head_;  // by WQEBB: which request began there
  std::vector<std::uint64_t> ids_;       // by WQEBB
};

// A receive queue.
class RecvRing {
 public:
  RecvRing(const QueueShape& shape, std::byte* ring, std::uint32_t* doorbell_record);
  PostError put(const RecvRequest& request) noexcept;
  void ring_doorbell() noexcept;
  std::uint64_t complete(std::uint16_t wqe_counter) noexcept;

 private:
  QueueShape shape_;
  std::byte* ring_;
  std::uint32_t* doorbell_record_;
  std::uint32_t head_ = 0;
  std::atomic<std::uint32_t> tail_{0};
  std::vector<std::uint64_t> ids_;
};

// Both queues of a queue pair.
struct QpRings {
  QpRings(const QueueShape& shape, std::uint32_t qp_number, std::byte* send_ring,
          std::byte* recv_ring, std::uint32_t* doorbell_record, std::uint64_t* doorbell,
          DoorbellWake& wake)
      : send(shape, qp_number, send_ring, doorbell_record, doorbell, wake),
        recv(shape, recv_ring, doorbell_record) {}
  SendRing send;
  RecvRing recv;
};

// A completion queue.
class CqRing {
 public:
  // `entries`: a power of two.
  CqRing(mlx5::Cqe64* entries, std::uint32_t count, std::uint32_t* doorbell_record);
  std::size_t poll(std::span<Completion> out) noexcept;
  // Queue pairs whose completions come here. Those of a pair that was detached are passed over.
  void attach(std::uint32_t qp_number, std::shared_ptr<QpRings> rings);
  void detach(std::uint32_t qp_number) noexcept;

 private:
  [[nodiscard]] bool software_owns(const mlx5::Cqe64& cqe) const noexcept;
  bool read(const mlx5::Cqe64& cqe, Completion& into) noexcept;

  mlx5::Cqe64* entries_;
  std::uint32_t count_;
  std::uint32_t* doorbell_record_;
  std::uint32_t consumer_ = 0;
  std::mutex mutex_;  // poll() against attach() and detach()
  std::unordered_map<std::uint32_t, std::shared_ptr<QpRings>> queue_pairs_;
};

}  // namespace rungs::verbs::soft
