#pragma once
/// @file epilogue_sm90_device.hpp
/// From wgmma's accumulator registers to C.
///
/// Register layout of m64nNk16 (PTX ISA, "Register Fragments for wgmma.mma_async.m64nNk16"): thread
/// t of warp w holds, for every 8 columns j, row 16w + t/4, columns 8j + 2(t%4) and the next in
/// d[4j], d[4j+1]; the same columns of the row 8 below in d[4j+2], d[4j+3].

#include <rungs/gpu/kernel.hpp>

#include "bounds_device.hpp"
#include "problem.hpp"

#include <cstdint>

namespace rungs::gemm::detail {

/// Two neighbouring elements, stored at once.
template <class T>
struct alignas(2 * sizeof(T)) Pair {
  T first;
  T second;
};

RUNGS_DEVICE float read_element(float value) { return value; }
RUNGS_DEVICE float read_element(bf16 value) { return to_float(value); }
RUNGS_DEVICE void write_element(float& to, float value) { to = value; }
RUNGS_DEVICE void write_element(bf16& to, float value) { to = to_bf16(value); }

/// line[0..1] = {x, y} + beta·line[0..1].
template <class T>
RUNGS_DEVICE void store_pair(T* line, float x, float y, float beta) {
  Pair<T>* const pair = reinterpret_cast<Pair<T>*>(line);
  if (beta != 0.0f) {
    const Pair<T> old = *pair;
    x += beta * read_element(old.first);
    y += beta * read_element(old.second);
  }
  Pair<T> result;
  write_element(result.first, x);
  write_element(result.second, y);
  *pair = result;
}

/// The four warps of a consumer warpgroup. Stores a 64×Cols piece of C whose first element is (row,
/// col), as far as it lies inside [0, rows) × [0, cols).
template <class T, int Cols>
RUNGS_DEVICE void store_accumulators(const Output& c, const float (&d)[Cols / 2], int row, int col,
                                     int rows, int cols) {
  const int thread = static_cast<int>(threadIdx.x) % 128;
  const int lane = thread % 32;
  const int first_col = col + 2 * (lane % 4);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int r = row + thread / 32 * 16 + lane / 4 + 8 * half;
    if (r >= rows) continue;
    T* const line = static_cast<T*>(c.data) + r * c.row_stride;
#pragma unroll
    for (int j = 0; j < Cols / 8; ++j) {
      const int column = first_col + 8 * j;
      if (c.pairs_aligned && column + 1 < cols) {
        store_pair(line + column, d[4 * j + 2 * half], d[4 * j + 2 * half + 1], c.beta);
      } else {
        if (column < cols) store(c, r, column, d[4 * j + 2 * half]);
        if (column + 1 < cols) store(c, r, column + 1, d[4 * j + 2 * half + 1]);
      }
    }
  }
}

}  // namespace rungs::gemm::detail
