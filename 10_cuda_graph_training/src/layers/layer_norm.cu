// LayerNorm and its VJP, a thread a row.
//
// What:   y = gain·x̂ + bias with x̂ = (x − mean)·rstd; dx, d_gain and d_bias from dy.
// Layout: rows contiguous, fp32 in, bf16 out (the next layer is a GEMM).
// Cost:   forward 4·rows·width bytes read twice (the second time from cache), 2 written; VJP three
//         reads, one or two writes.
// Source: Ba et al., "Layer Normalization", 2016; the VJP is derived in README.md.

#include "layers/layer_norm.hpp"

#include <rungs/gpu/lanes_device.hpp>

#include <cmath>

namespace rungs::training::layers {
namespace {

RUNGS_KERNEL(gpu::kRowThreads) layer_norm_forward_kernel(LayerNormForward a) {
  const float inverse_width = 1.0f / static_cast<float>(a.width);
  for (int row = gpu::first_index(); row < a.rows; row += gpu::index_step()) {
    const float* x = a.x + static_cast<std::int64_t>(row) * a.width;
    bf16* y = a.y + static_cast<std::int64_t>(row) * a.width;
    // 1. The mean, then the variance around it: one pass over Σx² would cancel.
    gpu::LaneSums sum;
    for (int c = 0; c < a.width; c += gpu::kLanes)
      for (int l = 0; l < gpu::kLanes; ++l) sum.lane[l] += x[c + l];
    const float mean = sum.total() * inverse_width;
    gpu::LaneSums squares;
    for (int c = 0; c < a.width; c += gpu::kLanes)
      for (int l = 0; l < gpu::kLanes; ++l)
        squares.lane[l] += (x[c + l] - mean) * (x[c + l] - mean);
    const float rstd = 1.0f / sqrtf(squares.total() * inverse_width + kLayerNormEpsilon);
    a.mean[row] = mean;
    a.rstd[row] = rstd;
    // 2. Scale and shift.
    for (int c = 0; c < a.width; c += gpu::kLanes)
      for (int l = 0; l < gpu::kLanes; ++l)
        y[c + l] = to_bf16((x[c + l] - mean) * rstd * a.gain[c + l] + a.bias[c + l]);
    // 3. What passes by: the block's output GEMM adds to this copy (beta = 1).
    if (a.residual != nullptr) {
      float* residual = a.residual + static_cast<std::int64_t>(row) * a.width;
      for (int c = 0; c < a.width; ++c) residual[c] = x[c];
    }
  }
}

RUNGS_KERNEL(gpu::kRowThreads) layer_norm_dx_kernel(LayerNormVjp a) {
  const float inverse_width = 1.0f / static_cast<float>(a.width);
  for (int row = gpu::first_index(); row < a.rows; row += gpu::index_step()) {
    const std::int64_t start = static_cast<std::int64_t>(row) * a.width;
    const float* x = a.x + start;
    const float* dy = a.dy + start;
    float* dx = a.dx + start;
    const float mean = a.mean[row];
    const float rstd = a.rstd[row];
    // 1. With g = gain·dy: the means of g and of g·x̂.
    gpu::LaneSums sum_g;
    gpu::LaneSums sum_gx;
    for (int c = 0; c < a.width; c += gpu::kLanes)
      for (int l = 0; l < gpu::kLanes; ++l) {
        const float g = a.gain[c + l] * dy[c + l];
        sum_g.lane[l] += g;
        sum_gx.lane[l] += g * ((x[c + l] - mean) * rstd);
      }
    const float mean_g = sum_g.total() * inverse_width;
    const float mean_gx = sum_gx.total() * inverse_width;
    // 2. dx = rstd·(g − mean(g) − x̂·mean(g·x̂)): what changes mean and variance is projected out.
    const bool passes = a.d_residual != nullptr;
    const float* d_residual = passes ? a.d_residual + start : dy;
    for (int c = 0; c < a.width; c += gpu::kLanes)
      for (int l = 0; l < gpu::kLanes; ++l) {
        const float g = a.gain[c + l] * dy[c + l];
        const float normal = (x[c + l] - mean) * rstd;
        const float through = rstd * (g - mean_g - normal * mean_gx);
        dx[c + l] = passes ? d_residual[c + l] + through : through;
      }
    if (a.dx_bf16 != nullptr) {
      bf16* narrow = a.dx_bf16 + start;
      for (int c = 0; c < a.width; ++c) narrow[c] = to_bf16(dx[c]);
    }
  }
}

// d_gain = Σ dy·x̂ and d_bias = Σ dy over the rows, in two levels: a thread sums kLanes columns of
// one chunk of rows, then a thread adds the chunks of kLanes columns in order. No atomics: the
// order never changes.
RUNGS_KERNEL(gpu::kElementThreads) layer_norm_chunk_kernel(LayerNormVjp a) {
  const int column_groups = a.width / gpu::kLanes;
  const int chunks = (a.rows + kChunkRows - 1) / kChunkRows;
  for (int item = gpu::first_index(); item < chunks * column_groups; item += gpu::index_step()) {
    const int chunk = item / column_groups;
    const int column = item % column_groups * gpu::kLanes;
    gpu::LaneSums gain;
    gpu::LaneSums bias;
    const int end = a.rows < (chunk + 1) * kChunkRows ? a.rows : (chunk + 1) * kChunkRows;
    for (int row = chunk * kChunkRows; row < end; ++row) {
      const std::int64_t at = static_cast<std::int64_t>(row) * a.width + column;
      const float mean = a.mean[row];
      const float rstd = a.rstd[row];
      for (int l = 0; l < gpu::kLanes; ++l) {
        gain.lane[l] += a.dy[at + l] * ((a.x[at + l] - mean) * rstd);
        bias.lane[l] += a.dy[at + l];
      }
    }
    float* partial = a.partials + static_cast<std::int64_t>(chunk) * 2 * a.width + column;
    for (int l = 0; l < gpu::kLanes; ++l) {
      partial[l] = gain.lane[l];
      partial[a.width + l] = bias.lane[l];
    }
  }
}

RUNGS_KERNEL(gpu::kElementThreads) layer_norm_parameters_kernel(LayerNormVjp a) {
  const int column_groups = a.width / gpu::kLanes;
  const int chunks = (a.rows + kChunkRows - 1) / kChunkRows;
  for (int item = gpu::first_index(); item < 2 * column_groups; item += gpu::index_step()) {
    gpu::LaneSums sum;
    for (int chunk = 0; chunk < chunks; ++chunk) {
      const float* partial =
          a.partials + static_cast<std::int64_t>(chunk) * 2 * a.width + item * gpu::kLanes;
      for (int l = 0; l < gpu::kLanes; ++l) sum.lane[l] += partial[l];
    }
    float* out = item < column_groups ? a.d_gain + item * gpu::kLanes
                                      : a.d_bias + (item - column_groups) * gpu::kLanes;
    for (int l = 0; l < gpu::kLanes; ++l) out[l] = sum.lane[l];
  }
}

}  // namespace

void layer_norm_forward(const LayerNormForward& args, const gpu::Queue& queue) {
  gpu::launch("layer_norm_forward", gpu::row_grid(queue, args.rows), queue.stream,
              layer_norm_forward_kernel, args);
}

void layer_norm_vjp(const LayerNormVjp& args, const gpu::Queue& queue) {
  // The parameters first: with d_residual == dx nothing else still needs what dx overwrites, but dy
  // may be dx too.
  const long long chunks = (args.rows + kChunkRows - 1) / kChunkRows;
  gpu::launch("layer_norm_chunk", gpu::element_grid(queue, chunks * args.width), queue.stream,
              layer_norm_chunk_kernel, args);
  gpu::launch("layer_norm_parameters", gpu::element_grid(queue, 2ll * args.width), queue.stream,
              layer_norm_parameters_kernel, args);
  gpu::launch("layer_norm_dx", gpu::row_grid(queue, args.rows), queue.stream, layer_norm_dx_kernel,
              args);
}

}  // namespace rungs::training::layers
