/// Attention forward, tiled: O = softmax(scale·Q·Kᵀ)·V with S in registers only.
///
/// New against `materialised`: the softmax is *online*. A thread walks over the keys of its query
/// row in steps of 16, keeps the running maximum m, the running sum l and the un-normalised output
/// row, and rescales them when m grows; it divides once, at the end (FlashAttention-2's order of
/// loops: queries outside, keys inside).
/// Layout: a block is 64 query rows of one head; tiles of 32 keys are staged in shared memory
///       (tiles_device.hpp).
/// Cost: reads Q once, K and V once for every 64 queries; writes O and LSE; 4·D FLOPs a visible
///       score; two barriers a key tile; tiles that the causal mask hides whole are not
///       visited.
/// Source: Dao, "FlashAttention-2" (2023), algorithm 1; Milakov and Gimelshein, "Online normalizer
///         calculation for softmax" (2018).

#include "../detail/prepare.hpp"
#include "tiles_device.hpp"

#include <rungs/gpu/launch.hpp>

namespace rungs::attention::detail {
namespace {

constexpr int kKeys = 32;  // of a tile

template <int D>
struct ForwardTiles {
  alignas(16) float k_columns[D][kKeys];
  alignas(16) float v_rows[kKeys][D];
  OwnRows<D> q;
};

template <int D>
RUNGS_KERNEL(kThreads, kBlocksAnSm)
forward_tiled_kernel(const ForwardParams p, int tiles) {
  RUNGS_DYNAMIC_SHARED(ForwardTiles<D>, shared);
  // 1. Which row is mine? Under a causal mask the last tiles see most keys: they start first.
  const Work work = work_of(blockIdx.x, tiles, p.shape);
  const int first_row = (tiles - 1 - work.tile) * kThreads;
  const int row = first_row + static_cast<int>(threadIdx.x);
  const int last_row =
      first_row + kThreads < p.shape.queries ? first_row + kThreads - 1 : p.shape.queries - 1;
  const int visible = row < p.shape.queries ? p.shape.visible_keys(row) : 0;
  const int visible_to_block = p.shape.visible_keys(last_row);
  const bf16* const k = p.k.head(work.batch, work.head);
  const bf16* const v = p.v.head(work.batch, work.head);
  const bf16* const q = p.q.head(work.batch, work.head) + row * p.q.row_stride;
  load_own<D>(shared.q, row < p.shape.queries ? q : nullptr, p.q.vectors);

  const float scale =
      p.shape.scale * kLog2E;  // scores in units of log 2: exp2 is the GPU's own exponential
  float output[D];
  RUNGS_UNROLL
  for (int d = 0; d < D; ++d) output[d] = 0.0f;
  float maximum = -INFINITY;
  float sum = 0.0f;

  for (int tile = 0; tile < visible_to_block; tile += kKeys) {
    // 2. Stage a tile of keys and values, when nobody reads the last one any more.
    if (tile > 0) ptx::syncthreads();
    stage_columns<D, kKeys>(shared.k_columns, k, p.k.row_stride, tile, p.shape.keys, p.k.vectors);
    stage_rows<D, kKeys>(shared.v_rows, v, p.v.row_stride, tile, p.shape.keys, p.v.vectors);
    ptx::syncthreads();

    for (int step = 0; step < kKeys && tile + step < visible; step += kStep) {
      // 3. Scores of 16 keys. What the mask hides counts as minus infinity.
      const int count = visible - tile - step;
      float scores[kStep];
      multiply_own<D, kKeys>(scores, shared.q, shared.k_columns, step);
      float grown = maximum;
      RUNGS_UNROLL
      for (int n = 0; n < kStep; ++n) {
        scores[n] = n < count ? scores[n] * scale : -INFINITY;
        grown = fmaxf(grown, scores[n]);
      }
      // 4. A larger maximum: bring what is summed so far to the new unit. (The first time both are
      // zero.)
      if (grown > maximum) {
        const float shrink = exp2f(maximum - grown);
        sum *= shrink;
        RUNGS_UNROLL
        for (int d = 0; d < D; ++d) output[d] *= shrink;
        maximum = grown;
      }
      // 5. Weights, their sum, and the weighted values.
      RUNGS_UNROLL
      for (int n = 0; n < kStep; ++n) {
        scores[n] = exp2f(scores[n] - maximum);
        sum += scores[n];
      }
      accumulate<D, kKeys>(output, scores, shared.v_rows, step, 0, count);
    }
  }

  // 6. One division a row. A row that sees no key is zero by contract.
  if (row >= p.shape.queries) return;
  bf16* const o = p.o.head(work.batch, work.head) + row * p.o.row_stride;
  store_row<D>(o, output, visible > 0 ? 1.0f / sum : 0.0f, p.o.vectors);
  const std::int64_t head = std::int64_t{work.batch} * p.shape.heads + work.head;
  p.lse[head * p.shape.queries + row] = visible > 0 ? maximum * kLn2 + logf(sum) : -INFINITY;
}

class ForwardTiled final : public ladder::Prepared {
 public:
  explicit ForwardTiled(const ForwardParams& params) : params_(params) {}
  void operator()(gpu::StreamHandle stream) override {
    switch (params_.shape.head_dim) {
      case 16:
        return launch<16>(stream);
      case 32:
        return launch<32>(stream);
      case 64:
        return launch<64>(stream);
      default:
        return launch<128>(stream);
    }
  }

 private:
  template <int D>
  void launch(gpu::StreamHandle stream) const {
    const int tiles = (params_.shape.queries + kThreads - 1) / kThreads;
    const auto blocks = static_cast<unsigned>(tiles * params_.shape.batch * params_.shape.heads);
    gpu::launch("attention_forward_tiled",
                {.grid = {blocks}, .block = {kThreads}, .shared_bytes = sizeof(ForwardTiles<D>)},
                stream, &forward_tiled_kernel<D>, params_, tiles);
  }

  ForwardParams params_;
};

}  // namespace

std::unique_ptr<ladder::Prepared> prepare_forward_tiled(const ForwardArgs& args,
                                                        const ladder::Machine& machine) {
  const ForwardParams params = check_forward(args);
  require_support(forward_tiled_supports(args, machine));
  return std::make_unique<ForwardTiled>(params);
}

}  // namespace rungs::attention::detail
