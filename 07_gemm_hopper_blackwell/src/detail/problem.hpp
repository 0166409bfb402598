#pragma once
/// @file problem.hpp
/// Args after checking, in the form kernels take: plain numbers and pointers, trivially copyable.

#include <rungs/core/dtype.hpp>
#include <rungs/gemm/gemm.hpp>

#include <cstdint>
#include <type_traits>

namespace rungs::gemm::detail {

/// Which index of an operand runs through consecutive memory.
enum class Major : std::int32_t {
  kDepth,   ///< K-major: a row of A (or of B) is contiguous
  kExtent,  ///< MN-major: a column is contiguous, as in a transposed view
};

/// A or B, indexed [extent, depth]: the extent is M for A, N for B, the depth is K for both.
struct Operand {
  const bf16* data;
  std::int64_t extent_stride;  ///< elements from one row to the next
  std::int64_t depth_stride;   ///< elements from one k to the next
  Major major;

  /// Elements between consecutive lines of contiguous elements: what TMA calls the pitch.
  RUNGS_HD std::int64_t pitch() const {
    return major == Major::kDepth ? extent_stride : depth_stride;
  }
};

/// C, [M, N] row-major.
struct Output {
  void* data;
  std::int64_t row_stride;  ///< elements
  float beta;
  bool is_bf16;
  /// Whether (row, even column) is aligned to two elements, so that pairs can be stored at once.
  bool pairs_aligned;
};

/// C = A·Bᵀ + beta·C with everything known to be valid.
struct Problem {
  std::int32_t m;
  std::int32_t n;
  std::int32_t k;
  Operand a;
  Operand b;
  Output c;
  const std::int32_t* valid_rows;
  const std::int32_t* valid_depth;
};
static_assert(std::is_trivially_copyable_v<Problem>, "captures store it");

/// Checks every rule of Args and returns the kernels' form. Strides of dimensions of extent 1
/// (which no address depends on) are replaced by the dense ones.
/// @throws Error kInvalidArgument naming tensor, dimension, value and the way out
Problem checked(const Args& args);

}  // namespace rungs::gemm::detail
