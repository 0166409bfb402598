#pragma once
// The router: which top_k of the experts a token goes to, with which weight, and where it lies in
// their buffers.

#include <rungs/core/dtype.hpp>

#include <cstdint>

#include "detail/queue.hpp"

namespace rungs::training::layers {

/// Logits of one token live in registers or on the stack.
inline constexpr int kMaxExperts = 64;

/// What the router decides; written by router_forward(), read by the experts and both VJPs. An
/// assignment is a pair (token, choice), numbered token·top_k + choice.
struct Routing {
  float* probabilities;  // [tokens, experts] softmax of the logits
  // [tokens, top_k] chosen experts, most probable first; of equal ones the lower number.
  std::int32_t* expert;
  float* gate;               // [tokens, top_k] chosen probabilities, renormalised to sum 1
  std::int32_t* slot;        // [tokens, top_k] row in the expert's buffer
  std::int32_t* assignment;  // [experts, capacity] inverse of slot
  std::int32_t* count;       // [experts] rows in use
  float* balance;            // [experts] f_e·P_e; experts times their sum is the load-balance loss
  int tokens;
  int experts;
  int top_k;
  // Rows of an expert's buffer: tokens rounded up to a multiple of 64, so that none is dropped.
  int capacity;
};

struct RouterForward {
  const bf16* x;        // [tokens, width]
  const float* weight;  // [experts, width] fp32: near a tie a rounded logit would flip the choice
  Routing routing;
  int width;  // a multiple of kLanes
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

void router_forward(const RouterForward& args, const Queue& queue);
void router_vjp(const RouterVjp& args, const Queue& queue);

}  // namespace rungs::training::layers
