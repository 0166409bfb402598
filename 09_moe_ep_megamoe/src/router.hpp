#pragma once
// The router: which top_k of the experts a token goes to, with which weight, and where it lies in
// their blocks.

#include <rungs/core/dtype.hpp>
#include <rungs/gpu/queue.hpp>

#include "routing.hpp"

namespace rungs::moe {

struct RouterForward {
  const bf16* x;        // [tokens, width]
  const float* weight;  // [experts, width] fp32: near a tie a rounded logit would flip the choice
  Routing routing;
  int width;  // a multiple of gpu::kLanes
};

struct RouterVjp {
  const bf16* x;        // [tokens, width]
  const float* weight;  // [experts, width]
  const float* d_gate;  // [experts, capacity] gradient of each assignment's gate, by slot
  const float* d_rows;  // [experts, capacity, width] gradient of each expert's input rows
  Routing routing;
  float aux_weight;  // of the load-balance loss in the objective
  float* d_logits;   // workspace [tokens, experts]
  float* dx;         // [tokens, width] through the experts and through the router
  float* d_weight;   // [experts, width]
  int width;
};

/// Choice, gates, slots and this rank's tally.
void router_forward(const RouterForward& args, const gpu::Queue& queue);
/// Adds `ranks` tallies in order: total and balance.
void add_tallies(const Tally* tallies, int ranks, const Routing& routing, const gpu::Queue& queue);
void router_vjp(const RouterVjp& args, const gpu::Queue& queue);

}  // namespace rungs::moe
