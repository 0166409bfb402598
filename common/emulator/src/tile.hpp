#pragma once
/// @file tile.hpp
/// The box that one TMA instruction moves: where its rows lie in global and in shared memory.

#include <rungs/emulator/model.hpp>
#include <rungs/emulator/tensor_map.hpp>

#include <cstddef>
#include <cstdint>

namespace rungs::emulator {

/// A tensor map made ready for walking. Dimensions above the rank have one element.
struct Tile {
  static constexpr int kMaxRank = gpu::TensorMapSpec::kMaxRank;

  std::byte* base = nullptr;
  std::uint64_t sizes[kMaxRank];       // elements
  std::int64_t steps_bytes[kMaxRank];  // from one element that is moved to the next
  std::uint32_t counts[kMaxRank];      // elements moved
  std::uint32_t strides[kMaxRank];     // coordinates from one of them to the next
  int at[kMaxRank];                    // coordinates of the first
  int rank = 0;
  std::uint32_t element_bytes = 0;
  std::uint32_t row_bytes = 0;  // of the contiguous dimension
  std::uint32_t row_count = 0;
  std::uint32_t span_bytes = 16;  // of the swizzle
  gpu::TensorElement element{};
  gpu::OutOfBounds fill{};

  [[nodiscard]] std::uint32_t size_bytes() const { return row_bytes * row_count; }
  /// The bits in which the chunks of the row that begins at `offset` change places: the hardware
  /// permutes 16-byte chunks by address bits, 4-6 are xored with 7-9, as many as the span has. A
  /// row of a swizzled tile is as wide as the span, so it lies within 128 bytes.
  [[nodiscard]] std::uint32_t flip(std::uint32_t offset) const {
    return (offset >> 7 & (span_bytes / 16 - 1)) << 4;
  }
  /// Elements [first, last) of a row that lie inside the tensor, if the row does.
  struct Part {
    std::uint32_t first, last;
  };
  [[nodiscard]] Part inside() const;
};

/// Reads the map now (the hardware may do so at any time before the copy lands), and checks it, the
/// coordinates and the shared-memory address. Reports what is not allowed or not modelled.
/// @param instruction for reports
Tile read_tile(const gpu::TensorMap* map, const int* at, int rank, std::uint32_t shared_offset,
               const char* instruction, Location where);

/// The rows of a tile, in the order in which they lie in shared memory.
class TileRows {
 public:
  explicit TileRows(const Tile& tile);
  [[nodiscard]] bool inside() const { return outside_ == 0; }
  /// Bytes from the tensor's base to the row's first element, which may lie outside.
  [[nodiscard]] std::int64_t offset_bytes() const { return offset_bytes_; }
  void next() {
    for (int d = 1; d < Tile::kMaxRank; d++) {
      outside_ -= outside(d);
      if (++index_[d] < tile_.counts[d]) {
        at_[d] += tile_.strides[d];
        offset_bytes_ += tile_.steps_bytes[d];
        outside_ += outside(d);
        return;
      }
      offset_bytes_ -= tile_.steps_bytes[d] * (std::int64_t{tile_.counts[d]} - 1);
      at_[d] = tile_.at[d];
      index_[d] = 0;
      outside_ += outside(d);
    }
  }

 private:
  [[nodiscard]] int outside(int d) const {
    return static_cast<std::uint64_t>(at_[d]) >= tile_.sizes[d] ? 1 : 0;
  }

  const Tile& tile_;
  std::int64_t at_[Tile::kMaxRank];
  std::uint32_t index_[Tile::kMaxRank] = {};
  std::int64_t offset_bytes_ = 0;
  int outside_ = 0;  // dimensions, of 1 and up, in which the row lies outside
};

}  // namespace rungs::emulator
