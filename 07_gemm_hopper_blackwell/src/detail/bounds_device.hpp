#pragma once
/// @file bounds_device.hpp
/// What every kernel of this stage does at its start and at its end: read the live counts, store an
/// element.

#include <rungs/gpu/kernel.hpp>

#include "problem.hpp"

#include <cstdint>

namespace rungs::gemm::detail {

/// The part of the problem that exists when the kernel runs.
struct Bounds {
  int rows;   ///< rows of A and C, <= M
  int depth;  ///< of K, <= K
};

/// Any thread. Reads the device-side counts, which an earlier kernel on the stream has written.
RUNGS_DEVICE Bounds live_bounds(const Problem& problem) {
  Bounds bounds{problem.m, problem.k};
  if (problem.valid_rows != nullptr) {
    const int count = *problem.valid_rows;
    bounds.rows = count < 0 ? 0 : (count < problem.m ? count : problem.m);
  }
  if (problem.valid_depth != nullptr) {
    const int count = *problem.valid_depth;
    bounds.depth = count < 0 ? 0 : (count < problem.k ? count : problem.k);
  }
  return bounds;
}

/// C[row, col] = sum + beta·C[row, col]. With beta 0, C is not read.
RUNGS_DEVICE void store(const Output& c, int row, int col, float sum) {
  const std::int64_t index = row * c.row_stride + col;
  if (c.is_bf16) {
    bf16* const element = static_cast<bf16*>(c.data) + index;
    if (c.beta != 0.0f) sum += c.beta * to_float(*element);
    *element = to_bf16(sum);
  } else {
    float* const element = static_cast<float*>(c.data) + index;
    if (c.beta != 0.0f) sum += c.beta * *element;
    *element = sum;
  }
}

}  // namespace rungs::gemm::detail
