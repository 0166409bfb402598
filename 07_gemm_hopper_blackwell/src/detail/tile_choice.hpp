#pragma once
/// @file tile_choice.hpp
/// Which tile of C a block of the wgmma rung computes.

#include <array>
#include <cstdint>

namespace rungs::gemm::detail {

/// Rows and columns of C a block computes at a time.
struct TileShape {
  int rows;
  int cols;
  friend constexpr bool operator==(const TileShape&, const TileShape&) = default;
};

/// The shapes that kernels exist for, the largest first. 128 rows: two consumer warpgroups, 64
/// rows: one.
inline constexpr std::array<TileShape, 4> kTileShapes{
    {{128, 256}, {128, 128}, {64, 128}, {64, 64}}};

/// Tiles that cover C.
constexpr std::int64_t tile_count(TileShape shape, std::int64_t m, std::int64_t n) {
  return ((m + shape.rows - 1) / shape.rows) * ((n + shape.cols - 1) / shape.cols);
}

/// The shape with the least waves × (rows + cols): a step of 64 of K brings rows + cols lines
/// through L2, which is what bounds these tiles on a full machine, and a wave lasts as long as its
/// tile. Ties go to the larger tile.
constexpr TileShape choose_tile(std::int64_t m, std::int64_t n, int sm_count) {
  TileShape best = kTileShapes[0];
  std::int64_t best_cost = INT64_MAX;
  for (const TileShape shape : kTileShapes) {
    const std::int64_t waves = (tile_count(shape, m, n) + sm_count - 1) / sm_count;
    const std::int64_t cost = waves * (shape.rows + shape.cols);
    if (cost < best_cost) {
      best = shape;
      best_cost = cost;
    }
  }
  return best;
}

}  // namespace rungs::gemm::detail
