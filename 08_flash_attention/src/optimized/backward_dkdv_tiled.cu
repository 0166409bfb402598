/// Attention backward, tiled, second half: dK and dV.
///
/// New against `materialised`: as in backward_dq_tiled.cu, with the roles exchanged: keys stay,
///       queries pass by.
/// Layout: a block is 64 key rows of one head, a thread owns a row of K, V, dK and dV; Q and dO
///         pass by, together with LSE and delta of their rows. Two sums of 128 floats do not fit a
///         thread's 255 registers, so at D = 128 dV and dK are two launches of the same kernel, and
///         S is computed twice.
/// Cost: 8·D FLOPs a visible score (S, dP, dK, dV), 10·D at D = 128; Q and dO are read once for
///       every 64 keys.
/// Source: Dao, "FlashAttention-2" (2023), algorithm 2.

#include "backward_tiled.hpp"
#include "tiles_device.hpp"

#include <rungs/gpu/launch.hpp>

namespace rungs::attention::detail {
namespace {

/// Queries of a tile.
template <int D>
inline constexpr int kQueriesOf = D <= 64 ? 32 : 16;

/// A variant that does not write dK (or dV) has no room for what only dK (or dV) needs.
template <int D, bool kDk, bool kDv>
struct DkdvTiles {
  static constexpr int kQueries = kQueriesOf<D>;
  alignas(16) float q_columns[D][kQueries];
  alignas(16) float do_columns[kDk ? D : 1][kQueries];
  alignas(16) float q_rows[kDk ? kQueries : 1][D];
  alignas(16) float do_rows[kDv ? kQueries : 1][D];
  OwnRows<D> k;
  std::uint32_t v[kDk ? D / 2 : 1][kThreads];  // OwnRows<D>
  float lse[kQueries];
  float delta[kQueries];
};

template <int D, bool kDk, bool kDv>
RUNGS_KERNEL(kThreads, kBlocksAnSm)
backward_dkdv_tiled_kernel(const BackwardParams p, int tiles) {
  using Tiles = DkdvTiles<D, kDk, kDv>;
  constexpr int kQueries = Tiles::kQueries;
  RUNGS_DYNAMIC_SHARED(Tiles, shared);
  // 1. My row of K and V. Under a causal mask the first keys are seen by most queries: they start
  // first.
  const Work work = work_of(blockIdx.x, tiles, p.shape);
  const int first_row = work.tile * kThreads;
  const int row = first_row + static_cast<int>(threadIdx.x);
  const bool exists = row < p.shape.keys;
  const int first_query = exists ? p.shape.first_query(row) : p.shape.queries;
  const int first_tile = p.shape.first_query(first_row) / kQueries * kQueries;
  const bf16* const q = p.q.head(work.batch, work.head);
  const bf16* const d_o = p.d_o.head(work.batch, work.head);
  const bf16* const k = p.k.head(work.batch, work.head) + row * p.k.row_stride;
  const bf16* const v = p.v.head(work.batch, work.head) + row * p.v.row_stride;
  load_own<D>(shared.k, exists ? k : nullptr, p.k.vectors);
  if constexpr (kDk) load_own<D>(shared.v, exists ? v : nullptr, p.v.vectors);
  const std::int64_t head =
      (std::int64_t{work.batch} * p.shape.heads + work.head) * p.shape.queries;

  const float scale = p.shape.scale * kLog2E;
  float dk_sum[kDk ? D : 1];
  float dv_sum[kDv ? D : 1];
  RUNGS_UNROLL
  for (float& sum : dk_sum) sum = 0.0f;
  RUNGS_UNROLL
  for (float& sum : dv_sum) sum = 0.0f;

  for (int tile = first_tile; tile < p.shape.queries; tile += kQueries) {
    // 2. Stage a tile of queries, the gradients of their outputs, LSE and delta.
    if (tile > first_tile) ptx::syncthreads();
    stage_columns<D, kQueries>(shared.q_columns, q, p.q.row_stride, tile, p.shape.queries,
                               p.q.vectors);
    if constexpr (kDk) {
      stage_rows<D, kQueries>(shared.q_rows, q, p.q.row_stride, tile, p.shape.queries, p.q.vectors);
      stage_columns<D, kQueries>(shared.do_columns, d_o, p.d_o.row_stride, tile, p.shape.queries,
                                 p.d_o.vectors);
    }
    if constexpr (kDv) {
      stage_rows<D, kQueries>(shared.do_rows, d_o, p.d_o.row_stride, tile, p.shape.queries,
                              p.d_o.vectors);
    }
    if (threadIdx.x < kQueries) {
      const int query = tile + static_cast<int>(threadIdx.x);
      const bool known = query < p.shape.queries;
      shared.lse[threadIdx.x] = known ? p.lse[head + query] * kLog2E : 0.0f;
      shared.delta[threadIdx.x] = known ? p.delta[head + query] : 0.0f;
    }
    ptx::syncthreads();

    for (int step = 0; step < kQueries && tile + step < p.shape.queries; step += kStep) {
      const int begin = first_query - tile - step;
      const int end = p.shape.queries - tile - step;
      if (begin >= kStep) continue;
      // 3. S = k·q for 16 queries, P = exp(S - LSE); dV += Pᵀ·dO.
      float weights[kStep];
      multiply_own<D, kQueries>(weights, shared.k, shared.q_columns, step);
      RUNGS_UNROLL
      for (int n = 0; n < kStep; ++n) weights[n] = exp2f(weights[n] * scale - shared.lse[step + n]);
      if constexpr (kDv) accumulate<D, kQueries>(dv_sum, weights, shared.do_rows, step, begin, end);
      // 4. dP = v·dO, dS = P ∘ (dP - delta); dK += dSᵀ·Q.
      if constexpr (kDk) {
        float d_scores[kStep];
        multiply_own<D, kQueries>(d_scores, shared.v, shared.do_columns, step);
        RUNGS_UNROLL
        for (int n = 0; n < kStep; ++n)
          d_scores[n] = weights[n] * (d_scores[n] - shared.delta[step + n]);
        accumulate<D, kQueries>(dk_sum, d_scores, shared.q_rows, step, begin, end);
      }
    }
  }

  // 5. A key that no query sees has gradient zero: its sums never left zero.
  if (!exists) return;
  if constexpr (kDk) {
    bf16* const dk = p.dk.head(work.batch, work.head) + row * p.dk.row_stride;
    store_row<D>(dk, dk_sum, p.shape.scale, p.dk.vectors);
  }
  if constexpr (kDv) {
    bf16* const dv = p.dv.head(work.batch, work.head) + row * p.dv.row_stride;
    store_row<D>(dv, dv_sum, 1.0f, p.dv.vectors);
  }
}

template <int D, bool kDk, bool kDv>
void launch_dkdv(const BackwardParams& params, gpu::StreamHandle stream) {
  const int tiles = (params.shape.keys + kThreads - 1) / kThreads;
  const auto blocks = static_cast<unsigned>(tiles * params.shape.batch * params.shape.heads);
  gpu::launch(
      "attention_backward_dkdv_tiled",
      {.grid = {blocks}, .block = {kThreads}, .shared_bytes = sizeof(DkdvTiles<D, kDk, kDv>)},
      stream, &backward_dkdv_tiled_kernel<D, kDk, kDv>, params, tiles);
}

}  // namespace

void launch_backward_dkdv(const BackwardParams& params, gpu::StreamHandle stream) {
  switch (params.shape.head_dim) {
    case 16:
      return launch_dkdv<16, true, true>(params, stream);
    case 32:
      return launch_dkdv<32, true, true>(params, stream);
    case 64:
      return launch_dkdv<64, true, true>(params, stream);
    default:
      launch_dkdv<128, false, true>(params, stream);
      launch_dkdv<128, true, false>(params, stream);
  }
}

}  // namespace rungs::attention::detail
