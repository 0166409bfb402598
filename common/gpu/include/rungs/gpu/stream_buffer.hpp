#pragma once
/// @file stream_buffer.hpp
/// Memory that is allocated and freed in the order of a stream, without waiting for the device
/// (cudaMallocAsync): for work whose sizes are known late.

#include <rungs/core/error.hpp>
#include <rungs/gpu/device.hpp>

#include <cstddef>
#include <limits>
#include <utility>

namespace rungs::gpu {

namespace detail {
void* allocate_in_order(std::size_t size_bytes, StreamHandle stream);  // 256-byte aligned
void release_in_order(void* pointer, StreamHandle stream);
/// For destructors: logs what release_in_order() would throw.
void release_in_order_or_log(void* pointer, StreamHandle stream) noexcept;
}  // namespace detail

/// Owns `count` elements of a stream's device, uninitialised (emulated: filled with 0xff bytes).
/// They may be used by work behind the constructor's call on that stream, and by work of another
/// stream that an event (or a host that has waited) orders behind it; and only by work that comes
/// before the release in the same sense. The emulator keeps account of that order and throws at the
/// call that breaks it: a copy, a fill, or a launch with a pointer into the memory among its
/// parameters. It sees no uses in captured graphs, and no pointers that a kernel loads.
/// CUDA: other devices' kernels cannot use it.
/// @note not inside a capture. The stream must live until the buffer is released
template <class T>
class StreamBuffer {
 public:
  StreamBuffer() = default;
  /// @throws Error kCuda when memory is exhausted; kInvalidArgument while the stream or the thread
  ///         captures
  StreamBuffer(StreamHandle stream, std::size_t count) : count_(count), stream_(stream) {
    RUNGS_REQUIRE(count <= std::numeric_limits<std::size_t>::max() / sizeof(T), "buffer of ", count,
                  " elements overflows");
    if (count > 0) data_ = static_cast<T*>(detail::allocate_in_order(count * sizeof(T), stream));
  }
  /// Releases on the stream it was allocated on.
  ~StreamBuffer() {
    if (data_ != nullptr) detail::release_in_order_or_log(data_, stream_);
  }
  StreamBuffer(StreamBuffer&& other) noexcept { swap(other); }
  StreamBuffer& operator=(StreamBuffer&& other) noexcept {
    StreamBuffer moved(std::move(other));
    swap(moved);
    return *this;
  }
  StreamBuffer(const StreamBuffer&) = delete;
  StreamBuffer& operator=(const StreamBuffer&) = delete;

  [[nodiscard]] T* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size() const noexcept { return count_; }
  [[nodiscard]] std::size_t size_bytes() const noexcept { return count_ * sizeof(T); }
  /// Releases the memory behind what `stream` holds. @throws Error kInvalidArgument (emulated) if
  /// work on another stream may still use it then: the memory stays owned
  void release(StreamHandle stream) {
    if (data_ != nullptr) detail::release_in_order(data_, stream);
    data_ = nullptr;
    count_ = 0;
  }

 private:
  void swap(StreamBuffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
    std::swap(stream_, other.stream_);
  }
  T* data_ = nullptr;
  std::size_t count_ = 0;
  StreamHandle stream_ = nullptr;
};

}  // namespace rungs::gpu
