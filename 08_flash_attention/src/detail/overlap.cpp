#include "overlap.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace rungs::attention::detail {
namespace {

std::uintptr_t end_of(const Footprint& view) {
  std::int64_t last = 0;
  for (std::size_t i = 0; i < view.extents.size(); ++i)
    last += (view.extents[i] - 1) * view.strides[i];
  return view.begin + static_cast<std::uintptr_t>(last + view.element_bytes);
}

/// Dimensions from the longest stride to the shortest.
std::vector<std::size_t> by_stride(const Footprint& view) {
  std::vector<std::size_t> order(view.strides.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t x, std::size_t y) { return view.strides[x] > view.strides[y]; });
  return order;
}

/// Whether some step n in (-b.extent, a.extent) of each dimension adds up to `distance` bytes, give
/// or take less than one element. Each stride exceeds what the shorter ones reach, so only two
/// steps a dimension can help.
bool reachable(const Footprint& a, const Footprint& b, const std::vector<std::size_t>& order,
               std::size_t depth, std::int64_t distance) {
  if (depth == order.size()) return distance > -a.element_bytes && distance < a.element_bytes;
  const std::size_t dimension = order[depth];
  const std::int64_t stride = a.strides[dimension];
  const std::int64_t below =
      distance >= 0 ? distance / stride : -((-distance + stride - 1) / stride);
  for (const std::int64_t step : {below, below + 1}) {
    if (step <= -b.extents[dimension] || step >= a.extents[dimension]) continue;
    if (reachable(a, b, order, depth + 1, distance - step * stride)) return true;
  }
  return false;
}

}  // namespace

bool may_overlap_itself(const Footprint& view) {
  std::vector<std::size_t> order = by_stride(view);
  std::reverse(order.begin(), order.end());
  std::int64_t reach = view.element_bytes;
  for (const std::size_t i : order) {
    if (view.extents[i] == 1) continue;
    if (view.strides[i] < reach) return true;
    reach += (view.extents[i] - 1) * view.strides[i];
  }
  return false;
}

bool may_overlap(const Footprint& a, const Footprint& b) {
  if (end_of(a) <= b.begin || end_of(b) <= a.begin) return false;
  if (a.strides != b.strides || a.element_bytes != b.element_bytes) return true;
  const auto distance = static_cast<std::int64_t>(b.begin) - static_cast<std::int64_t>(a.begin);
  return reachable(a, b, by_stride(a), 0, distance);
}

}  // namespace rungs::attention::detail
