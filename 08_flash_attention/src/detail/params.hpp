#pragma once
/// @file params.hpp
/// What both rungs' kernels receive: the tensors reduced to pointers and strides, and the sizes.
/// Trivially copyable, so a captured graph keeps them.

#include <rungs/config.hpp>
#include <rungs/core/dtype.hpp>

#include <cstdint>

namespace rungs::attention::detail {

/// The rows of a [batch, sequence, heads, head_dim] tensor whose last stride is 1.
template <class T>
struct Rows {
  T* data;
  std::int64_t batch_stride, row_stride, head_stride;  ///< in elements
  bool vectors;  ///< every row starts on a 16-byte boundary: rows may be moved 8 elements at a time

  /// First row of one head of one batch.
  [[nodiscard]] RUNGS_HD T* head(std::int64_t batch, std::int64_t head_index) const {
    return data + batch * batch_stride + head_index * head_stride;
  }
};

struct Shape {
  std::int32_t batch, heads, queries, keys, head_dim;
  float scale;  ///< never 0: the default is filled in by the plan
  bool causal;

  /// How many keys, counted from key 0, query `i` sees. Causal masks are aligned at the bottom
  /// right: the last query sees every key, and with more queries than keys the first ones see none.
  [[nodiscard]] RUNGS_HD std::int32_t visible_keys(std::int32_t i) const {
    if (!causal) return keys;
    const std::int32_t count = i + 1 + (keys - queries);
    return count < 0 ? 0 : count;
  }
  /// The first query that sees key `j`.
  [[nodiscard]] RUNGS_HD std::int32_t first_query(std::int32_t j) const {
    if (!causal) return 0;
    const std::int32_t first = j - (keys - queries);
    return first < 0 ? 0 : first;
  }
};

struct ForwardParams {
  Shape shape;
  Rows<const bf16> q, k, v;
  Rows<bf16> o;
  float* lse;  ///< [B, H, Tq]
};

struct BackwardParams {
  Shape shape;
  Rows<const bf16> q, k, v, o, d_o;
  const float* lse;  ///< [B, H, Tq]
  float* delta;      ///< [B, H, Tq] workspace: rowsum(dO ∘ O)
  Rows<bf16> dq, dk, dv;
};

}  // namespace rungs::attention::detail
