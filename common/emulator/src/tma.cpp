// The tensor memory accelerator: tile copies from global to shared memory.

#include <rungs/core/error.hpp>

#include "bulk.hpp"
#include "report.hpp"
#include "sanitizer.hpp"
#include "tile.hpp"
#include "trace_hooks.hpp"
#include "worker.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <utility>

namespace rungs::emulator {
namespace {

constexpr const char* kLoad = "TMA";
constexpr std::uint32_t kGranule = SharedMemory::kGranule;

// Rows lie far apart, so the processor does not fetch them ahead by itself.
constexpr int kPrefetchRows = 8;

// Elements outside the tensor: zeros, or the NaN whose 16-bit halves are 0x7ff7 in every type.
void fill_outside(std::byte* row, std::uint32_t size_bytes, gpu::OutOfBounds fill) {
  if (fill == gpu::OutOfBounds::kZero) {
    std::memset(row, 0, size_bytes);
    return;
  }
  for (std::uint32_t i = 0; i < size_bytes; i += 2) {
    row[i] = std::byte{0xf7};
    row[i + 1] = std::byte{0x7f};
  }
}

struct TileCopy final : Landing {
  void land(Cluster& cluster, const AsyncOperation& operation) override;
  [[nodiscard]] trace::Description describe(const Block& block) const override;
  void land_in_block(const SharedRange& range, Location where) const;
  // One row of the box as it arrives.
  const std::byte* gather_row(const TileRows& row, Tile::Part part, std::byte* buffer) const;

  Tile tile;
  std::uint32_t destination = 0;
  std::uint32_t barrier = 0;
  std::uint16_t cluster_mask = 0;
};

const std::byte* TileCopy::gather_row(const TileRows& row, Tile::Part part,
                                      std::byte* buffer) const {
  const std::byte* from = tile.base + row.offset_bytes();
  const bool inside = row.inside();
  if (inside && part.first == 0 && part.last == tile.counts[0]) {
    sanitizer::access(from, tile.row_bytes, false);
    return from;
  }
  fill_outside(buffer, tile.row_bytes, tile.fill);
  if (inside && part.first < part.last) {
    const std::size_t skip = std::size_t{part.first} * tile.element_bytes;
    const std::size_t size = std::size_t{part.last - part.first} * tile.element_bytes;
    std::memcpy(buffer + skip, from + skip, size);
    sanitizer::access(from + skip, size, false);
  }
  return buffer;
}

void TileCopy::land_in_block(const SharedRange& range, Location where) const {
  if (!destination_lives(range, kLoad, where)) return;
  SharedMemory& shared = range.block->shared;
  sanitizer::unpoison(shared.at(range.offset), range.size_bytes);
  const Tile::Part part = tile.inside();
  const std::int64_t ahead = tile.steps_bytes[1] * kPrefetchRows;
  std::byte buffer[2048];  // 256 elements of 8 bytes
  TileRows rows(tile);
  std::byte* const memory = shared.at(0);
  std::byte* const view = shared.view(0);
  std::uint32_t offset = range.offset;
  for (std::uint32_t r = 0; r < tile.row_count; r++, rows.next(), offset += tile.row_bytes) {
    for (std::uint32_t c = 0; c < tile.row_bytes; c += 64)
      __builtin_prefetch(tile.base + rows.offset_bytes() + ahead + c);
    const std::byte* row = gather_row(rows, part, buffer);
    const std::uint32_t flip = tile.flip(offset);
    for (std::uint32_t c = 0; c < tile.row_bytes; c += kGranule) {
      const std::uint32_t to = (offset + c) ^ flip;
      __builtin_memcpy(memory + to, row + c, kGranule);
      __builtin_memcpy(view + to, row + c, kGranule);
    }
  }
  complete(range, barrier, where);
}

void TileCopy::land(Cluster& cluster, const AsyncOperation& operation) {
  for (unsigned r = 0; r < cluster.blocks.size(); r++) {
    if ((cluster_mask >> r & 1) == 0) continue;
    land_in_block({cluster.blocks[r].get(), destination, tile.size_bytes()}, operation.where);
  }
}

trace::Description TileCopy::describe(const Block& /*block*/) const {
  trace::Description result;
  const auto destinations = static_cast<unsigned>(std::popcount(unsigned{cluster_mask}));
  result.name = concat("tma load ", tile.rank, "d");
  result.bytes = std::uint64_t{tile.size_bytes()} * destinations;
  constexpr const char* kAxes[] = {"x", "y", "z", "u", "v"};
  for (int d = 0; d < tile.rank; d++) result.facts.emplace_back(kAxes[d], concat(tile.at[d]));
  result.facts.emplace_back("to shared offset", concat(destination));
  result.facts.emplace_back("mbarrier", concat(barrier));
  if (destinations > 1) result.facts.emplace_back("multicast mask", concat(cluster_mask));
  return result;
}

}  // namespace

namespace model {

void tma_load(std::uint32_t destination, const gpu::TensorMap* map, std::uint32_t barrier,
              const int* at, int rank, std::uint16_t cluster_mask, std::uint64_t policy,
              Location where) {
  const sanitizer::Mute mute;
  Block& block = this_thread().home();
  Cluster& cluster = *block.cluster;
  check_policy(policy, kLoad, where);
  const SharedRange target = shared_range(destination, 0, cluster_mask != 0, kLoad, where);
  TileCopy copy;  // not on the heap: a report never returns
  copy.tile = read_tile(map, at, rank, target.offset, kLoad, where);
  copy.destination = target.offset;
  copy.barrier = barrier_offset(barrier, *target.block, kLoad, where);
  copy.cluster_mask =
      cluster_mask != 0 ? cluster_mask : static_cast<std::uint16_t>(1u << target.block->rank);
  if ((copy.cluster_mask >> cluster.blocks.size()) != 0) {
    fail(where, "LaunchConfig::cluster", "TMA: multicast mask %04x in a cluster of %zu",
         copy.cluster_mask, cluster.blocks.size());
  }
  const std::uint32_t id = ++cluster.operation_ids;
  for (unsigned r = 0; r < cluster.blocks.size(); r++) {
    if ((copy.cluster_mask >> r & 1) == 0) continue;
    claim(block, {cluster.blocks[r].get(), target.offset, copy.tile.size_bytes()}, id, kLoad,
          where);
  }
  trace::instruction("cp.async.bulk.tensor", where);
  submit_copy(block, id, std::make_unique<TileCopy>(copy), where);
}

void tma_load_2d(std::uint32_t destination, const gpu::TensorMap* map, std::uint32_t barrier, int x,
                 int y, std::uint16_t cluster_mask, Location where) {
  const int at[] = {x, y};
  tma_load(destination, map, barrier, at, 2, cluster_mask, 0, where);
}

void tma_prefetch(const gpu::TensorMap* map, const int* at, int rank, std::uint64_t policy,
                  Location where) {
  const sanitizer::Mute mute;
  constexpr const char* kPrefetch = "cp.async.bulk.prefetch.tensor";
  check_policy(policy, kPrefetch, where);
  static_cast<void>(read_tile(map, at, rank, 0, kPrefetch, where));
  trace::instruction(kPrefetch, where);
}

}  // namespace model
}  // namespace rungs::emulator
