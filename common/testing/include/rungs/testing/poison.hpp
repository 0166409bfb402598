#pragma once
/// @file poison.hpp
/// Outputs are filled with a pattern before a run, so that an element nobody wrote is seen.
/// All-ones bits are a NaN in f32, f64 and bf16, and -1 in integers.

#include <rungs/gpu/buffer.hpp>
#include <rungs/gpu/stream.hpp>

#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <vector>

namespace rungs::testing {

/// Sets every byte to 0xff and waits for the default stream.
template <class T>
void poison(const gpu::Buffer<T>& buffer) {
  if (buffer.size() == 0) return;
  gpu::fill_async(buffer.data(), 0xff, buffer.size_bytes(), nullptr);
  gpu::synchronize(nullptr, Deadline::standard());
}

/// Whether a value still has the pattern.
template <class T>
bool is_poison(const T& value) {
  unsigned char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  for (const unsigned char byte : bytes) {
    if (byte != 0xff) return false;
  }
  return true;
}

/// Index of the first element nobody wrote, or the size when all were written.
template <class T>
std::size_t first_unwritten(std::span<const T> values) {
  std::size_t i = 0;
  while (i < values.size() && !is_poison(values[i])) ++i;
  return i;
}
template <class T>
std::size_t first_unwritten(const std::vector<T>& values) {
  return first_unwritten(std::span<const T>(values));
}

/// A device buffer between two guards: finds writes just outside an output. The guards are as long
/// as a tile's overshoot would be.
template <class T>
class GuardedBuffer {
 public:
  GuardedBuffer(const gpu::Device& device, std::size_t count, std::size_t guard = 1024)
      : buffer_(device, count + 2 * guard),
        count_(count),
        guard_(guard) {
    poison();
  }
  /// The part between the guards. @note 256-byte aligned if `guard` elements are
  [[nodiscard]] T* data() const noexcept { return buffer_.data() + guard_; }
  [[nodiscard]] std::size_t size() const noexcept { return count_; }
  /// Fills everything, guards included, with the pattern.
  void poison() const { testing::poison(buffer_); }
  void upload(std::span<const T> from) const {
    RUNGS_REQUIRE(from.size() <= count_, "upload of ", from.size(), " elements into a buffer of ",
                  count_);
    if (from.empty()) return;
    gpu::copy_async(data(), from.data(), from.size_bytes(), nullptr);
    gpu::synchronize(nullptr, Deadline::standard());
  }
  [[nodiscard]] std::vector<T> download() const {
    const std::vector<T> all = buffer_.download();
    return {all.begin() + static_cast<std::ptrdiff_t>(guard_),
            all.end() - static_cast<std::ptrdiff_t>(guard_)};
  }
  /// Empty when the guards are untouched; otherwise which element outside the buffer was written.
  [[nodiscard]] std::string overwritten() const {
    const std::vector<T> all = buffer_.download();
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (i == guard_) i += count_;
      if (i >= all.size()) break;
      if (is_poison(all[i])) continue;
      const auto position = static_cast<std::ptrdiff_t>(i) - static_cast<std::ptrdiff_t>(guard_);
      return "element " + std::to_string(position) + " was written, outside [0, " +
             std::to_string(count_) + ")";
    }
    return {};
  }

 private:
  gpu::Buffer<T> buffer_;
  std::size_t count_;
  std::size_t guard_;
};

}  // namespace rungs::testing
