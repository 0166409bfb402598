// The tensor memory accelerator: two-dimensional tile copies from global to shared memory.

#include <rungs/emulator/tensor_map.hpp>

#include "report.hpp"
#include "sanitizer.hpp"
#include "trace_hooks.hpp"
#include "worker.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

namespace rungs::emulator {
namespace {

constexpr std::uint32_t kOffsetMask = 0xffffff;
constexpr int kPoison = 0xff;

std::uint32_t tile_bytes(const TensorMapFields& map) {
  return map.box_rows * map.box_cols * map.element_bytes;
}

// The hardware permutes 16-byte chunks by address bits: bits 4-6 are xored with bits 7-9, as many
// as the span has.
std::uint32_t swizzled(std::uint32_t offset, std::uint32_t span_bytes) {
  const std::uint32_t mask = span_bytes / 16 - 1;
  return offset ^ ((offset >> 7 & mask) << 4);
}

// Rows lie far apart, so the processor does not fetch them ahead by itself.
constexpr int kPrefetchRows = 8;
void prefetch_row(const TensorMapFields& map, std::int64_t x, std::int64_t y) {
  const auto* base = static_cast<const std::byte*>(map.base);
  const std::byte* row =
      base + y * static_cast<std::int64_t>(map.pitch_bytes) + x * map.element_bytes;
  for (std::uint32_t c = 0; c < map.box_cols * map.element_bytes; c += 64)
    __builtin_prefetch(row + c);
}

// One row of the box as it arrives: zeros outside the tensor.
const std::byte* gather_row(const TensorMapFields& map, std::int64_t x, std::int64_t y,
                            std::byte* buffer) {
  const std::uint32_t row_bytes = map.box_cols * map.element_bytes;
  const auto rows = static_cast<std::int64_t>(map.rows);
  const auto cols = static_cast<std::int64_t>(map.cols);
  const std::int64_t first = std::clamp<std::int64_t>(-x, 0, map.box_cols);
  const std::int64_t last = std::clamp<std::int64_t>(cols - x, 0, map.box_cols);
  const bool inside = y >= 0 && y < rows;
  const auto* base = static_cast<const std::byte*>(map.base);
  if (inside && first == 0 && last == map.box_cols) {
    const std::byte* row =
        base + y * static_cast<std::int64_t>(map.pitch_bytes) + x * map.element_bytes;
    sanitizer::access(row, row_bytes, false);
    return row;
  }
  std::memset(buffer, 0, row_bytes);
  if (inside && first < last) {
    const auto size = static_cast<std::size_t>((last - first) * map.element_bytes);
    const std::byte* row =
        base + y * static_cast<std::int64_t>(map.pitch_bytes) + (x + first) * map.element_bytes;
    std::memcpy(buffer + first * map.element_bytes, row, size);
    sanitizer::access(row, size, false);
  }
  return buffer;
}

struct TileCopy final : Landing {
  void land(Cluster& cluster, const AsyncOperation& operation) override;
  [[nodiscard]] trace::Description describe(const Block& block) const override;

  TensorMapFields map;
  std::uint32_t id = 0;
  std::uint32_t destination = 0;
  std::uint32_t barrier = 0;
  int x = 0;
  int y = 0;
  std::uint16_t cluster_mask = 0;
};

void land_in_block(Block& block, const TileCopy& copy, Location where) {
  const TensorMapFields& map = copy.map;
  SharedMemory& shared = block.shared;
  const std::uint32_t row_bytes = map.box_cols * map.element_bytes;
  const std::uint32_t span = swizzle_span_bytes(map.swizzle);
  sanitizer::unpoison(shared.at(copy.destination), tile_bytes(map));
  std::byte buffer[2048];  // 256 elements of 8 bytes
  for (std::uint32_t r = 0; r < map.box_rows; r++) {
    prefetch_row(map, copy.x, std::int64_t{copy.y} + r + kPrefetchRows);
    const std::byte* row = gather_row(map, copy.x, std::int64_t{copy.y} + r, buffer);
    const std::uint32_t offset = copy.destination + r * row_bytes;
    for (std::uint32_t c = 0; c < row_bytes; c += SharedMemory::kGranule) {
      const std::uint32_t to = swizzled(offset + c, span);
      __builtin_memcpy(shared.at(to), row + c, SharedMemory::kGranule);
      __builtin_memcpy(shared.view(to), row + c, SharedMemory::kGranule);
    }
  }
  const std::uint32_t granules = tile_bytes(map) / SharedMemory::kGranule;
  std::fill_n(&shared.landing(copy.destination), granules, 0);
  std::fill_n(&shared.seen_fence(copy.destination), granules, shared.fence_count);
  sanitizer::access(shared.at(copy.destination), tile_bytes(map), true);
  this_worker->counters.async_bytes += tile_bytes(map);
  mbarrier_complete_tx(block, copy.barrier, tile_bytes(map), where);
}

// Checks the destination in one block and poisons it until the copy lands.
void claim(Block& issuer, Block& block, const TileCopy& copy, Location where) {
  SharedMemory& shared = block.shared;
  const std::uint32_t size = tile_bytes(copy.map);
  if (!shared.contains(copy.destination, size)) {
    fail_async(issuer, where, "the tile's size, the destination, and the launch's shared memory",
               "TMA writes shared memory out of bounds: offset %u, %u bytes; the block has dynamic "
               "memory [%u, %u) and "
               "static up to %u",
               copy.destination, size, SharedMemory::kBase,
               SharedMemory::kBase + shared.dynamic_bytes(), shared.end());
    return;
  }
  shared.track();
  std::uint32_t* landing = &shared.landing(copy.destination);
  for (std::uint32_t i = 0; i < size / SharedMemory::kGranule; i++) {
    if (landing[i] != 0) {
      fail_async(issuer, where, "a stage refilled before its first copy was waited for",
                 "race: tile copy #%u issued over copy #%u, which is still landing at "
                 "shared-memory offset %u",
                 copy.id, landing[i], copy.destination + i * SharedMemory::kGranule);
      return;
    }
  }
  std::fill_n(landing, size / SharedMemory::kGranule, copy.id);
  std::memset(shared.at(copy.destination), kPoison, size);
  sanitizer::poison(shared.at(copy.destination), size);
}

void TileCopy::land(Cluster& cluster, const AsyncOperation& operation) {
  for (unsigned r = 0; r < cluster.blocks.size(); r++) {
    if ((cluster_mask >> r & 1) != 0) land_in_block(*cluster.blocks[r], *this, operation.where);
  }
}

trace::Description TileCopy::describe(const Block& /*block*/) const {
  trace::Description result;
  result.name = "tma load 2d";
  result.bytes =
      std::uint64_t{tile_bytes(map)} * static_cast<unsigned>(std::popcount(unsigned{cluster_mask}));
  result.facts = {{"x", std::to_string(x)},
                  {"y", std::to_string(y)},
                  {"to shared offset", std::to_string(destination)},
                  {"mbarrier", std::to_string(barrier)}};
  if (std::popcount(unsigned{cluster_mask}) > 1)
    result.facts.emplace_back("multicast mask", std::to_string(cluster_mask));
  return result;
}

}  // namespace

namespace model {

void tma_load_2d(std::uint32_t destination, const gpu::TensorMap* map, std::uint32_t barrier, int x,
                 int y, std::uint16_t cluster_mask, Location where) {
  const sanitizer::Mute mute;
  Block& block = this_thread().home();
  Cluster& cluster = *block.cluster;
  AsyncOperation operation;
  operation.kind = AsyncOperation::Kind::kCopy;
  operation.block = &block;
  operation.where = where;
  auto copy = std::make_unique<TileCopy>();
  if (reinterpret_cast<std::uintptr_t>(map) % 64 != 0) {
    fail(where, "pass it as a kernel parameter", "TMA: the tensor map at %p is not 64-byte aligned",
         static_cast<const void*>(map));
  }
  // The map is read now: the hardware may do so at any time before the copy lands.
  if (!decode_tensor_map(*map, &copy->map)) {
    fail(where, "gpu::make_tensor_map_2d()",
         "TMA: the tensor map at %p was not made by make_tensor_map_2d()",
         static_cast<const void*>(map));
  }
  copy->destination = destination & kOffsetMask;
  copy->barrier = barrier & kOffsetMask;
  copy->x = x;
  copy->y = y;
  copy->cluster_mask =
      cluster_mask != 0 ? cluster_mask : static_cast<std::uint16_t>(1u << block.rank);
  copy->id = ++cluster.operation_ids;
  operation.stream =
      (std::uint64_t{1} << 32) + copy->id;  // copies are not ordered among each other
  if (copy->destination % 128 != 0) {
    fail(where, "alignas(1024) on the tile",
         "TMA: destination at shared-memory offset %u is not 128-byte aligned", copy->destination);
  }
  // Not in the manual: an H200 ends such a copy as an illegal instruction (measured 2026-11-30,
  // driver 580, every element size and swizzle; columns outside the tensor are fine if aligned).
  const std::int64_t column_bytes = std::int64_t{x} * copy->map.element_bytes;
  if (column_bytes % 16 != 0) {
    fail(
        where, "a column that starts a 16-byte chunk of the row",
        "TMA: column %d is byte %lld of its row, not a multiple of 16: an illegal instruction on a "
        "Hopper GPU",
        x, static_cast<long long>(column_bytes));
  }
  if (copy->map.swizzle != gpu::Swizzle::kNone && tile_bytes(copy->map) % 128 != 0) {
    fail(where, "more rows in the box",
         "TMA: a swizzled box of %u bytes, not a multiple of 128, is not modelled",
         tile_bytes(copy->map));
  }
  if ((copy->cluster_mask >> cluster.blocks.size()) != 0) {
    fail(where, "LaunchConfig::cluster", "TMA: multicast mask %04x in a cluster of %zu",
         copy->cluster_mask, cluster.blocks.size());
  }
  for (unsigned r = 0; r < cluster.blocks.size(); r++) {
    if ((copy->cluster_mask >> r & 1) != 0) claim(block, *cluster.blocks[r], *copy, where);
  }
  trace::instruction("cp.async.bulk.tensor", where);
  operation.landing = std::move(copy);
  cluster.submit(std::move(operation));
}

}  // namespace model
}  // namespace rungs::emulator
