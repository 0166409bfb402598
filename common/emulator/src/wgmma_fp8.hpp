#pragma once
/// @file wgmma_fp8.hpp
/// Sums of 8-bit floats as Hopper's tensor core makes them. It is no chain of f32 additions, and
/// the difference shows: a sum has 14 significant bits, which is why FP8 kernels add up in two
/// levels.
///
/// As measured by others, bit for bit (MMA-Sim, arXiv 2511.10909, "T-FDPA" with F = 13): of the 32
/// products and the accumulator the greatest exponent is taken, a product's being the sum of its
/// operands' (a subnormal operand counts with the smallest normal exponent); every summand is cut
/// off 13 bits below it, towards zero; the sum of these is exact. f32 accumulators keep 13 mantissa
/// bits of it, towards zero; f16 ones are rounded to nearest.

#include "wgmma_tile.hpp"

#include <cstddef>

namespace rungs::emulator {

struct OperandPanels;

constexpr bool is_fp8(WgmmaType type) {
  return type == WgmmaType::kE4m3 || type == WgmmaType::kE5m2;
}

/// Adds the 32 products of the panels to the tile, of f32 or f16. Uses panels.products.
void add_fp8(AccumulatorTile& tile, OperandPanels& panels, WgmmaType a, WgmmaType b);

}  // namespace rungs::emulator
