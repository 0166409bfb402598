#pragma once
/// @file buffer.hpp
/// Owned memory of a device, and copies and fills on a stream.

#include <rungs/core/error.hpp>
#include <rungs/gpu/device.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace rungs::gpu {

/// Where memory lies and who may touch it.
enum class Space {
  kDevice,      ///< on the GPU; the host copies
  kHostMapped,  ///< pinned host memory that kernels reach through the same pointer: flags, records
  kShared,      ///< as kDevice, and export_memory() can hand it to another process. CUDA: a VMM
                ///< allocation of its own, rounded up to 2 MiB: only for what a peer maps
};

namespace detail {
void* allocate(const Device& device, std::size_t size_bytes, Space space);  // 256-byte aligned
void release(void* pointer, Space space) noexcept;
/// Waits for the stream, whose copies use host memory that `memory` owns. After a time-out they may
/// still be under way: then the memory stays for the process's life.
void synchronize_or_keep(std::shared_ptr<void> memory, StreamHandle stream,
                         const Deadline& deadline);
}  // namespace detail

/// Enqueues a copy between any two spaces; host memory that is not pinned may make it synchronous.
/// @throws Error kInvalidArgument for a null pointer or overlapping ranges (0 bytes: any pointers
///         will do)
/// @note capture: host memory must outlive the graph
void copy_async(void* to, const void* from, std::size_t size_bytes, StreamHandle stream);
/// Enqueues setting every byte to `value`.
void fill_async(void* to, int value, std::size_t size_bytes, StreamHandle stream);

/// Owns `count` elements, uninitialised (emulated: filled with 0xff bytes, NaN in every float type,
/// so that reads of unwritten memory show). Freeing does not wait for the device: synchronise
/// first.
template <class T>
class Buffer {
 public:
  Buffer() = default;
  /// @throws Error kCuda when memory is exhausted (the text names size and device);
  ///         kInvalidArgument while the calling thread captures a graph
  Buffer(const Device& device, std::size_t count, Space space = Space::kDevice)
      : count_(count),
        space_(space) {
    RUNGS_REQUIRE(count <= std::numeric_limits<std::size_t>::max() / sizeof(T), "buffer of ", count,
                  " elements overflows");
    if (count > 0) data_ = static_cast<T*>(detail::allocate(device, count * sizeof(T), space));
  }
  ~Buffer() { reset(); }
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    if (this != &other) {
      reset();
      swap(other);
    }
    return *this;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  [[nodiscard]] T* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size() const noexcept { return count_; }
  [[nodiscard]] std::size_t size_bytes() const noexcept { return count_ * sizeof(T); }
  void reset() noexcept {
    if (data_ != nullptr) detail::release(data_, space_);
    data_ = nullptr;
    count_ = 0;
  }

  /// Copies all of `from` to the front of the buffer, by way of a host copy, and waits.
  /// @throws Error kTimeout when the deadline passes first; the copy follows when the stream gets
  /// to
  ///         it, and reads nothing of the caller's
  void upload(std::span<const T> from, StreamHandle stream = nullptr,
              const Deadline& deadline = Deadline::standard());
  /// Copies the whole buffer to the host and waits for the stream.
  /// @throws Error kTimeout when the deadline passes first
  [[nodiscard]] std::vector<T> download(StreamHandle stream = nullptr,
                                        const Deadline& deadline = Deadline::standard()) const;

 private:
  void swap(Buffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
    std::swap(space_, other.space_);
  }
  T* data_ = nullptr;
  std::size_t count_ = 0;
  Space space_ = Space::kDevice;
};

template <class T>
void Buffer<T>::upload(std::span<const T> from, StreamHandle stream, const Deadline& deadline) {
  RUNGS_REQUIRE(from.size() <= count_, "upload of ", from.size(), " elements into a buffer of ",
                count_);
  if (from.empty()) return;
  const auto host = std::make_shared<std::vector<T>>(from.begin(), from.end());
  copy_async(data_, host->data(), from.size_bytes(), stream);
  detail::synchronize_or_keep(host, stream, deadline);
}

template <class T>
std::vector<T> Buffer<T>::download(StreamHandle stream, const Deadline& deadline) const {
  const auto host = std::make_shared<std::vector<T>>(count_);
  if (count_ > 0) copy_async(host->data(), data_, size_bytes(), stream);
  detail::synchronize_or_keep(host, stream, deadline);
  return std::move(*host);
}

}  // namespace rungs::gpu
