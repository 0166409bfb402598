/// Attention backward, tiled, first half: dQ and delta.
///
/// New against `materialised`: P is recomputed from Q, K and the log-sum-exp the forward pass left,
/// 16 keys at a time, and dS lives in registers only.
/// Layout: a block is 64 query rows of one head, a thread owns a row of Q, dO and dQ; K passes by
///         in both orders, V transposed (tiles_device.hpp).
/// Cost: 6·D FLOPs a visible score (S, dP, dQ); K and V are read once for every 64 queries; delta
///       costs one reading of O.
/// Source: Dao, "FlashAttention-2" (2023), algorithm 2, with dQ in a kernel of its own: each row is
///         summed by one thread in a fixed order, where the algorithm's atomics would make the bits
///         depend on timing.

#include "backward_tiled.hpp"
#include "tiles_device.hpp"

#include <rungs/gpu/launch.hpp>

namespace rungs::attention::detail {
namespace {

/// Keys of a tile. 16 at D = 128: four blocks of 56 KiB fit an SM.
template <int D>
inline constexpr int kKeysOf = D <= 64 ? 32 : 16;

template <int D>
struct DqTiles {
  alignas(16) float k_columns[D][kKeysOf<D>];
  alignas(16) float v_columns[D][kKeysOf<D>];
  alignas(16) float k_rows[kKeysOf<D>][D];
  OwnRows<D> q;
  OwnRows<D> d_o;
};

/// Σ dO·O over the calling thread's row.
template <int D>
RUNGS_DEVICE float own_delta(const OwnRows<D>& d_o, const bf16* o, bool vectors) {
  float delta = 0.0f;
  for (int d = 0; d < D; d += 8) {
    const Eight eight = load_eight(o + d, vectors);
    RUNGS_UNROLL
    for (int i = 0; i < 4; ++i) {
      const std::uint32_t pair = d_o[d / 2 + i][threadIdx.x];
      delta += first_of(pair) * to_float(eight.at[2 * i]);
      delta += second_of(pair) * to_float(eight.at[2 * i + 1]);
    }
  }
  return delta;
}

template <int D>
RUNGS_KERNEL(kThreads, kBlocksAnSm)
backward_dq_tiled_kernel(const BackwardParams p, int tiles) {
  constexpr int kKeys = kKeysOf<D>;
  RUNGS_DYNAMIC_SHARED(DqTiles<D>, shared);
  // 1. My row of Q and dO, and delta: what the softmax's normalisation takes off every dP of the
  // row.
  const Work work = work_of(blockIdx.x, tiles, p.shape);
  const int first_row = (tiles - 1 - work.tile) * kThreads;
  const int row = first_row + static_cast<int>(threadIdx.x);
  const bool exists = row < p.shape.queries;
  const int last_row =
      first_row + kThreads < p.shape.queries ? first_row + kThreads - 1 : p.shape.queries - 1;
  const int visible = exists ? p.shape.visible_keys(row) : 0;
  const int visible_to_block = p.shape.visible_keys(last_row);
  const bf16* const k = p.k.head(work.batch, work.head);
  const bf16* const v = p.v.head(work.batch, work.head);
  const bf16* const q = p.q.head(work.batch, work.head) + row * p.q.row_stride;
  const bf16* const d_o = p.d_o.head(work.batch, work.head) + row * p.d_o.row_stride;
  const bf16* const o = p.o.head(work.batch, work.head) + row * p.o.row_stride;
  load_own<D>(shared.q, exists ? q : nullptr, p.q.vectors);
  load_own<D>(shared.d_o, exists ? d_o : nullptr, p.d_o.vectors);
  const std::int64_t index =
      (std::int64_t{work.batch} * p.shape.heads + work.head) * p.shape.queries + row;
  const float delta = exists ? own_delta<D>(shared.d_o, o, p.o.vectors) : 0.0f;
  if (exists) p.delta[index] = delta;
  const float lse = exists ? p.lse[index] * kLog2E : 0.0f;

  const float scale = p.shape.scale * kLog2E;
  float gradient[D];
  RUNGS_UNROLL
  for (int d = 0; d < D; ++d) gradient[d] = 0.0f;

  for (int tile = 0; tile < visible_to_block; tile += kKeys) {
    // 2. Stage a tile of keys and values.
    if (tile > 0) ptx::syncthreads();
    stage_columns<D, kKeys>(shared.k_columns, k, p.k.row_stride, tile, p.shape.keys, p.k.vectors);
    stage_columns<D, kKeys>(shared.v_columns, v, p.v.row_stride, tile, p.shape.keys, p.v.vectors);
    stage_rows<D, kKeys>(shared.k_rows, k, p.k.row_stride, tile, p.shape.keys, p.k.vectors);
    ptx::syncthreads();

    for (int step = 0; step < kKeys && tile + step < visible; step += kStep) {
      // 3. S = q·k and dP = dO·v for 16 keys; P = exp(S - LSE); dS = P ∘ (dP - delta).
      float scores[kStep];
      float d_scores[kStep];
      multiply_own<D, kKeys>(scores, shared.q, shared.k_columns, step);
      multiply_own<D, kKeys>(d_scores, shared.d_o, shared.v_columns, step);
      RUNGS_UNROLL
      for (int n = 0; n < kStep; ++n)
        d_scores[n] = exp2f(scores[n] * scale - lse) * (d_scores[n] - delta);
      // 4. dQ += dS·K.
      accumulate<D, kKeys>(gradient, d_scores, shared.k_rows, step, 0, visible - tile - step);
    }
  }

  // 5. The scale of the scores comes back as a factor of their gradient.
  if (!exists) return;
  bf16* const dq = p.dq.head(work.batch, work.head) + row * p.dq.row_stride;
  store_row<D>(dq, gradient, p.shape.scale, p.dq.vectors);
}

template <int D>
void launch_dq(const BackwardParams& params, gpu::StreamHandle stream) {
  const int tiles = (params.shape.queries + kThreads - 1) / kThreads;
  const auto blocks = static_cast<unsigned>(tiles * params.shape.batch * params.shape.heads);
  gpu::launch("attention_backward_dq_tiled",
              {.grid = {blocks}, .block = {kThreads}, .shared_bytes = sizeof(DqTiles<D>)}, stream,
              &backward_dq_tiled_kernel<D>, params, tiles);
}

}  // namespace

void launch_backward_dq(const BackwardParams& params, gpu::StreamHandle stream) {
  switch (params.shape.head_dim) {
    case 16:
      return launch_dq<16>(params, stream);
    case 32:
      return launch_dq<32>(params, stream);
    case 64:
      return launch_dq<64>(params, stream);
    default:
      return launch_dq<128>(params, stream);
  }
}

}  // namespace rungs::attention::detail
