#pragma once
/// @file reference_layer.hpp
/// The layer over all ranks in double, token by token, and how far a right one may be off.

#include <cstdint>
#include <vector>

#include "catalog/moe_case.hpp"

namespace rungs::moe {

/// Exact values, each with the largest error that the roundings on its way allow (README.md, "How
/// wrong it may be").
struct Judged {
  std::vector<double> value;
  std::vector<double> bound;
  void resize(std::size_t count) {
    value.assign(count, 0.0);
    bound.assign(count, 0.0);
  }
};

struct LayerReference {
  std::vector<Judged> out;       ///< by rank, [tokens, width] residual after forward
  std::vector<Judged> dx;        ///< by rank, [tokens, width]
  std::vector<Judged> d_router;  ///< by rank, [experts, width]
  Judged balance;                ///< [experts]
  Judged d_up;                   ///< [experts, hidden, width]
  Judged d_down;                 ///< [experts, width, hidden]
  std::vector<std::vector<std::int32_t>> counts;   ///< by rank, [experts] rows that travel
  std::vector<std::vector<std::int32_t>> dropped;  ///< by rank, [experts]
};

/// @param capacity rows an expert takes from a rank; what comes later in token order is dropped
LayerReference reference_layer(const MoeInputs& inputs, int capacity, bool with_vjp = true);

}  // namespace rungs::moe
