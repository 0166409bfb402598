// The multiplication itself: where the emulated tensor core reads its operands and adds up.

#include "report.hpp"
#include "sanitizer.hpp"
#include "wgmma.hpp"
#include "wgmma_fp8.hpp"
#include "wgmma_math.hpp"
#include "wgmma_operand.hpp"
#include "worker.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>

namespace rungs::emulator {
namespace {

constexpr std::size_t kRows = AccumulatorTile::kRows;
constexpr std::size_t kPitch = OperandPanels::kPitch;

// Whether `next` may be carried out together with those before it of its tile, `depth` of K so far.
// FP8 sums, f16 and s32 accumulators are rounded or clamped once a multiplication.
bool continues(const Multiplication& head, const Multiplication& next, int depth) {
  return next.tile == head.tile && next.posted == static_cast<int>(kWarpGroupThreads) &&
         next.accumulate && next.instruction.d == WgmmaType::kF32 && !is_fp8(head.instruction.a) &&
         !is_fp8(next.instruction.a) &&
         depth + depth_of(next.instruction.a) <= OperandPanels::kPitch;
}

// Reads the operands to place `depth` of the panels. False after reporting.
bool load_operands(Block& block, const Multiplication& m, OperandPanels& panels, int depth) {
  float* const a = panels.a + static_cast<std::size_t>(depth) * kRows;
  if (!load_a(block, m, a)) return false;
  if (m.instruction.negative) {
    const auto count = static_cast<std::size_t>(depth_of(m.instruction.a)) * kRows;
    for (std::size_t i = 0; i < count; i++) a[i] = -a[i];
  }
  return load_b(block, m, panels.b + depth, kPitch);
}

// Adds the products to the tile.
void multiply(const WgmmaInstruction& instruction, AccumulatorTile& tile, OperandPanels& panels,
              int depth) {
  float* const values = tile.values.data();
  const std::size_t count = static_cast<std::size_t>(tile.n) * kRows;
  if (is_fp8(instruction.a)) return add_fp8(tile, panels, instruction.a, instruction.b);
  switch (instruction.d) {
    case WgmmaType::kS32:  // the sum of one multiplication is exact as a float: below 2^22
      std::fill_n(panels.products, count, 0.0f);
      multiply_tile(panels.products, panels.a, panels.b, kPitch, tile.n, depth);
      add_integers(values, panels.products, count, instruction.satfinite);
      break;
    case WgmmaType::kF16:
      multiply_tile(values, panels.a, panels.b, kPitch, tile.n, depth);
      round_to_f16(values, count);
      break;
    default:
      multiply_tile(values, panels.a, panels.b, kPitch, tile.n, depth);
  }
}

}  // namespace

void land_products(Block& block, unsigned group_index, std::uint64_t number) {
  WarpGroup& group = block.warp_groups[group_index];
  if (number < group.done) return;  // carried out with an earlier one
  std::unique_ptr<OperandPanels>& panels = this_worker->panels;
  if (panels == nullptr) panels = std::make_unique<OperandPanels>();

  const Multiplication& head = group.queue[number - group.first];
  AccumulatorTile& tile = *head.tile;
  if (!head.accumulate) std::fill(tile.values.begin(), tile.values.end(), 0.0f);
  const bool alone = block.launch->options.async != Async::kLate;
  const std::uint64_t stop = group.first + group.queue.size();
  std::uint64_t i = number;
  int depth = 0;
  do {
    Multiplication& m = group.queue[i - group.first];
    sanitizer::acquire(&m.token);
    if (!load_operands(block, m, *panels, depth)) return;
    depth += depth_of(m.instruction.a);
    i++;
  } while (!alone && i < stop && continues(head, group.queue[i - group.first], depth));
  multiply(head.instruction, tile, *panels, depth);

  tile.in_flight -= static_cast<int>(i - number);
  this_worker->counters.mma_flops +=
      std::uint64_t{2} * kRows * static_cast<unsigned>(tile.n * depth);
  group.done = i;
  if (group.done == stop) {
    group.first = group.done;
    group.queue.clear();
  }
  sanitizer::release(&group.token);
  block.wake(group.waiting);
}

}  // namespace rungs::emulator
