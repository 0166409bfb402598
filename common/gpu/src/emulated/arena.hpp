#pragma once
/// @file arena.hpp
/// The memory of an emulated device: one memfd, mapped once, sparse. A peer maps the same
/// descriptor, as it would a CUDA VMM handle.

#include "range_allocator.hpp"

#include <cstddef>
#include <map>
#include <mutex>
#include <string>

namespace rungs::gpu::detail {

/// Thread safe.
class Arena {
 public:
  /// @throws Error kSystem if the system does not give the mapping
  Arena(std::string device_name, std::size_t size_bytes);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// 256-byte aligned memory filled with 0xff bytes: NaN in every float type, so that reads of
  /// unwritten memory show. Under AddressSanitizer poisoned red zones lie around it.
  /// @throws Error kCuda when no free range is large enough
  void* allocate(std::size_t size_bytes, bool exportable);
  /// False if `pointer` is not an allocation of this arena.
  bool release(void* pointer) noexcept;
  [[nodiscard]] bool contains(const void* pointer) const noexcept;

  /// Where the exportable allocation around `pointer` ends, as an offset in the descriptor's
  /// memory.
  /// @throws Error kInvalidArgument if there is none
  [[nodiscard]] std::size_t exported_end(const void* pointer) const;
  [[nodiscard]] std::size_t offset_of(const void* pointer) const noexcept;
  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }

 private:
  struct Allocation {
    std::size_t size_bytes;  // as asked for
    bool exportable;
  };
  std::string device_name_;
  std::size_t size_bytes_;
  int descriptor_ = -1;
  std::byte* base_ = nullptr;
  mutable std::mutex mutex_;
  RangeAllocator ranges_;
  std::map<std::size_t, Allocation> allocations_;  // by offset of the range
};

}  // namespace rungs::gpu::detail
