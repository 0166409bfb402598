/// Attention backward, materialised: the formulas, one kernel a step.
///
/// What: delta = rowsum(dO ∘ O); P = exp(S - LSE) and dS = P ∘ (dP - delta) into device memory;
///       then dV = Pᵀ·dO, dQ = scale·dS·K, dK = scale·dSᵀ·Q.
/// Layout: P and dS are fp32 arrays [B, H, Tq, Tk] that the plan owns; one thread a row of delta,
///         one an element of everything else, so every sum has one thread and one order.
/// Cost: 10·D FLOPs a score; P and dS are written once each and read D or 2·D times through the
///       cache.
/// Source: the chapter derives each formula; Dao et al., "FlashAttention" (2022), appendix B.2.

#include "../detail/prepare.hpp"
#include "grid_device.hpp"

#include <rungs/gpu/buffer.hpp>

#include <cmath>

namespace rungs::attention::detail {
namespace {

// 1. delta[b, h, i] = Σ_d dO·O.
RUNGS_KERNEL(kNaiveThreads)
delta_kernel(const BackwardParams p) {
  const Shape& shape = p.shape;
  const std::int64_t count = std::int64_t{shape.batch} * shape.heads * shape.queries;
  for (std::int64_t r = first_element(); r < count; r += element_step()) {
    const Position at = position_of(r, shape, shape.queries, 1);
    const bf16* const d_o = p.d_o.head(at.batch, at.head) + at.row * p.d_o.row_stride;
    const bf16* const o = p.o.head(at.batch, at.head) + at.row * p.o.row_stride;
    p.delta[r] = dot(d_o, o, shape.head_dim);
  }
}

// 2. P and dS of one score each.
RUNGS_KERNEL(kNaiveThreads)
score_gradients_kernel(const BackwardParams p, float* probabilities, float* d_scores) {
  const Shape& shape = p.shape;
  const std::int64_t count = std::int64_t{shape.batch} * shape.heads * shape.queries * shape.keys;
  for (std::int64_t e = first_element(); e < count; e += element_step()) {
    const Position at = position_of(e, shape, shape.queries, shape.keys);
    if (at.column >= shape.visible_keys(at.row)) continue;
    const std::int64_t r = e / shape.keys;
    const bf16* const q = p.q.head(at.batch, at.head) + at.row * p.q.row_stride;
    const bf16* const k = p.k.head(at.batch, at.head) + at.column * p.k.row_stride;
    const bf16* const v = p.v.head(at.batch, at.head) + at.column * p.v.row_stride;
    const bf16* const d_o = p.d_o.head(at.batch, at.head) + at.row * p.d_o.row_stride;
    const float probability = expf(shape.scale * dot(q, k, shape.head_dim) - p.lse[r]);
    probabilities[e] = probability;
    d_scores[e] = probability * (dot(d_o, v, shape.head_dim) - p.delta[r]);
  }
}

// 3. dQ[b, i, h, d] = scale * Σ_j dS[i, j] K[j, d].
RUNGS_KERNEL(kNaiveThreads)
query_gradient_kernel(const BackwardParams p, const float* d_scores) {
  const Shape& shape = p.shape;
  const std::int64_t count =
      std::int64_t{shape.batch} * shape.heads * shape.queries * shape.head_dim;
  for (std::int64_t e = first_element(); e < count; e += element_step()) {
    const Position at = position_of(e, shape, shape.queries, shape.head_dim);
    const float* const row = d_scores + e / shape.head_dim * shape.keys;
    const bf16* const k = p.k.head(at.batch, at.head) + at.column;
    const std::int32_t visible = shape.visible_keys(at.row);
    float sum = 0.0f;
    for (std::int32_t j = 0; j < visible; ++j) sum += row[j] * to_float(k[j * p.k.row_stride]);
    p.dq.head(at.batch, at.head)[at.row * p.dq.row_stride + at.column] = to_bf16(shape.scale * sum);
  }
}

// 4. dV[b, j, h, d] = Σ_i P[i, j] dO[i, d] and, called with dS and Q, dK = scale * Σ_i dS[i, j]
// Q[i, d].
RUNGS_KERNEL(kNaiveThreads)
key_side_gradient_kernel(const Shape shape, const float* weights, Rows<const bf16> rows,
                         float factor, Rows<bf16> gradient) {
  const std::int64_t count = std::int64_t{shape.batch} * shape.heads * shape.keys * shape.head_dim;
  for (std::int64_t e = first_element(); e < count; e += element_step()) {
    const Position at = position_of(e, shape, shape.keys, shape.head_dim);
    const std::int64_t head = std::int64_t{at.batch} * shape.heads + at.head;
    const float* const column = weights + head * shape.queries * shape.keys + at.row;
    const bf16* const row = rows.head(at.batch, at.head) + at.column;
    float sum = 0.0f;
    for (std::int64_t i = shape.first_query(at.row); i < shape.queries; ++i) {
      sum += column[i * shape.keys] * to_float(row[i * rows.row_stride]);
    }
    gradient.head(at.batch, at.head)[at.row * gradient.row_stride + at.column] =
        to_bf16(factor * sum);
  }
}

class BackwardMaterialised final : public ladder::Prepared {
 public:
  BackwardMaterialised(const BackwardParams& params, const gpu::Device& device)
      : params_(params),
        sm_count_(device.info().sm_count),
        heads_(std::int64_t{params.shape.batch} * params.shape.heads),
        probabilities_(device, scores(params.shape)),
        d_scores_(device, scores(params.shape)),
        delta_(device, static_cast<std::size_t>(heads_) * params.shape.queries) {
    params_.delta = delta_.data();
  }
  void operator()(gpu::StreamHandle stream) override {
    const Shape& shape = params_.shape;
    const std::int64_t queries = heads_ * shape.queries;
    const std::int64_t keys = heads_ * shape.keys;
    gpu::launch("attention_delta", spread(queries, sm_count_), stream, &delta_kernel, params_);
    gpu::launch("attention_score_gradients", spread(queries * shape.keys, sm_count_), stream,
                &score_gradients_kernel, params_, probabilities_.data(), d_scores_.data());
    gpu::launch("attention_dq", spread(queries * shape.head_dim, sm_count_), stream,
                &query_gradient_kernel, params_, d_scores_.data());
    gpu::launch("attention_dk", spread(keys * shape.head_dim, sm_count_), stream,
                &key_side_gradient_kernel, shape, d_scores_.data(), params_.q, shape.scale,
                params_.dk);
    gpu::launch("attention_dv", spread(keys * shape.head_dim, sm_count_), stream,
                &key_side_gradient_kernel, shape, probabilities_.data(), params_.d_o, 1.0f,
                params_.dv);
  }

 private:
  static std::size_t scores(const Shape& shape) {
    return static_cast<std::size_t>(shape.batch) * shape.heads * shape.queries * shape.keys;
  }
  BackwardParams params_;
  int sm_count_;
  std::int64_t heads_;
  gpu::Buffer<float> probabilities_;
  gpu::Buffer<float> d_scores_;
  gpu::Buffer<float> delta_;
};

}  // namespace

std::unique_ptr<ladder::Prepared> prepare_backward_materialised(const BackwardArgs& args,
                                                                const ladder::Machine& machine) {
  const BackwardParams params = check_backward(args);
  require_support(backward_supports(args, machine));
  return std::make_unique<BackwardMaterialised>(params, *machine.device);
}

}  // namespace rungs::attention::detail
