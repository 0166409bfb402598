#pragma once
/// @file wgmma_math.hpp
/// The arithmetic of the tensor-core model: where nearly all of the emulator's time goes.
///
/// A tile is kept by columns, float[n][64]. Inside a column the rows are in "fragment order": rows
/// r and r + 8 of a warp's 16 are neighbours, because a thread owns both. Every element is the sum,
/// in order of k, of products of operands. Such a product is exact in f32 (no operand type has more
/// than 11 significant bits) unless it underflows, so fused and separate multiply-add round alike,
/// and all code paths give the same bits.

#include <rungs/config.hpp>

#include <cstddef>
#include <cstdint>

namespace rungs::emulator {

/// Position of row `r` (0 to 63) in a tile's column.
constexpr unsigned fragment_row(unsigned r) { return r / 16 * 16 + r % 8 * 2 + r % 16 / 8; }

/// tile[n][64] += sum over k of b[n][k] * a[k][64].
/// @param a [k][64], rows in fragment order  @param b [n][b_pitch]  @param n a multiple of 8
///         @param k at least 1
void multiply_tile(float* tile, const float* a, const float* b, std::size_t b_pitch, int n, int k);

/// The same by name of the instruction set, for tests: "avx512", "avx2", "plain". False if the
/// machine lacks it.
bool multiply_tile_with(const char* name, float* tile, const float* a, const float* b,
                        std::size_t b_pitch, int n, int k);

/// Rounds every value to the nearest f16, ties to even.
void round_to_f16(float* values, std::size_t count);
/// Adds whole-numbered floats to 32-bit integers, whose bits lie in `sums`: wrapping around, or
/// stopping at the ends of the range.
void add_integers(float* sums, const float* products, std::size_t count, bool saturate);

}  // namespace rungs::emulator
