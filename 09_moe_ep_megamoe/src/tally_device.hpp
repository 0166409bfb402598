#pragma once
// The sum of the ranks' tallies, as every kernel that has them forms it.

#include <rungs/gpu/kernel.hpp>

#include "routing.hpp"

namespace rungs::moe {

/// Expert e's part of total and balance: by one thread. Rank by rank in order, so that the bits are
/// the same on every rank. The load-balance loss is E·Σ f_e·P_e, f_e the share of all assignments
/// and P_e the mean probability.
RUNGS_DEVICE void add_tallies_of_expert(const Tally* tallies, int ranks, int e, const Routing& r) {
  std::int32_t tokens = 0;
  std::int32_t chosen = 0;
  float sum = 0.0f;
  for (int rank = 0; rank < ranks; ++rank) {
    tokens += tallies[rank].tokens;
    chosen += tallies[rank].chosen[e];
    sum += tallies[rank].probability_sum[e];
  }
  r.total->chosen[e] = chosen;
  r.total->probability_sum[e] = sum;
  if (e == 0) r.total->tokens = tokens;
  const float share = static_cast<float>(chosen) / static_cast<float>(tokens * r.top_k);
  r.balance[e] = tokens == 0 ? 0.0f : share * (sum / static_cast<float>(tokens));
}

}  // namespace rungs::moe
