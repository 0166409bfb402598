/// Attention forward, materialised: the formula, one kernel a step.
///
/// What: S = scale·Q·Kᵀ into device memory, softmax of its rows in place, O = P·V.
/// Layout: S and P share one fp32 array [B, H, Tq, Tk] that the plan owns; one thread an element of
///         S and of O, one thread a row of the softmax.
/// Cost: 4·D FLOPs a visible score like every rung, but S crosses device memory six times (written
///       by the first kernel, read three times and written twice by the second) and is then read D
///       times through the caches by the third.
/// Source: Vaswani et al., "Attention Is All You Need" (2017), equation 1.

#include "../detail/prepare.hpp"
#include "grid_device.hpp"

#include <rungs/gpu/buffer.hpp>

#include <cmath>

namespace rungs::attention::detail {
namespace {

// 1. S[b, h, i, j] = scale * q_i · k_j. What the mask hides is never read nor written.
RUNGS_KERNEL(kNaiveThreads)
scores_kernel(const ForwardParams p, float* scores) {
  const Shape& shape = p.shape;
  const std::int64_t count = std::int64_t{shape.batch} * shape.heads * shape.queries * shape.keys;
  for (std::int64_t e = first_element(); e < count; e += element_step()) {
    const Position at = position_of(e, shape, shape.queries, shape.keys);
    if (at.column >= shape.visible_keys(at.row)) continue;
    const bf16* const q = p.q.head(at.batch, at.head) + at.row * p.q.row_stride;
    const bf16* const k = p.k.head(at.batch, at.head) + at.column * p.k.row_stride;
    scores[e] = shape.scale * dot(q, k, shape.head_dim);
  }
}

// 2. P = exp(S - max) / sum, row by row and in place; LSE = max + log(sum).
RUNGS_KERNEL(kNaiveThreads)
softmax_rows_kernel(const ForwardParams p, float* scores) {
  const Shape& shape = p.shape;
  const std::int64_t count = std::int64_t{shape.batch} * shape.heads * shape.queries;
  for (std::int64_t r = first_element(); r < count; r += element_step()) {
    const std::int32_t visible = shape.visible_keys(static_cast<std::int32_t>(r % shape.queries));
    float* const row = scores + r * shape.keys;
    float maximum = -INFINITY;
    for (std::int32_t j = 0; j < visible; ++j) maximum = fmaxf(maximum, row[j]);
    float sum = 0.0f;
    for (std::int32_t j = 0; j < visible; ++j) {
      row[j] = expf(row[j] - maximum);
      sum += row[j];
    }
    for (std::int32_t j = 0; j < visible; ++j) row[j] /= sum;
    p.lse[r] = visible > 0 ? maximum + logf(sum) : -INFINITY;
  }
}

// 3. O[b, i, h, d] = Σ_j P[b, h, i, j] V[b, j, h, d]; an empty sum is the contract's zero.
RUNGS_KERNEL(kNaiveThreads)
output_kernel(const ForwardParams p, const float* probabilities) {
  const Shape& shape = p.shape;
  const std::int64_t count =
      std::int64_t{shape.batch} * shape.heads * shape.queries * shape.head_dim;
  for (std::int64_t e = first_element(); e < count; e += element_step()) {
    const Position at = position_of(e, shape, shape.queries, shape.head_dim);
    const float* const row = probabilities + e / shape.head_dim * shape.keys;
    const bf16* const v = p.v.head(at.batch, at.head) + at.column;
    const std::int32_t visible = shape.visible_keys(at.row);
    float sum = 0.0f;
    for (std::int32_t j = 0; j < visible; ++j) sum += row[j] * to_float(v[j * p.v.row_stride]);
    p.o.head(at.batch, at.head)[at.row * p.o.row_stride + at.column] = to_bf16(sum);
  }
}

class ForwardMaterialised final : public ladder::Prepared {
 public:
  ForwardMaterialised(const ForwardParams& params, const gpu::Device& device)
      : params_(params),
        sm_count_(device.info().sm_count),
        rows_(rows_of(params.shape)),
        scores_(device, static_cast<std::size_t>(rows_) * params.shape.keys) {}
  void operator()(gpu::StreamHandle stream) override {
    const Shape& shape = params_.shape;
    gpu::launch("attention_scores", spread(rows_ * shape.keys, sm_count_), stream, &scores_kernel,
                params_, scores_.data());
    gpu::launch("attention_softmax_rows", spread(rows_, sm_count_), stream, &softmax_rows_kernel,
                params_, scores_.data());
    gpu::launch("attention_output", spread(rows_ * shape.head_dim, sm_count_), stream,
                &output_kernel, params_, scores_.data());
  }

 private:
  static std::int64_t rows_of(const Shape& shape) {
    return std::int64_t{shape.batch} * shape.heads * shape.queries;
  }
  ForwardParams params_;
  int sm_count_;
  std::int64_t rows_;
  gpu::Buffer<float> scores_;
};

}  // namespace

std::unique_ptr<ladder::Prepared> prepare_forward_materialised(const ForwardArgs& args,
                                                               const ladder::Machine& machine) {
  const ForwardParams params = check_forward(args);
  require_support(forward_supports(args, machine));
  return std::make_unique<ForwardMaterialised>(params, *machine.device);
}

}  // namespace rungs::attention::detail
