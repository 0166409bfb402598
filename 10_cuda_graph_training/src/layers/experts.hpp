#pragma once
// The experts of a mixture layer on one rank: gather the tokens of each, two GEMMs with a GELU
// between, combine. All sizes that depend on the data stay in device memory (Routing::count).

#include <vector>

#include "layers/linear.hpp"
#include "layers/router.hpp"

namespace rungs::training::layers {

struct ExpertsArgs {
  Routing routing;
  const bf16* x;     // [tokens, width] the normed tokens
  const bf16* up;    // [experts, hidden, width]
  const bf16* down;  // [experts, width, hidden]
  float* residual;   // [tokens, width] the combination is added here
  // Kept for the VJP.
  bf16* rows;         // [experts, capacity, width] tokens gathered by expert
  bf16* before_gelu;  // [experts, capacity, hidden]
  bf16* after_gelu;   // [experts, capacity, hidden]
  float* outputs;     // [experts, capacity, width]
  // VJP.
  const float* d_residual;  // [tokens, width]
  bf16* d_outputs;          // [experts, capacity, width] workspace
  bf16* d_hidden;  // [experts, capacity, hidden] workspace: d after GELU, then d before GELU
  float* d_gate;   // [experts, capacity] result, for the router's VJP
  float* d_rows;   // [experts, capacity, width] result, for the router's VJP
  float* d_up;     // [experts, hidden, width]
  float* d_down;   // [experts, width, hidden]
  int width;       // a multiple of kLanes
  int hidden;      // a multiple of kLanes
};

class Experts {
 public:
  Experts(const ExpertsArgs& args, const gpu::Device& device);
  void forward(const Queue& queue) const;
  void vjp(const Queue& queue) const;

 private:
  ExpertsArgs args_;
  std::vector<Linear> up_;    // one an expert
  std::vector<Linear> down_;  // one an expert
};

}  // namespace rungs::training::layers
