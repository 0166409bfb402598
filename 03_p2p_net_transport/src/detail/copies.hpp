#pragma once
/// @file copies.hpp
/// Two ways to copy a piece: by this thread, or by a GPU's copy engine on a stream.

#include <rungs/gpu/buffer.hpp>
#include <rungs/gpu/stream.hpp>

#include <cstddef>
#include <deque>
#include <memory>
#include <vector>

namespace rungs::transport::detail {

/// Copies that end in the order in which they began.
class Copies {
 public:
  virtual ~Copies() = default;
  virtual void begin(void* to, const void* from, std::size_t size_bytes,
                     const gpu::Event* after) = 0;
  /// Whether the oldest copy is over; then it is forgotten. Call only if one was begun.
  virtual bool oldest_done() = 0;
  /// Returns when no copy is under way; oldest_done() then says so of each.
  virtual void finish() noexcept = 0;
  /// Whether begin() returns before the bytes are there.
  [[nodiscard]] virtual bool asynchronous() const noexcept = 0;
};

/// memcpy: over when begin() returns. Host memory only.
class HostCopies final : public Copies {
 public:
  void begin(void* to, const void* from, std::size_t size_bytes, const gpu::Event* after) override;
  bool oldest_done() override { return true; }
  void finish() noexcept override {}
  [[nodiscard]] bool asynchronous() const noexcept override { return false; }
};

/// copy_async on a stream of its own: any memory that the device reaches.
class StreamCopies final : public Copies {
 public:
  explicit StreamCopies(const gpu::Device& device);
  ~StreamCopies() override { finish(); }
  StreamCopies(const StreamCopies&) = delete;
  StreamCopies& operator=(const StreamCopies&) = delete;
  void begin(void* to, const void* from, std::size_t size_bytes, const gpu::Event* after) override;
  bool oldest_done() override;
  void finish() noexcept override;
  [[nodiscard]] bool asynchronous() const noexcept override { return true; }

 private:
  gpu::Device device_;
  gpu::Stream stream_;
  std::deque<gpu::Event> under_way_;
  std::vector<gpu::Event> spare_;
};

}  // namespace rungs::transport::detail
