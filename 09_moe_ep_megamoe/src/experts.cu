// GELU, its VJP, and the order of the experts' GEMMs.
//
// What:   y = gelu(rows·upᵀ)·downᵀ for each expert of this rank.
// New:    grids and plans have their worst-case size and stop at the counts in device memory.
// Layout: [experts, capacity, ·]; rows from the count up to the next multiple of kPadRows are kept
//         at zero, because a GEMM over rows (the weight gradients) reads whole tiles.
// Cost:   4·rows·width·hidden FLOPs forward, twice that back; GELU moves 4·rows·hidden bytes.

#include "experts.hpp"

#include <rungs/gpu/lanes_device.hpp>

#include <cmath>

#include "tokens.hpp"

namespace rungs::moe {
namespace {

// 1 / (1 + exp(−2u)) written so that exp never overflows to infinity in a way that matters:
// exp(−2u) = inf gives 0.
RUNGS_DEVICE float logistic_2u(float u) { return 1.0f / (1.0f + expf(-2.0f * u)); }

// GELU by its tanh form: x·(1 + tanh u)/2 = x·logistic(2u), u = √(2/π)·(x + 0.044715·x³).
constexpr float kGeluScale = 0.7978845608f;
constexpr float kGeluCubic = 0.044715f;
RUNGS_DEVICE float gelu(float x) {
  return x * logistic_2u(kGeluScale * (x + kGeluCubic * x * x * x));
}
// d/dx [x·s(2u)] = s + x·2·s·(1 − s)·u'.
RUNGS_DEVICE float gelu_slope(float x) {
  const float s = logistic_2u(kGeluScale * (x + kGeluCubic * x * x * x));
  const float du = kGeluScale * (1.0f + 3.0f * kGeluCubic * x * x);
  return s + x * 2.0f * s * (1.0f - s) * du;
}

RUNGS_DEVICE int padded(int count) { return (count + kPadRows - 1) / kPadRows * kPadRows; }

// Kernels over [experts, capacity] rows: item → (expert, row).
RUNGS_KERNEL(gpu::kRowThreads) gelu_kernel(ExpertsArgs a) {
  for (int item = gpu::first_index(); item < a.experts * a.capacity; item += gpu::index_step()) {
    const int count = a.count[item / a.capacity];
    const int row = item % a.capacity;
    if (row >= padded(count)) continue;
    const bf16* x = a.before_gelu + static_cast<std::int64_t>(item) * a.hidden;
    bf16* y = a.after_gelu + static_cast<std::int64_t>(item) * a.hidden;
    if (row >= count) {
      for (int c = 0; c < a.hidden; ++c) y[c] = bf16{0};
      continue;
    }
    for (int c = 0; c < a.hidden; ++c) y[c] = to_bf16(gelu(to_float(x[c])));
  }
}

// In place: d_hidden holds the gradient after the GELU and gets the one before it.
RUNGS_KERNEL(gpu::kRowThreads) gelu_vjp_kernel(ExpertsArgs a) {
  for (int item = gpu::first_index(); item < a.experts * a.capacity; item += gpu::index_step()) {
    const int count = a.count[item / a.capacity];
    const int row = item % a.capacity;
    if (row >= padded(count)) continue;
    const bf16* x = a.before_gelu + static_cast<std::int64_t>(item) * a.hidden;
    bf16* d = a.d_hidden + static_cast<std::int64_t>(item) * a.hidden;
    if (row >= count) {
      for (int c = 0; c < a.hidden; ++c) d[c] = bf16{0};
      continue;
    }
    for (int c = 0; c < a.hidden; ++c) d[c] = to_bf16(to_float(d[c]) * gelu_slope(to_float(x[c])));
  }
}

// A linear layer of every expert: each pointer is that of expert 0, the others follow.
template <class Y, class Dx>
struct ExpertLayer {
  const bf16* x;       // [experts, capacity, in]
  const bf16* weight;  // [experts, out, in]
  Y* y;                // [experts, capacity, out]
  const bf16* dy;      // [experts, capacity, out]
  Dx* dx;              // [experts, capacity, in]
  float* d_weight;     // [experts, out, in]
  int in;
  int out;

  [[nodiscard]] gemm::LinearArgs of_expert(int e, const ExpertsArgs& a) const {
    const std::int64_t row = static_cast<std::int64_t>(e) * a.capacity;
    const std::int64_t matrix = static_cast<std::int64_t>(e) * out * in;
    return {.x = x + row * in,
            .weight = weight + matrix,
            .y = tensor(y + row * out, a.capacity, out),
            .dy = dy + row * out,
            .dx = tensor(dx + row * in, a.capacity, in),
            .d_weight = d_weight + matrix,
            .rows = a.capacity,
            .in = in,
            .out = out,
            .valid_rows = a.count + e};
  }
};

void enqueue_vjp(const std::vector<gemm::Linear>& layers, gpu::StreamHandle stream) {
  for (const gemm::Linear& linear : layers) {
    linear.input_vjp(stream);
    linear.weight_vjp(stream);
  }
}

}  // namespace

Experts::Experts(const ExpertsArgs& args, const gpu::Device& device) : args_(args) {
  const ExpertLayer<bf16, float> up{.x = args.rows,
                                    .weight = args.up,
                                    .y = args.before_gelu,
                                    .dy = args.d_hidden,
                                    .dx = args.d_rows,
                                    .d_weight = args.d_up,
                                    .in = args.width,
                                    .out = args.hidden};
  const ExpertLayer<float, bf16> down{.x = args.after_gelu,
                                      .weight = args.down,
                                      .y = args.outputs,
                                      .dy = args.d_outputs,
                                      .dx = args.d_hidden,
                                      .d_weight = args.d_down,
                                      .in = args.hidden,
                                      .out = args.width};
  for (int e = 0; e < args.experts; ++e) {
    up_.emplace_back(up.of_expert(e, args), device);
    down_.emplace_back(down.of_expert(e, args), device);
  }
}

void Experts::forward(const gpu::Queue& queue) const {
  const long long rows = static_cast<long long>(args_.experts) * args_.capacity;
  queue.part("experts forward", [&] {
    for (const gemm::Linear& linear : up_) linear.forward(queue.stream);
  });
  queue.part("gelu", [&] {
    gpu::launch("moe_gelu", gpu::row_grid(queue, rows), queue.stream, gelu_kernel, args_);
  });
  queue.part("experts forward", [&] {
    for (const gemm::Linear& linear : down_) linear.forward(queue.stream);
  });
}

void Experts::vjp(const gpu::Queue& queue) const {
  const long long rows = static_cast<long long>(args_.experts) * args_.capacity;
  queue.part("experts VJP", [&] { enqueue_vjp(down_, queue.stream); });
  queue.part("gelu VJP", [&] {
    gpu::launch("moe_gelu_vjp", gpu::row_grid(queue, rows), queue.stream, gelu_vjp_kernel, args_);
  });
  queue.part("experts VJP", [&] { enqueue_vjp(up_, queue.stream); });
}

}  // namespace rungs::moe
