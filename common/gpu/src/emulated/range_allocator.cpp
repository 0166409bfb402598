#include "range_allocator.hpp"

#include <algorithm>
#include <iterator>

namespace rungs::gpu::detail {

RangeAllocator::RangeAllocator(std::size_t capacity, std::size_t alignment)
    : alignment_(alignment) {
  free_[0] = capacity / alignment * alignment;
}

std::optional<RangeAllocator::Range> RangeAllocator::allocate(std::size_t size) {
  if (size > largest_free()) return std::nullopt;  // also keeps the rounding below from overflowing
  const std::size_t rounded =
      (std::max<std::size_t>(size, 1) + alignment_ - 1) / alignment_ * alignment_;
  for (auto hole = free_.begin(); hole != free_.end(); ++hole) {
    if (hole->second < rounded) continue;
    const auto [offset, hole_size] = *hole;
    free_.erase(hole);
    if (hole_size > rounded) free_[offset + rounded] = hole_size - rounded;
    allocated_[offset] = rounded;
    used_ += rounded;
    return Range{offset, rounded};
  }
  return std::nullopt;
}

std::optional<RangeAllocator::Range> RangeAllocator::release(std::size_t offset) {
  const auto found = allocated_.find(offset);
  if (found == allocated_.end()) return std::nullopt;
  const Range range{found->first, found->second};
  allocated_.erase(found);
  used_ -= range.size;

  auto [hole, inserted] = free_.emplace(range.offset, range.size);
  if (const auto next = std::next(hole);
      next != free_.end() && hole->first + hole->second == next->first) {
    hole->second += next->second;
    free_.erase(next);
  }
  if (hole != free_.begin()) {
    const auto previous = std::prev(hole);
    if (previous->first + previous->second == hole->first) {
      previous->second += hole->second;
      free_.erase(hole);
    }
  }
  return range;
}

std::optional<RangeAllocator::Range> RangeAllocator::find(std::size_t offset) const {
  auto after = allocated_.upper_bound(offset);
  if (after == allocated_.begin()) return std::nullopt;
  --after;
  if (offset >= after->first + after->second) return std::nullopt;
  return Range{after->first, after->second};
}

std::size_t RangeAllocator::largest_free() const {
  std::size_t largest = 0;
  for (const auto& [offset, size] : free_) largest = std::max(largest, size);
  return largest;
}

}  // namespace rungs::gpu::detail
