#pragma once
/// @file tile_walk_device.hpp
/// The order in which a persistent grid walks the tiles of C.

#include <rungs/gpu/kernel.hpp>

namespace rungs::gemm::detail {

/// Position of a tile, in tiles.
struct TilePosition {
  int row;
  int col;
};

/// Tiles that run at the same time should share rows of A and columns of B in L2. Walking whole
/// rows would keep one row of A and all of B alive; walking bands of 8 tile rows column by column
/// keeps 8 rows of A and as many columns of B as fit: the block of C in flight becomes nearly
/// square.
///
///     0  8  16 …        band of 8 tile rows, tiles_cols wide
///     1  9  17 …
///     …
///     7  15 23 …
inline constexpr int kBandRows = 8;

/// Any thread. The `index`-th tile of tiles_rows × tiles_cols.
RUNGS_DEVICE TilePosition tile_at(int index, int tiles_rows, int tiles_cols) {
  const int band = index / (kBandRows * tiles_cols);
  const int first_row = band * kBandRows;
  const int rows = tiles_rows - first_row < kBandRows ? tiles_rows - first_row : kBandRows;
  const int in_band = index - first_row * tiles_cols;
  return {first_row + in_band % rows, in_band / rows};
}

}  // namespace rungs::gemm::detail
