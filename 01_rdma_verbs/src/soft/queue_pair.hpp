#pragma once
// A queue pair of the software HCA: its memory, the driver's half and the device's.

#include "completion_queue.hpp"
#include "device.hpp"
#include "memory.hpp"
#include "qp_context.hpp"
#include "rings.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

namespace rungs::verbs::soft {

// What the options ask for, rounded up. Throws kInvalidArgument if it does not fit.
QueueShape shape_of(const QueuePairOptions& options);

class SoftQueuePair final : public provider::QueuePair {
 public:
  SoftQueuePair(std::shared_ptr<SoftDevice> device, std::uint32_t pd, const QueueShape& shape,
                const QueuePairOptions& options, std::shared_ptr<SoftCompletionQueue> send_cq,
                std::shared_ptr<SoftCompletionQueue> recv_cq);
  ~SoftQueuePair() override;
  SoftQueuePair(const SoftQueuePair&) = delete;
  SoftQueuePair& operator=(const SoftQueuePair&) = delete;

  std::uint32_t number() const noexcept override { return context_->settings.number; }
  bool failed() const noexcept override { return context_->state() == QpState::kError; }
  std::size_t send_slots_free() const noexcept override { return rings_->send.slots_free(); }

  QpAddress address() const override;
  void connect(const QpAddress& remote) override;
  PostResult post_send(std::span<const SendRequest> requests) noexcept override;
  PostResult post_recv(std::span<const RecvRequest> requests) noexcept override;
  void fail() noexcept override;
  mlx5::RawQueuePair raw_queue(mlx5::DoorbellWriter writer) override;

  void set_first_psn(std::uint32_t psn) noexcept { first_psn_ = psn & kPsnMask; }

 private:
  // One block, as mlx5 lays it out: receive queue, send queue; then doorbell record and register,
  // each on a cache line of its own.
  [[nodiscard]] std::size_t send_offset() const {
    return (shape_.recv_bytes() + kLineBytes - 1) / kLineBytes * kLineBytes;
  }
  [[nodiscard]] std::byte* send_ring() const { return memory_.at<std::byte>(send_offset()); }
  [[nodiscard]] std::uint32_t* record() const {
    return memory_.at<std::uint32_t>(send_offset() + shape_.send_bytes());
  }
  [[nodiscard]] std::uint64_t* doorbell() const {
    return memory_.at<std::uint64_t>(send_offset() + shape_.send_bytes() + kLineBytes);
  }

  std::shared_ptr<SoftDevice> device_;
  std::shared_ptr<SoftCompletionQueue> send_cq_;
  std::shared_ptr<SoftCompletionQueue> recv_cq_;
  QueueShape shape_;
  DmaBuffer memory_;
  std::uint32_t first_psn_;
  std::shared_ptr<QpRings> rings_;    // the driver's half
  std::optional<QpContext> context_;  // the device's
};

}  // namespace rungs::verbs::soft
