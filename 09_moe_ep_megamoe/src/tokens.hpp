#pragma once
// The tokens' end of the layer: rows gathered by expert, answers combined, and the VJP of both.

#include <rungs/core/dtype.hpp>
#include <rungs/gpu/queue.hpp>

#include "routing.hpp"

namespace rungs::moe {

/// Which rows of an expert's block behind those in use are written as zero.
enum class Padding {
  kNone,
  kTile,   // up to the next multiple of kPadRows: what a GEMM over rows reads
  kBlock,  // all of them: the block travels whole
};

/// A tile of stage 07's weight gradients reads so many rows at a time.
inline constexpr int kPadRows = 64;

struct TokensArgs {
  Routing routing;
  Padding padding;
  int width;             // a multiple of gpu::kLanes
  const bf16* x;         // [tokens, width] the normed tokens
  bf16* rows;            // [experts, capacity, width] result of gather()
  const float* outputs;  // [experts, capacity, width] what the experts made of them
  float* residual;       // [tokens, width] the combination is added here
  // VJP.
  const float* d_residual;  // [tokens, width]
  bf16* d_outputs;          // [experts, capacity, width] result of combine_vjp()
  float* d_gate;            // [experts, capacity] result, for the router's VJP
};

void gather(const TokensArgs& args, const gpu::Queue& queue);
void combine(const TokensArgs& args, const gpu::Queue& queue);
void combine_vjp(const TokensArgs& args, const gpu::Queue& queue);

}  // namespace rungs::moe
