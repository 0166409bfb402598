// Global-norm clip, schedule and AdamW.
//
// What:   norm = |g|; g' = g·min(1, clip/norm); m, v and w by AdamW with decoupled decay; w also as
//         bf16.
// New:    no scalar comes from the host. An eager loop would read the norm back, choose a factor,
//         and pass lr and step as arguments: three reasons why it cannot be captured.
// Layout: all parameters in one array, so that the whole update is three launches.
// Cost:   norm 4 bytes a parameter; update 16 read, 14 written.
// Source: Loshchilov and Hutter, "Decoupled weight decay regularization", 2019.

#include "optimizer/optimizer.hpp"

#include "detail/lanes_device.hpp"

namespace rungs::training::optimizer {
namespace {

// 1. A thread a chunk: the partials depend on the chunk size alone, not on the grid.
RUNGS_KERNEL(kElementThreads)
norm_chunk_kernel(const float* gradients, double* partials, std::int64_t count) {
  const int chunks = static_cast<int>((count + kChunk - 1) / kChunk);
  for (int chunk = first_index(); chunk < chunks; chunk += index_step()) {
    const std::int64_t start = static_cast<std::int64_t>(chunk) * kChunk;
    const std::int64_t end = start + kChunk < count ? start + kChunk : count;
    LaneSums squares;
    for (std::int64_t i = start; i < end; i += kLanes)
      for (int l = 0; l < kLanes; ++l) squares.lane[l] += gradients[i + l] * gradients[i + l];
    partials[chunk] = static_cast<double>(squares.total());
  }
}

// 2. One thread adds what is left, in order, and settles every scalar of the step.
RUNGS_KERNEL(1) settle_step_kernel(OptimizerArgs a) {
  const int chunks = static_cast<int>((a.count + kChunk - 1) / kChunk);
  double squares = 0;
  for (int i = 0; i < chunks; ++i) squares += a.partials[i];
  double loss = 0;
  for (int i = 0; i < a.rows; ++i) loss += static_cast<double>(a.loss_rows[i]);
  loss /= a.rows;
  double balance = 0;
  for (int i = 0; i < a.layers * a.experts; ++i) balance += static_cast<double>(a.balance[i]);

  const float norm = static_cast<float>(sqrt(squares));
  StepState& state = *a.state;
  // NaN and infinity are the values whose difference with themselves is not zero.
  const bool finite = norm - norm == 0.0f && loss - loss == 0.0;
  const std::uint64_t step = state.step + 1;
  state.apply = finite ? 1u : 0u;
  state.clip_scale = fminf(1.0f, a.clip / (norm + 1e-6f));
  state.lr = scheduled_lr(step, a.lr, a.warmup_steps, a.steps);
  state.correction1 =
      static_cast<float>(1.0 / (1.0 - pow(static_cast<double>(kBeta1), static_cast<double>(step))));
  state.correction2 =
      static_cast<float>(1.0 / (1.0 - pow(static_cast<double>(kBeta2), static_cast<double>(step))));
  if (finite) state.step = step;
  *a.report = StepReport{
      loss, balance * a.experts / a.layers, static_cast<double>(norm), state.step, state.apply, 0};
}

// 3. The update, kLanes parameters a turn.
RUNGS_KERNEL(kElementThreads) adamw_kernel(OptimizerArgs a) {
  const StepState state = *a.state;
  if (state.apply == 0) return;
  const int groups = static_cast<int>(a.count / kLanes);
  for (int group = first_index(); group < groups; group += index_step()) {
    const std::int64_t i = static_cast<std::int64_t>(group) * kLanes;
    float* __restrict__ w = a.weights + i;
    bf16* __restrict__ narrow = a.weights_bf16 + i;
    float* __restrict__ m = a.moment1 + i;
    float* __restrict__ v = a.moment2 + i;
    const float* __restrict__ gradient = a.gradients + i;
    // Boundaries between tensors are multiples of kLanes, so a group decays as one.
    const float decay = i < a.decayed ? a.weight_decay : 0.0f;
    for (int l = 0; l < kLanes; ++l) {
      const float g = gradient[l] * state.clip_scale;
      const float m_new = kBeta1 * m[l] + (1.0f - kBeta1) * g;
      const float v_new = kBeta2 * v[l] + (1.0f - kBeta2) * g * g;
      const float direction =
          m_new * state.correction1 / (sqrtf(v_new * state.correction2) + kEpsilon);
      const float w_new = w[l] - state.lr * (direction + decay * w[l]);
      m[l] = m_new;
      v[l] = v_new;
      w[l] = w_new;
      narrow[l] = to_bf16(w_new);
    }
  }
}

RUNGS_KERNEL(kElementThreads)
refresh_kernel(const float* weights, bf16* narrow, std::int64_t count) {
  const int groups = static_cast<int>(count / kLanes);
  for (int group = first_index(); group < groups; group += index_step())
    for (int l = 0; l < kLanes; ++l)
      narrow[static_cast<std::int64_t>(group) * kLanes + l] =
          to_bf16(weights[static_cast<std::int64_t>(group) * kLanes + l]);
}

}  // namespace

void update(const OptimizerArgs& args, const Queue& queue) {
  queue.part("clip", [&] {
    gpu::launch("gradient_norm", element_grid(queue, norm_partials(args.count) * kLanes),
                queue.stream, norm_chunk_kernel, args.gradients, args.partials, args.count);
    gpu::launch("settle_step", {.grid = {}, .block = {}}, queue.stream, settle_step_kernel, args);
  });
  queue.part("adamw", [&] {
    gpu::launch("adamw", element_grid(queue, args.count), queue.stream, adamw_kernel, args);
  });
}

void refresh_bf16(const float* weights, bf16* weights_bf16, std::int64_t count,
                  const Queue& queue) {
  gpu::launch("refresh_bf16", element_grid(queue, count), queue.stream, refresh_kernel, weights,
              weights_bf16, count);
}

}  // namespace rungs::training::optimizer
