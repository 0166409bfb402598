// Tile copies and reductions from shared to global memory.

#include "bulk.hpp"
#include "bulk_reduce.hpp"
#include "report.hpp"
#include "sanitizer.hpp"
#include "tile.hpp"
#include "worker.hpp"

#include <cstring>
#include <memory>
#include <utility>

namespace rungs::emulator {
namespace {

constexpr std::uint32_t kGranule = SharedMemory::kGranule;
constexpr int kPoison = 0xff;

// Calls `move(global, local, size)` for each row's part inside the tensor, `local` being its place
// in a row of `row_bytes`, after `load(row)`.
template <class Row, class Move>
void for_parts(const Tile& tile, Row&& row_of, Move&& move) {
  const Tile::Part part = tile.inside();
  const std::size_t skip = std::size_t{part.first} * tile.element_bytes;
  const std::size_t size =
      part.first < part.last ? std::size_t{part.last - part.first} * tile.element_bytes : 0;
  TileRows rows(tile);
  for (std::uint32_t r = 0; r < tile.row_count; r++, rows.next()) {
    if (!rows.inside() || size == 0) continue;
    move(tile.base + rows.offset_bytes() + skip, row_of(r) + skip, size);
  }
}

class TileStore final : public Outgoing {
 public:
  TileStore(SharedSource source, const Tile& tile) : Outgoing(std::move(source)), tile_(tile) {
    for_parts(
        tile_, [](std::uint32_t) { return static_cast<const std::byte*>(nullptr); },
        [](std::byte* global, const std::byte*, std::size_t size) {
          std::memset(global, kPoison, size);
        });
  }
  void write() override {
    for_parts(
        tile_, [this](std::uint32_t r) { return row(r); },
        [](std::byte* global, const std::byte* local, std::size_t size) {
          std::memcpy(global, local, size);
          sanitizer::access(global, size, true);
        });
  }

 private:
  const std::byte* row(std::uint32_t r);

  Tile tile_;
  std::byte buffer_[2048];
};

// Row r of the box out of the source as it lies in shared memory.
void unswizzle(const Tile& tile, const SharedSource& source, std::uint32_t r, std::byte* row) {
  const std::uint32_t begin = r * tile.row_bytes;
  const std::uint32_t flip = tile.flip(source.range().offset + begin);
  for (std::uint32_t c = 0; c < tile.row_bytes; c += kGranule)
    std::memcpy(row + c, source.data() + ((begin + c) ^ flip), kGranule);
}

const std::byte* TileStore::row(std::uint32_t r) {
  unswizzle(tile_, source(), r, buffer_);
  return buffer_;
}

class TileReduction final : public Outgoing {
 public:
  TileReduction(SharedSource source, const Tile& tile, gpu::BulkReduction reduction)
      : Outgoing(std::move(source)),
        tile_(tile),
        reduction_(reduction) {}
  // Others may reduce into the same elements meanwhile: TSan is not told.
  void write() override {
    std::byte buffer[2048];
    for_parts(
        tile_,
        [&](std::uint32_t r) {
          unswizzle(tile_, source(), r, buffer);
          return static_cast<const std::byte*>(buffer);
        },
        [this](std::byte* global, const std::byte* local, std::size_t size) {
          reduce_elements(global, local, size, reduction_, tile_.element);
        });
  }

 private:
  Tile tile_;
  gpu::BulkReduction reduction_;
};

// The checks that both share.
Tile outgoing_tile(const gpu::TensorMap* map, const int* at, int rank, const SharedRange& from,
                   const char* instruction, Location where) {
  const Tile tile = read_tile(map, at, rank, from.offset, instruction, where);
  for (int d = 0; d < rank; d++) {
    if (at[d] < 0) {
      fail(
          where, "a box that starts inside the tensor",
          "%s: a box that starts at %d in dimension %d is not modelled: stores start at 0 or above",
          instruction, at[d], d);
    }
    if (tile.strides[d] != 1) {
      fail(where, "a map of its own for the store",
           "%s: element stride %u in dimension %d is not modelled", instruction, tile.strides[d],
           d);
    }
  }
  // Not in the manual: an H200 writes the 16-byte chunk in which a row ends whole, beyond the
  // tensor (measured 2026-12-01; loads stop at the element).
  const std::uint64_t row_bytes = tile.sizes[0] * tile.element_bytes;
  const std::uint64_t box_end = static_cast<std::uint64_t>(at[0]) + tile.counts[0];
  if (row_bytes % 16 != 0 && box_end > tile.sizes[0] &&
      static_cast<std::uint64_t>(at[0]) < tile.sizes[0]) {
    fail(where, "rows of a multiple of 16 bytes, or boxes that end with the row",
         "%s: the box goes on beyond a row of %llu bytes, not a multiple of 16: a Hopper GPU would "
         "write up to the next one",
         instruction, static_cast<unsigned long long>(row_bytes));
  }
  return tile;
}

}  // namespace

namespace model {

void tma_store(const gpu::TensorMap* map, const int* at, int rank, std::uint32_t source,
               std::uint64_t policy, Location where) {
  const sanitizer::Mute mute;
  constexpr const char* kStore = "TMA store";
  check_policy(policy, kStore, where);
  SharedRange from = shared_range(source, 0, true, kStore, where);
  const Tile tile = outgoing_tile(map, at, rank, from, kStore, where);
  from.size_bytes = tile.size_bytes();
  const std::uint32_t id = ++from.block->cluster->operation_ids;
  submit_outgoing(id, std::make_unique<TileStore>(SharedSource(from, id, kStore, where), tile),
                  where);
}

void tma_reduce(const gpu::TensorMap* map, const int* at, int rank, std::uint32_t source,
                gpu::BulkReduction reduction, std::uint64_t policy, Location where) {
  const sanitizer::Mute mute;
  constexpr const char* kReduce = "TMA reduction";
  check_policy(policy, kReduce, where);
  SharedRange from = shared_range(source, 0, true, kReduce, where);
  const Tile tile = outgoing_tile(map, at, rank, from, kReduce, where);
  if (!reduction_exists(reduction, tile.element, true)) {
    fail(where, "the element type of the tensor map",
         "%s: .%s of a tensor of %s does not exist or is not modelled", kReduce, name_of(reduction),
         name_of(tile.element));
  }
  // Not in the manual: an H200 ends these as an illegal instruction (measured 2026-12-01).
  if (reduction >= gpu::BulkReduction::kAnd && tile.element == gpu::TensorElement::kI64) {
    fail(where, "a map of u64",
         "%s: .%s of a tensor of s64: an illegal instruction on a Hopper GPU", kReduce,
         name_of(reduction));
  }
  from.size_bytes = tile.size_bytes();
  const std::uint32_t id = ++from.block->cluster->operation_ids;
  submit_outgoing(
      id, std::make_unique<TileReduction>(SharedSource(from, id, kReduce, where), tile, reduction),
      where);
}

}  // namespace model
}  // namespace rungs::emulator
