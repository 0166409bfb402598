#pragma once
// Causal self-attention over one packed projection: q, k and v are slices of each row.

#include <rungs/attention/attention.hpp>

#include <rungs/gpu/queue.hpp>

namespace rungs::training::layers {

struct SelfAttentionArgs {
  const bf16* qkv;    // [batch, context, 3, heads, head_dim]
  bf16* out;          // [batch, context, heads, head_dim]
  float* lse;         // [batch, heads, context]
  const bf16* d_out;  // like out
  bf16* d_qkv;        // like qkv
  int batch;
  int context;
  int heads;
  int head_dim;
};

class SelfAttention {
 public:
  SelfAttention(const SelfAttentionArgs& args, const gpu::Device& device);
  void forward(gpu::StreamHandle stream) const { forward_.run(stream); }
  void vjp(gpu::StreamHandle stream) const { backward_.run(stream); }

 private:
  attention::ForwardPlan forward_;
  attention::BackwardPlan backward_;
};

}  // namespace rungs::training::layers
