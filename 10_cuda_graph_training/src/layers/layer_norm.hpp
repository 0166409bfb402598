#pragma once
// LayerNorm over the last dimension. README.md derives the VJP.

#include <rungs/core/dtype.hpp>

#include <rungs/gpu/queue.hpp>

namespace rungs::training::layers {

inline constexpr float kLayerNormEpsilon = 1e-5f;

struct LayerNormForward {
  const float* x;     // [rows, width]
  const float* gain;  // [width]
  const float* bias;  // [width]
  bf16* y;            // [rows, width]
  float* residual;    // [rows, width] or null: a copy of x that the block's last GEMM adds to
  float* mean;        // [rows]
  float* rstd;        // [rows] 1 / standard deviation
  int rows;
  int width;  // a multiple of gpu::kLanes
};

struct LayerNormVjp {
  const float* x;           // [rows, width]
  const float* gain;        // [width]
  const float* mean;        // [rows]
  const float* rstd;        // [rows]
  const float* dy;          // [rows, width]
  const float* d_residual;  // [rows, width] or null: gradient that passes by the norm; may be dx
  float* dx;                // [rows, width] d_residual plus the norm's own
  bf16* dx_bf16;            // [rows, width] or null: the same, for the GEMMs that read it
  float* d_gain;            // [width]
  float* d_bias;            // [width]
  float* partials;          // workspace of layer_norm_partials() floats
  int rows;
  int width;
};

/// Rows summed by one thread of the gain and bias gradients.
inline constexpr int kChunkRows = 64;
inline long long layer_norm_partials(int rows, int width) {
  return 2ll * ((rows + kChunkRows - 1) / kChunkRows) * width;
}

void layer_norm_forward(const LayerNormForward& args, const gpu::Queue& queue);
void layer_norm_vjp(const LayerNormVjp& args, const gpu::Queue& queue);

}  // namespace rungs::training::layers
