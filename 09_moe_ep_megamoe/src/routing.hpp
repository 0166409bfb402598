#pragma once
// What a router decides, and what of it the other ranks must know.

#include <rungs/moe/layer.hpp>

#include <cstdint>

namespace rungs::moe {

/// One rank's routing in numbers: what ranks tell each other. Of all ranks: sums over them.
struct alignas(16) Tally {
  std::int32_t tokens;
  std::int32_t chosen[kMaxExperts];    // assignments to each expert, before any is dropped
  float probability_sum[kMaxExperts];  // over the tokens
};

/// Written by router_forward(); read by the gathering, the combination and the router's VJP. An
/// assignment is a pair (token, choice), numbered token·top_k + choice.
struct Routing {
  float* probabilities;  // [tokens, experts] softmax of the logits
  // [tokens, top_k] chosen experts, most probable first; of equal ones the lower number.
  std::int32_t* expert;
  float* gate;               // [tokens, top_k] chosen probabilities, renormalised to sum 1
  std::int32_t* slot;        // [tokens, top_k] row in the expert's block; -1: dropped
  std::int32_t* assignment;  // [experts, capacity] inverse of slot
  std::int32_t* count;       // [experts] rows in use, at most capacity
  std::int32_t* dropped;     // [experts] assignments beyond capacity
  Tally* tally;              // of this rank
  Tally* total;              // of all ranks
  float* balance;            // [experts] f_e·P_e; experts times their sum is the load-balance loss
  int tokens;
  int experts;
  int top_k;
  int capacity;  // rows of an expert's block; the tokens beyond it are dropped, in token order
};

}  // namespace rungs::moe
