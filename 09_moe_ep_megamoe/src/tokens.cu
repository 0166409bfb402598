// Gather, combine and the VJP of combine.
//
// What:   the data movement between tokens in their order and rows in blocks by expert.
// New:    nothing is sorted: a token's rows are known from Routing, each row knows its token by
//         Routing::assignment, and the sum over a token's experts runs in the order of choice.
// Layout: blocks [experts, capacity, ·]; rows behind those in use as TokensArgs::padding says.
// Cost:   gather 4·tokens·top_k·width bytes, combine 4·tokens·(top_k + 2)·width, its VJP
//         10·tokens·top_k·width.

#include "tokens.hpp"

#include <rungs/gpu/lanes_device.hpp>

namespace rungs::moe {
namespace {

// Rows of expert e that are used or padding.
RUNGS_DEVICE int written_rows(const TokensArgs& a, int e) {
  const int count = a.routing.count[e];
  if (a.padding == Padding::kNone) return count;
  if (a.padding == Padding::kBlock) return a.routing.capacity;
  return (count + kPadRows - 1) / kPadRows * kPadRows;
}

// Kernels over [experts, capacity] rows: item → (expert, row).
RUNGS_KERNEL(gpu::kRowThreads) gather_kernel(TokensArgs a) {
  const Routing& r = a.routing;
  for (int item = gpu::first_index(); item < r.experts * r.capacity; item += gpu::index_step()) {
    const int e = item / r.capacity;
    const int row = item % r.capacity;
    if (row >= written_rows(a, e)) continue;
    bf16* to = a.rows + static_cast<std::int64_t>(item) * a.width;
    if (row >= r.count[e]) {
      for (int c = 0; c < a.width; ++c) to[c] = bf16{0};
      continue;
    }
    const bf16* from = a.x + static_cast<std::int64_t>(r.assignment[item] / r.top_k) * a.width;
    for (int c = 0; c < a.width; ++c) to[c] = from[c];
  }
}

RUNGS_KERNEL(gpu::kRowThreads) combine_kernel(TokensArgs a) {
  const Routing& r = a.routing;
  for (int token = gpu::first_index(); token < r.tokens; token += gpu::index_step()) {
    float* residual = a.residual + static_cast<std::int64_t>(token) * a.width;
    for (int j = 0; j < r.top_k; ++j) {
      const int i = token * r.top_k + j;
      if (r.slot[i] < 0) continue;  // dropped: the residual stream passes it by
      const float gate = r.gate[i];
      const float* output =
          a.outputs + (static_cast<std::int64_t>(r.expert[i]) * r.capacity + r.slot[i]) * a.width;
      for (int c = 0; c < a.width; ++c) residual[c] += gate * output[c];
    }
  }
}

// A row of an expert's output has one reader, its token: d_output = gate·d_residual, d_gate =
// output·d_residual.
RUNGS_KERNEL(gpu::kRowThreads) combine_vjp_kernel(TokensArgs a) {
  const Routing& r = a.routing;
  for (int item = gpu::first_index(); item < r.experts * r.capacity; item += gpu::index_step()) {
    const int e = item / r.capacity;
    const int row = item % r.capacity;
    if (row >= written_rows(a, e)) continue;
    bf16* d_output = a.d_outputs + static_cast<std::int64_t>(item) * a.width;
    if (row >= r.count[e]) {
      for (int c = 0; c < a.width; ++c) d_output[c] = bf16{0};
      continue;
    }
    const int i = r.assignment[item];
    const float gate = r.gate[i];
    const float* d = a.d_residual + static_cast<std::int64_t>(i / r.top_k) * a.width;
    const float* output = a.outputs + static_cast<std::int64_t>(item) * a.width;
    gpu::LaneSums dot;
    for (int c = 0; c < a.width; c += gpu::kLanes)
      for (int l = 0; l < gpu::kLanes; ++l) {
        dot.lane[l] += output[c + l] * d[c + l];
        d_output[c + l] = to_bf16(gate * d[c + l]);
      }
    a.d_gate[item] = dot.total();
  }
}

gpu::LaunchConfig block_rows(const TokensArgs& args, const gpu::Queue& queue) {
  return gpu::row_grid(queue, static_cast<long long>(args.routing.experts) * args.routing.capacity);
}

}  // namespace

void gather(const TokensArgs& args, const gpu::Queue& queue) {
  gpu::launch("moe_gather", block_rows(args, queue), queue.stream, gather_kernel, args);
}

void combine(const TokensArgs& args, const gpu::Queue& queue) {
  gpu::launch("moe_combine", gpu::row_grid(queue, args.routing.tokens), queue.stream,
              combine_kernel, args);
}

void combine_vjp(const TokensArgs& args, const gpu::Queue& queue) {
  gpu::launch("moe_combine_vjp", block_rows(args, queue), queue.stream, combine_vjp_kernel, args);
}

}  // namespace rungs::moe
