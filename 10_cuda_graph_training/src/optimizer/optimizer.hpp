#pragma once
// Clip by global norm, learning-rate schedule and AdamW, with every scalar that changes from step
// to step in device memory: the captured graph advances by itself.

#include <rungs/core/dtype.hpp>

#include <cstdint>

#include <rungs/gpu/queue.hpp>

namespace rungs::training::optimizer {

inline constexpr float kBeta1 = 0.9f;
inline constexpr float kBeta2 = 0.95f;
inline constexpr float kEpsilon = 1e-8f;
/// What the schedule ends at, as a share of lr.
inline constexpr float kFinalShare = 0.1f;

/// What a step leaves for the next, and for its own later kernels. One in device memory.
struct StepState {
  std::uint64_t step;  ///< steps done; chooses batch and learning rate
  float lr;            ///< of this step
  float clip_scale;    ///< factor of every gradient: min(1, clip / norm)
  float correction1;   ///< 1 / (1 - beta1^step)
  float correction2;   ///< 1 / (1 - beta2^step)
  std::uint32_t
      apply;  ///< 0: loss or norm is not finite; weights, moments and step stay as they are
  std::uint32_t reserved;
};

/// What the host reads after a step. One in host-mapped memory.
struct StepReport {
  double loss;
  double aux_loss;
  double grad_norm;
  std::uint64_t step;    ///< steps done
  std::uint32_t finite;  ///< whether the update was made
  std::uint32_t reserved;
};

/// `number` ranges of `length` elements, `stride` apart.
struct Ranges {
  std::int64_t begin = 0;
  std::int64_t stride = 0;
  std::int64_t length = 0;  // a multiple of gpu::kLanes
  std::int64_t number = 0;
};

/// A step's sums over several ranks. Gradients of dense parameters are the same everywhere once
/// they are reduced; of the experts a rank knows the squares of its own, of the loss that of its
/// rows. Both travel as floats in an all-reduce that takes place anyway: a rank fills its own row
/// of `shares` and leaves zeros in the others, so that the sums over ranks are exact.
struct RankSums {
  int rank = 0;
  int ranks = 1;            // 1: alone, nothing below is read
  float* shares = nullptr;  // [ranks, kShareFloats]
  Ranges experts{};         // parameters of this rank only
  Ranges dense[2]{};        // all others
};
/// Squares of the experts' gradients and sum of the loss rows, each as a float and what the float
/// leaves of the double.
inline constexpr int kShareFloats = 4;

struct OptimizerArgs {
  float* weights;          // [count] master copy
  bf16* weights_bf16;      // [count] what the GEMMs read
  float* moment1;          // [count]
  float* moment2;          // [count]
  const float* gradients;  // [count]
  double* partials;        // workspace of norm_partials() doubles
  const float* loss_rows;  // [rows] nats
  const float* balance;    // [layers, experts] f_e·P_e
  StepState* state;        // device
  StepReport* report;      // host-mapped
  std::int64_t count;      // a multiple of gpu::kLanes
  std::int64_t
      decayed;  // the first `decayed` weights decay: matrices come first (model/parameters.hpp)
  int rows;
  int layers;
  int experts;
  int steps;  // of the whole schedule
  int warmup_steps;
  float lr;
  float weight_decay;
  float clip;
  RankSums over{};
};

/// Elements summed by one thread of the norm.
inline constexpr int kChunk = 1024;
RUNGS_HD std::int64_t norm_chunks(const Ranges& ranges) {
  return (ranges.length + kChunk - 1) / kChunk * ranges.number;
}
/// Room for the sums of `count` elements in at most `ranges` ranges.
inline long long norm_partials(std::int64_t count, std::int64_t ranges = 1) {
  return (count + kChunk - 1) / kChunk + ranges;
}

/// Several ranks: fills this rank's row of the shares. After the experts' gradients are there, and
/// before the all-reduce that carries the shares.
void fill_shares(const OptimizerArgs& args, const gpu::Queue& queue);
/// Enqueues norm, schedule and update. Several ranks: dense gradients and shares are reduced.
void update(const OptimizerArgs& args, const gpu::Queue& queue);
/// weights_bf16 = weights, for the first step and after a resume.
void refresh_bf16(const float* weights, bf16* weights_bf16, std::int64_t count,
                  const gpu::Queue& queue);

/// The learning rate of step `step` (the first is 1): linear warm-up, then a cosine to kFinalShare
/// of lr.
RUNGS_HD float scheduled_lr(std::uint64_t step, float lr, int warmup_steps, int steps);

}  // namespace rungs::training::optimizer

#include <cmath>

namespace rungs::training::optimizer {

RUNGS_HD float scheduled_lr(std::uint64_t step, float lr, int warmup_steps, int steps) {
  const std::uint64_t warm = static_cast<std::uint64_t>(warmup_steps);
  if (step <= warm) return lr * static_cast<float>(step) / static_cast<float>(warmup_steps);
  const std::uint64_t last = static_cast<std::uint64_t>(steps);
  if (step >= last) return lr * kFinalShare;
  const float progress = static_cast<float>(step - warm) / static_cast<float>(last - warm);
  const float cosine = 0.5f * (1.0f + cosf(3.14159265f * progress));
  return lr * (kFinalShare + (1.0f - kFinalShare) * cosine);
}

}  // namespace rungs::training::optimizer
