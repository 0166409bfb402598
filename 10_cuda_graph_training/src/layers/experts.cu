// Gather, GELU, combine and their VJPs.
//
// What:   the data movement and the nonlinearity around the experts' GEMMs.
// New:    nothing is dropped and nothing is sorted: a token's rows are known from Routing, each
//         kernel row knows its token by Routing::assignment, and the sum over a token's experts
//         runs in the order of choice.
// Layout: [experts, capacity, ·]; rows from the count up to the next multiple of 64 are kept at
//         zero, because a GEMM over rows (the weight gradients) reads whole tiles.
// Cost:   gather 4·tokens·top_k·width bytes, GELU 4·tokens·top_k·hidden, combine 4·tokens·(top_k +
//         2)·width.

#include "layers/experts.hpp"

#include "detail/lanes_device.hpp"

#include <cmath>

namespace rungs::training::layers {
namespace {

constexpr int kPadRows = 64;

// Rows of expert e that are used or padding.
RUNGS_DEVICE int padded_rows(const Routing& r, int e) {
  return (r.count[e] + kPadRows - 1) / kPadRows * kPadRows;
}

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

// Kernels over [experts, capacity] rows: item → (expert, row).
RUNGS_KERNEL(kRowThreads) gather_kernel(ExpertsArgs a) {
  const Routing& r = a.routing;
  for (int item = first_index(); item < r.experts * r.capacity; item += index_step()) {
    const int e = item / r.capacity;
    const int row = item % r.capacity;
    if (row >= padded_rows(r, e)) continue;
    bf16* to = a.rows + static_cast<std::int64_t>(item) * a.width;
    if (row >= r.count[e]) {
      for (int c = 0; c < a.width; ++c) to[c] = bf16{0};
      continue;
    }
    const bf16* from = a.x + static_cast<std::int64_t>(r.assignment[item] / r.top_k) * a.width;
    for (int c = 0; c < a.width; ++c) to[c] = from[c];
  }
}

RUNGS_KERNEL(kRowThreads) gelu_kernel(ExpertsArgs a) {
  const Routing& r = a.routing;
  for (int item = first_index(); item < r.experts * r.capacity; item += index_step()) {
    const int e = item / r.capacity;
    const int row = item % r.capacity;
    if (row >= padded_rows(r, e)) continue;
    const bf16* x = a.before_gelu + static_cast<std::int64_t>(item) * a.hidden;
    bf16* y = a.after_gelu + static_cast<std::int64_t>(item) * a.hidden;
    if (row >= r.count[e]) {
      for (int c = 0; c < a.hidden; ++c) y[c] = bf16{0};
      continue;
    }
    for (int c = 0; c < a.hidden; ++c) y[c] = to_bf16(gelu(to_float(x[c])));
  }
}

// In place: d_hidden holds the gradient after the GELU and gets the one before it.
RUNGS_KERNEL(kRowThreads) gelu_vjp_kernel(ExpertsArgs a) {
  const Routing& r = a.routing;
  for (int item = first_index(); item < r.experts * r.capacity; item += index_step()) {
    const int e = item / r.capacity;
    const int row = item % r.capacity;
    if (row >= padded_rows(r, e)) continue;
    const bf16* x = a.before_gelu + static_cast<std::int64_t>(item) * a.hidden;
    bf16* d = a.d_hidden + static_cast<std::int64_t>(item) * a.hidden;
    if (row >= r.count[e]) {
      for (int c = 0; c < a.hidden; ++c) d[c] = bf16{0};
      continue;
    }
    for (int c = 0; c < a.hidden; ++c) d[c] = to_bf16(to_float(d[c]) * gelu_slope(to_float(x[c])));
  }
}

RUNGS_KERNEL(kRowThreads) combine_kernel(ExpertsArgs a) {
  const Routing& r = a.routing;
  for (int token = first_index(); token < r.tokens; token += index_step()) {
    float* residual = a.residual + static_cast<std::int64_t>(token) * a.width;
    for (int j = 0; j < r.top_k; ++j) {
      const int i = token * r.top_k + j;
      const float gate = r.gate[i];
      const float* output =
          a.outputs + (static_cast<std::int64_t>(r.expert[i]) * r.capacity + r.slot[i]) * a.width;
      for (int c = 0; c < a.width; ++c) residual[c] += gate * output[c];
    }
  }
}

// A row of an expert's output has one reader, its token: d_output = gate·d_residual, d_gate =
// output·d_residual.
RUNGS_KERNEL(kRowThreads) combine_vjp_kernel(ExpertsArgs a) {
  const Routing& r = a.routing;
  for (int item = first_index(); item < r.experts * r.capacity; item += index_step()) {
    const int e = item / r.capacity;
    const int row = item % r.capacity;
    if (row >= padded_rows(r, e)) continue;
    bf16* d_output = a.d_outputs + static_cast<std::int64_t>(item) * a.width;
    if (row >= r.count[e]) {
      for (int c = 0; c < a.width; ++c) d_output[c] = bf16{0};
      continue;
    }
    const int i = r.assignment[item];
    const float gate = r.gate[i];
    const float* d = a.d_residual + static_cast<std::int64_t>(i / r.top_k) * a.width;
    const float* output = a.outputs + static_cast<std::int64_t>(item) * a.width;
    LaneSums dot;
    for (int c = 0; c < a.width; c += kLanes)
      for (int l = 0; l < kLanes; ++l) {
        dot.lane[l] += output[c + l] * d[c + l];
        d_output[c + l] = to_bf16(gate * d[c + l]);
      }
    a.d_gate[item] = dot.total();
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

  [[nodiscard]] LinearArgs of_expert(int e, const Routing& r) const {
    const std::int64_t row = static_cast<std::int64_t>(e) * r.capacity;
    const std::int64_t matrix = static_cast<std::int64_t>(e) * out * in;
    return {.x = x + row * in,
            .weight = weight + matrix,
            .y = tensor(y + row * out, r.capacity, out),
            .dy = dy + row * out,
            .dx = tensor(dx + row * in, r.capacity, in),
            .d_weight = d_weight + matrix,
            .rows = r.capacity,
            .in = in,
            .out = out,
            .valid_rows = r.count + e};
  }
};

void enqueue_vjp(const std::vector<Linear>& layers, gpu::StreamHandle stream) {
  for (const Linear& linear : layers) {
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
  for (int e = 0; e < args.routing.experts; ++e) {
    up_.emplace_back(up.of_expert(e, args.routing), device);
    down_.emplace_back(down.of_expert(e, args.routing), device);
  }
}

void Experts::forward(const Queue& queue) const {
  const Routing& r = args_.routing;
  const long long rows = static_cast<long long>(r.experts) * r.capacity;
  queue.part("gather, combine", [&] {
    gpu::launch("moe_gather", row_grid(queue, rows), queue.stream, gather_kernel, args_);
  });
  queue.part("experts forward", [&] {
    for (const Linear& linear : up_) linear.forward(queue.stream);
  });
  queue.part("gelu", [&] {
    gpu::launch("moe_gelu", row_grid(queue, rows), queue.stream, gelu_kernel, args_);
  });
  queue.part("experts forward", [&] {
    for (const Linear& linear : down_) linear.forward(queue.stream);
  });
  queue.part("gather, combine", [&] {
    gpu::launch("moe_combine", row_grid(queue, r.tokens), queue.stream, combine_kernel, args_);
  });
}

void Experts::vjp(const Queue& queue) const {
  const Routing& r = args_.routing;
  const long long rows = static_cast<long long>(r.experts) * r.capacity;
  queue.part("gather, combine VJP", [&] {
    gpu::launch("moe_combine_vjp", row_grid(queue, rows), queue.stream, combine_vjp_kernel, args_);
  });
  queue.part("experts VJP", [&] { enqueue_vjp(down_, queue.stream); });
  queue.part("gelu VJP", [&] {
    gpu::launch("moe_gelu_vjp", row_grid(queue, rows), queue.stream, gelu_vjp_kernel, args_);
  });
  queue.part("experts VJP", [&] { enqueue_vjp(up_, queue.stream); });
}

}  // namespace rungs::training::layers
