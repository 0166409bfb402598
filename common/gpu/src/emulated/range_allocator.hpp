#pragma once
/// @file range_allocator.hpp
/// First-fit allocation of ranges of an address space it never touches.

#include <rungs/config.hpp>

#include <cstddef>
#include <map>
#include <optional>

namespace rungs::gpu::detail {

/// Hands out ranges of [0, capacity). Not thread safe.
class RangeAllocator {
 public:
  struct Range {
    std::size_t offset;
    std::size_t size;
  };
  /// Every offset and size is a multiple of `alignment`.
  RangeAllocator(std::size_t capacity, std::size_t alignment);

  /// The lowest free range of at least `size` (rounded up); none if there is none.
  std::optional<Range> allocate(std::size_t size);
  /// Frees the range that begins at `offset` and joins it with free neighbours. None if none begins
  /// there.
  std::optional<Range> release(std::size_t offset);
  /// The allocated range that `offset` lies in.
  [[nodiscard]] std::optional<Range> find(std::size_t offset) const;

  [[nodiscard]] std::size_t used() const { return used_; }
  [[nodiscard]] std::size_t largest_free() const;

 private:
  std::size_t alignment_;
  std::size_t used_ = 0;
  std::map<std::size_t, std::size_t> free_;       // offset → size, never adjacent to each other
  std::map<std::size_t, std::size_t> allocated_;  // offset → size
};

}  // namespace rungs::gpu::detail
