#pragma once
/// @file pending.hpp
/// Which launches may still run: an event behind the last one on each stream.

#include <rungs/gpu/stream.hpp>

#include <vector>

namespace rungs::collectives::detail {

/// One thread at a time.
class Pending {
 public:
  explicit Pending(const gpu::Device& device) : device_(device) {
    for (int i = 0; i < kPrepared; ++i) spare_.emplace_back(device, gpu::Timing::kNone);
  }
  /// A launch was enqueued on `stream`.
  void add(gpu::StreamHandle stream) {
    for (Last& last : streams_) {
      if (last.stream == stream) return last.event.record(stream);
    }
    if (spare_.empty()) spare_.emplace_back(device_, gpu::Timing::kNone);
    streams_.push_back({stream, std::move(spare_.back())});
    spare_.pop_back();
    streams_.back().event.record(stream);
  }
  /// Waits for all of them. The streams need not exist any more.
  void wait(const Deadline& deadline) {
    for (const Last& last : streams_) last.event.synchronize(deadline);
    streams_.clear();
  }

 private:
  static constexpr int kPrepared = 4;  // nothing is made while another rank's kernel waits
  struct Last {
    gpu::StreamHandle stream;
    gpu::Event event;
  };
  gpu::Device device_;
  std::vector<gpu::Event> spare_;
  std::vector<Last> streams_;
};

}  // namespace rungs::collectives::detail
