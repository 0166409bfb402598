#pragma once
// A kernel that keeps a stream busy until the host lets it go.

#include <rungs/gpu/buffer.hpp>
#include <rungs/gpu/stream.hpp>

#include <cstdint>

namespace rungs::training {

/// What is enqueued behind it waits. It gives up by itself, so that a host that waits for the
/// stream meanwhile is found out instead of hanging.
class Hold {
 public:
  /// Allocates, which waits for kernels of ranks that share the GPU: make all before one starts.
  explicit Hold(const gpu::Device& device);
  void start(gpu::StreamHandle stream);
  void release();
  /// Whether it ended before release(): whoever enqueued has waited for the device.
  [[nodiscard]] bool gave_up() const;

 private:
  gpu::Buffer<std::uint32_t> words_;  // host-mapped: released, gave up
};

}  // namespace rungs::training
