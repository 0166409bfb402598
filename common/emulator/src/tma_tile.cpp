#include "tile.hpp"

#include "report.hpp"

#include <algorithm>

namespace rungs::emulator {
namespace {

void check_address(const Tile& tile, std::uint32_t offset, const char* instruction,
                   Location where) {
  if (offset % 128 != 0) {
    fail(where, "alignas(1024) on the tile",
         "%s: shared-memory offset %u of the tile is not 128-byte aligned", instruction, offset);
  }
  if (tile.span_bytes == 16) return;
  if (tile.row_bytes != tile.span_bytes) {
    fail(where, "boxes as wide as the swizzle's span",
         "%s: a swizzled box with rows of %u bytes, less than the span of %u, is not modelled",
         instruction, tile.row_bytes, tile.span_bytes);
  }
  if (tile.size_bytes() % 128 != 0) {
    fail(where, "more rows in the box",
         "%s: a swizzled box of %u bytes, not a multiple of 128, is not modelled", instruction,
         tile.size_bytes());
  }
}

}  // namespace

Tile::Part Tile::inside() const {
  const std::int64_t x = at[0];
  const auto width = std::int64_t{counts[0]};
  const auto size = static_cast<std::int64_t>(sizes[0]);
  return {static_cast<std::uint32_t>(std::clamp<std::int64_t>(-x, 0, width)),
          static_cast<std::uint32_t>(std::clamp<std::int64_t>(size - x, 0, width))};
}

Tile read_tile(const gpu::TensorMap* map, const int* at, int rank, std::uint32_t shared_offset,
               const char* instruction, Location where) {
  if (reinterpret_cast<std::uintptr_t>(map) % 64 != 0) {
    fail(where, "pass it as a kernel parameter", "%s: the tensor map at %p is not 64-byte aligned",
         instruction, static_cast<const void*>(map));
  }
  gpu::TensorMapSpec spec;
  if (!decode_tile_map(*map, &spec)) {
    fail(where, "gpu::make_tensor_map() or make_tensor_map_2d(), and a parameter passed by value",
         "%s: the tensor map at %p was not made by make_tensor_map_2d() or make_tensor_map()",
         instruction, static_cast<const void*>(map));
  }
  if (spec.rank != rank) {
    fail(where, "as many coordinates as the tensor map has dimensions",
         "%s: %d coordinates for a tensor map of rank %d", instruction, rank, spec.rank);
  }
  Tile tile;
  tile.base = static_cast<std::byte*>(const_cast<void*>(spec.base));
  tile.rank = rank;
  tile.element = spec.element;
  tile.fill = spec.fill;
  tile.element_bytes = element_size_bytes(spec.element);
  tile.span_bytes = swizzle_span_bytes(spec.swizzle);
  tile.row_count = 1;
  for (int d = 0; d < Tile::kMaxRank; d++) {
    const bool real = d < rank;
    const auto i = static_cast<std::size_t>(d);
    tile.sizes[d] = real ? spec.sizes[i] : 1;
    tile.strides[d] = real ? spec.element_strides[i] : 1;
    tile.counts[d] = real ? (spec.box[i] + tile.strides[d] - 1) / tile.strides[d] : 1;
    tile.at[d] = real ? at[d] : 0;
    const std::uint64_t bytes = d == 0 ? tile.element_bytes : !real ? 0 : spec.strides_bytes[i - 1];
    tile.steps_bytes[d] = static_cast<std::int64_t>(bytes * tile.strides[d]);
    if (d > 0) tile.row_count *= tile.counts[d];
  }
  tile.row_bytes = tile.counts[0] * tile.element_bytes;
  // Not in the manual: an H200 ends such a copy as an illegal instruction (measured 2026-11-30,
  // driver 580, every element size and swizzle; columns outside the tensor are fine if aligned).
  const std::int64_t column_bytes = std::int64_t{at[0]} * tile.element_bytes;
  if (column_bytes % 16 != 0) {
    fail(where, "a column that starts a 16-byte chunk of the row",
         "%s: column %d is byte %lld of its row, not a multiple of 16: an illegal instruction on a "
         "Hopper GPU",
         instruction, at[0], static_cast<long long>(column_bytes));
  }
  check_address(tile, shared_offset, instruction, where);
  return tile;
}

TileRows::TileRows(const Tile& tile) : tile_(tile) {
  for (int d = 0; d < Tile::kMaxRank; d++) {
    at_[d] = tile.at[d];
    offset_bytes_ += at_[d] * (tile.steps_bytes[d] / tile.strides[d]);
    if (d > 0) outside_ += outside(d);
  }
}

}  // namespace rungs::emulator
