#pragma once
/// @file grid_device.hpp
/// How the materialised rungs spread independent elements over threads. For kernel sources only.

#include "../detail/rows_device.hpp"

#include <rungs/gpu/launch.hpp>

#include <algorithm>
#include <cstdint>

namespace rungs::attention::detail {

inline constexpr int kNaiveThreads = 128;

/// Blocks for `elements` independent pieces of work: at most eight an SM, each thread loops over
/// the rest.
inline gpu::LaunchConfig spread(std::int64_t elements, int sm_count) {
  const std::int64_t wanted = (elements + kNaiveThreads - 1) / kNaiveThreads;
  return {.grid = {static_cast<unsigned>(std::min<std::int64_t>(wanted, 8 * sm_count))},
          .block = {kNaiveThreads}};
}

/// First element of the calling thread, and the distance to its next.
RUNGS_DEVICE std::int64_t first_element() {
  return std::int64_t{blockIdx.x} * kNaiveThreads + threadIdx.x;
}
RUNGS_DEVICE std::int64_t element_step() { return std::int64_t{gridDim.x} * kNaiveThreads; }

/// The indices of an element of a [B, H, rows, columns] array.
struct Position {
  std::int32_t batch, head, row, column;
};
RUNGS_DEVICE Position position_of(std::int64_t element, const Shape& shape, std::int32_t rows,
                                  std::int32_t columns) {
  const std::int64_t row_of_all = element / columns;
  const std::int64_t head_of_all = row_of_all / rows;
  return {static_cast<std::int32_t>(head_of_all / shape.heads),
          static_cast<std::int32_t>(head_of_all % shape.heads),
          static_cast<std::int32_t>(row_of_all % rows),
          static_cast<std::int32_t>(element % columns)};
}

/// Dot product of two rows, in order.
RUNGS_DEVICE float dot(const bf16* a, const bf16* b, std::int32_t count) {
  float sum = 0.0f;
  for (std::int32_t d = 0; d < count; ++d) sum += to_float(a[d]) * to_float(b[d]);
  return sum;
}

}  // namespace rungs::attention::detail
