#pragma once
// A completion queue of the software HCA: its memory, the driver's half and the device's.

#include "device.hpp"
#include "memory.hpp"
#include "queues.hpp"
#include "rings.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace rungs::verbs::soft {

class SoftCompletionQueue final : public provider::CompletionQueue {
 public:
  SoftCompletionQueue(std::shared_ptr<SoftDevice> device, std::uint32_t count)
      : device_(std::move(device)),
        count_(count),
        memory_(count * sizeof(mlx5::Cqe64) + kLineBytes),
        ring(entries(), count, record()),
        writer(entries(), count, record(), device_->engine.hca().counters.cqes) {}

  std::size_t poll(std::span<Completion> out) noexcept override { return ring.poll(out); }
  bool overflowed() const noexcept override { return writer.overflowed(); }
  unsigned depth() const noexcept override { return count_; }
  mlx5::RawCompletionQueue raw_queue() override {
    return {entries(), count_, record(), memory_.data(), memory_.size_bytes()};
  }
  [[nodiscard]] const SoftDevice* device() const noexcept { return device_.get(); }

 private:
  [[nodiscard]] mlx5::Cqe64* entries() const { return memory_.at<mlx5::Cqe64>(0); }
  [[nodiscard]] std::uint32_t* record() const {
    return memory_.at<std::uint32_t>(count_ * sizeof(mlx5::Cqe64));
  }

  std::shared_ptr<SoftDevice> device_;
  std::uint32_t count_;
  DmaBuffer memory_;  // entries, doorbell record

 public:
  CqRing ring;      // the driver's half
  CqWriter writer;  // the device's
};

}  // namespace rungs::verbs::soft
