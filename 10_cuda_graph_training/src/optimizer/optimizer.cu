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

#include <rungs/gpu/lanes_device.hpp>

namespace rungs::training::optimizer {
namespace {

// 1. A thread a chunk: the partials depend on the chunk size alone, not on the grid.
RUNGS_KERNEL(gpu::kElementThreads)
norm_chunk_kernel(const float* gradients, double* partials, Ranges ranges) {
  const int chunks = static_cast<int>(norm_chunks(ranges));
  const int of_range = static_cast<int>((ranges.length + kChunk - 1) / kChunk);
  for (int chunk = gpu::first_index(); chunk < chunks; chunk += gpu::index_step()) {
    const std::int64_t range = ranges.begin + chunk / of_range * ranges.stride;
    const std::int64_t start = range + static_cast<std::int64_t>(chunk % of_range) * kChunk;
    const std::int64_t limit = range + ranges.length;
    const std::int64_t end = start + kChunk < limit ? start + kChunk : limit;
    gpu::LaneSums squares;
    for (std::int64_t i = start; i < end; i += gpu::kLanes)
      for (int l = 0; l < gpu::kLanes; ++l) squares.lane[l] += gradients[i + l] * gradients[i + l];
    partials[chunk] = static_cast<double>(squares.total());
  }
}

RUNGS_DEVICE double sum_of(const double* values, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += values[i];
  return sum;
}
RUNGS_DEVICE double sum_of(const float* values, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += static_cast<double>(values[i]);
  return sum;
}

// A double as two floats, and back: 48 of its 53 bits.
RUNGS_DEVICE void split(double value, float* to) {
  to[0] = static_cast<float>(value);
  to[1] = static_cast<float>(value - static_cast<double>(to[0]));
}
RUNGS_DEVICE double joined(const float* from) {
  return static_cast<double>(from[0]) + static_cast<double>(from[1]);
}

// 2. Several ranks: what this one adds to the sums.
RUNGS_KERNEL(1) fill_shares_kernel(OptimizerArgs a) {
  const RankSums& over = a.over;
  for (int i = 0; i < over.ranks * kShareFloats; ++i) over.shares[i] = 0.0f;
  float* mine = over.shares + over.rank * kShareFloats;
  split(sum_of(a.partials, norm_chunks(over.experts)), mine);
  split(sum_of(a.loss_rows, a.rows), mine + 2);
}

// 3. One thread adds what is left, in order, and settles every scalar of the step.
RUNGS_KERNEL(1) settle_step_kernel(OptimizerArgs a, std::int64_t chunks) {
  const RankSums& over = a.over;
  double squares = 0;
  double loss = 0;
  if (over.ranks > 1) {
    for (int r = 0; r < over.ranks; ++r) {
      squares += joined(over.shares + r * kShareFloats);
      loss += joined(over.shares + r * kShareFloats + 2);
    }
    squares += sum_of(a.partials, chunks);
  } else {
    squares = sum_of(a.partials, chunks);
    loss = sum_of(a.loss_rows, a.rows);
  }
  loss /= static_cast<double>(a.rows) * over.ranks;
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

// 4. The update, gpu::kLanes parameters a turn.
RUNGS_KERNEL(gpu::kElementThreads) adamw_kernel(OptimizerArgs a) {
  const StepState state = *a.state;
  if (state.apply == 0) return;
  const int groups = static_cast<int>(a.count / gpu::kLanes);
  for (int group = gpu::first_index(); group < groups; group += gpu::index_step()) {
    const std::int64_t i = static_cast<std::int64_t>(group) * gpu::kLanes;
    float* __restrict__ w = a.weights + i;
    bf16* __restrict__ narrow = a.weights_bf16 + i;
    float* __restrict__ m = a.moment1 + i;
    float* __restrict__ v = a.moment2 + i;
    const float* __restrict__ gradient = a.gradients + i;
    // Boundaries between tensors are multiples of gpu::kLanes, so a group decays as one.
    const float decay = i < a.decayed ? a.weight_decay : 0.0f;
    for (int l = 0; l < gpu::kLanes; ++l) {
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

RUNGS_KERNEL(gpu::kElementThreads)
refresh_kernel(const float* weights, bf16* narrow, std::int64_t count) {
  const int groups = static_cast<int>(count / gpu::kLanes);
  for (int group = gpu::first_index(); group < groups; group += gpu::index_step())
    for (int l = 0; l < gpu::kLanes; ++l)
      narrow[static_cast<std::int64_t>(group) * gpu::kLanes + l] =
          to_bf16(weights[static_cast<std::int64_t>(group) * gpu::kLanes + l]);
}

// Enqueues the partial sums of one set of ranges, from `partials` on. @return how many
std::int64_t enqueue_chunks(const OptimizerArgs& args, double* partials, const Ranges& ranges,
                            const gpu::Queue& queue) {
  const std::int64_t chunks = norm_chunks(ranges);
  gpu::launch("gradient_norm", gpu::element_grid(queue, chunks * gpu::kLanes), queue.stream,
              norm_chunk_kernel, args.gradients, partials, ranges);
  return chunks;
}

}  // namespace

void fill_shares(const OptimizerArgs& args, const gpu::Queue& queue) {
  queue.part("clip", [&] {
    enqueue_chunks(args, args.partials, args.over.experts, queue);
    gpu::launch("fill_shares", {.grid = {}, .block = {}}, queue.stream, fill_shares_kernel, args);
  });
}

void update(const OptimizerArgs& args, const gpu::Queue& queue) {
  queue.part("clip", [&] {
    std::int64_t chunks = 0;
    if (args.over.ranks > 1) {
      for (const Ranges& ranges : args.over.dense)
        chunks += enqueue_chunks(args, args.partials + chunks, ranges, queue);
    } else {
      const Ranges all{.begin = 0, .stride = 0, .length = args.count, .number = 1};
      chunks = enqueue_chunks(args, args.partials, all, queue);
    }
    gpu::launch("settle_step", {.grid = {}, .block = {}}, queue.stream, settle_step_kernel, args,
                chunks);
  });
  queue.part("adamw", [&] {
    gpu::launch("adamw", gpu::element_grid(queue, args.count), queue.stream, adamw_kernel, args);
  });
}

void refresh_bf16(const float* weights, bf16* weights_bf16, std::int64_t count,
                  const gpu::Queue& queue) {
  gpu::launch("refresh_bf16", gpu::element_grid(queue, count), queue.stream, refresh_kernel,
              weights, weights_bf16, count);
}

}  // namespace rungs::training::optimizer
