#pragma once
// Device memory of a model: what a forward pass leaves for its VJPs, and what the VJPs hand down.

#include <rungs/core/dtype.hpp>
#include <rungs/gpu/buffer.hpp>
#include <rungs/training/trainer.hpp>

#include <cstdint>
#include <vector>

namespace rungs::training {

/// Extents that buffers and plans are made from.
struct Extents {
  Extents(const ModelConfig& model, int batch_size);
  int batch, context, tokens, width, heads, head_dim, hidden, experts, top_k, layers;
};

/// Kept from the forward pass of one layer until its VJP.
struct LayerBuffers {
  LayerBuffers(const Extents& n, const gpu::Device& device);
  gpu::Buffer<bf16> normed1, normed2;             // [tokens, width]
  gpu::Buffer<float> mean1, rstd1, mean2, rstd2;  // [tokens]
  gpu::Buffer<bf16> qkv;                          // [tokens, 3, heads, head_dim]
  gpu::Buffer<bf16> attended;                     // [tokens, width]
  gpu::Buffer<float> lse;                         // [batch, heads, context]
  gpu::Buffer<float> middle;                      // [tokens, width] residual stream after attention
  gpu::Buffer<float> out;                         // [tokens, width] and after the experts
};

/// Shared by all layers.
struct SharedBuffers {
  SharedBuffers(const Extents& n, const gpu::Device& device);
  gpu::Buffer<std::int32_t> tokens, targets;  // [tokens]
  gpu::Buffer<float> embedded;    // [tokens, width] residual stream before the first layer
  gpu::Buffer<bf16> normed;       // [tokens, width] after the final norm
  gpu::Buffer<float> mean, rstd;  // [tokens]
  gpu::Buffer<float> logits;      // [tokens, vocabulary]
  gpu::Buffer<float> loss_rows;   // [tokens]
  gpu::Buffer<float> balance;     // [layers, experts]
  // Gradients, overwritten layer by layer on the way down.
  gpu::Buffer<bf16> d_logits;         // [tokens, vocabulary]
  gpu::Buffer<float> d_residual;      // [tokens, width]
  gpu::Buffer<bf16> d_residual_bf16;  // [tokens, width]
  gpu::Buffer<float> d_normed;        // [tokens, width]
  gpu::Buffer<bf16> d_attended;       // [tokens, width]
  gpu::Buffer<bf16> d_qkv;            // [tokens, 3, heads, head_dim]
  gpu::Buffer<float> norm_partials;   // layers::layer_norm_partials()
};

}  // namespace rungs::training
