// The router and its VJP.
//
// What:   p = softmax(x·Wᵀ), the top_k largest, gates renormalised; slots in token order; the
//         load-balance loss experts·Σ f_e·P_e with f_e the share of assignments and P_e the mean
//         probability of expert e.
// New:    counts and slots stay on the device, so that no launch after this one depends on the
//         host.
// Layout: Routing in routing.hpp.
// Cost:   2·tokens·experts·width FLOPs; slots: an expert's thread reads all tokens·top_k choices.
// Source: Fedus et al., "Switch Transformers", 2021 (loss); Lepikhin et al., "GShard", 2020 (top-2
//         gates).

#include "router.hpp"

#include <rungs/gpu/lanes_device.hpp>

#include <cmath>

#include "tally_device.hpp"

namespace rungs::moe {
namespace {

RUNGS_KERNEL(gpu::kRowThreads) router_choose_kernel(RouterForward a) {
  const Routing& r = a.routing;
  for (int token = gpu::first_index(); token < r.tokens; token += gpu::index_step()) {
    const bf16* x = a.x + static_cast<std::int64_t>(token) * a.width;
    float* p = r.probabilities + static_cast<std::int64_t>(token) * r.experts;
    // 1. Logits, and their softmax.
    float largest = 0.0f;
    for (int e = 0; e < r.experts; ++e) {
      const float* weight = a.weight + static_cast<std::int64_t>(e) * a.width;
      gpu::LaneSums sum;
      for (int c = 0; c < a.width; c += gpu::kLanes)
        for (int l = 0; l < gpu::kLanes; ++l) sum.lane[l] += to_float(x[c + l]) * weight[c + l];
      p[e] = sum.total();
      largest = e == 0 || p[e] > largest ? p[e] : largest;
    }
    float total = 0.0f;
    for (int e = 0; e < r.experts; ++e) {
      p[e] = expf(p[e] - largest);
      total += p[e];
    }
    for (int e = 0; e < r.experts; ++e) p[e] /= total;
    // 2. The top_k largest, one after the other. With NaN no comparison holds: the candidate stays
    //    the first free expert, indices stay legal, and the loss shows the NaN.
    std::int32_t* expert = r.expert + static_cast<std::int64_t>(token) * r.top_k;
    float* gate = r.gate + static_cast<std::int64_t>(token) * r.top_k;
    std::uint64_t taken = 0;
    float chosen = 0.0f;
    for (int j = 0; j < r.top_k; ++j) {
      int best = -1;
      for (int e = 0; e < r.experts; ++e) {
        if ((taken >> e & 1u) != 0) continue;
        if (best < 0 || p[e] > p[best]) best = e;
      }
      taken |= std::uint64_t{1} << best;
      expert[j] = best;
      gate[j] = p[best];
      chosen += p[best];
    }
    // 3. Renormalised: the combination of the experts is an average.
    for (int j = 0; j < r.top_k; ++j) gate[j] /= chosen;
  }
}

// A thread an expert walks the assignments in order: the slot of each is the number of earlier
// ones, as long as the block has room.
RUNGS_KERNEL(gpu::kRowThreads) router_slots_kernel(RouterForward a) {
  const Routing& r = a.routing;
  for (int e = gpu::first_index(); e < r.experts; e += gpu::index_step()) {
    std::int32_t* assignment = r.assignment + static_cast<std::int64_t>(e) * r.capacity;
    std::int32_t chosen = 0;
    for (int i = 0; i < r.tokens * r.top_k; ++i) {
      if (r.expert[i] != e) continue;
      const bool fits = chosen < r.capacity;
      r.slot[i] = fits ? chosen : -1;
      if (fits) assignment[chosen] = i;
      ++chosen;
    }
    r.count[e] = chosen < r.capacity ? chosen : r.capacity;
    r.dropped[e] = chosen - r.count[e];
    float sum = 0.0f;
    for (int token = 0; token < r.tokens; ++token) sum += r.probabilities[token * r.experts + e];
    r.tally->chosen[e] = chosen;
    r.tally->probability_sum[e] = sum;
    if (e == 0) r.tally->tokens = r.tokens;
  }
}

RUNGS_KERNEL(gpu::kRowThreads) add_tallies_kernel(const Tally* tallies, int ranks, Routing r) {
  for (int e = gpu::first_index(); e < r.experts; e += gpu::index_step())
    add_tallies_of_expert(tallies, ranks, e, r);
}

RUNGS_DEVICE float d_gate_of(const RouterVjp& a, std::int32_t expert, std::int32_t slot) {
  return slot < 0 ? 0.0f : a.d_gate[expert * a.routing.capacity + slot];
}

RUNGS_KERNEL(gpu::kRowThreads) router_vjp_kernel(RouterVjp a) {
  const Routing& r = a.routing;
  const float assignments = static_cast<float>(r.total->tokens * r.top_k);
  const float aux =
      a.aux_weight * static_cast<float>(r.experts) / static_cast<float>(r.total->tokens);
  for (int token = gpu::first_index(); token < r.tokens; token += gpu::index_step()) {
    const std::int32_t* expert = r.expert + static_cast<std::int64_t>(token) * r.top_k;
    const std::int32_t* slot = r.slot + static_cast<std::int64_t>(token) * r.top_k;
    const float* gate = r.gate + static_cast<std::int64_t>(token) * r.top_k;
    const float* p = r.probabilities + static_cast<std::int64_t>(token) * r.experts;
    float* d_logits = a.d_logits + static_cast<std::int64_t>(token) * r.experts;
    float* dx = a.dx + static_cast<std::int64_t>(token) * a.width;
    // 1. The load-balance loss reaches every probability: aux·f_e. The shares f_e are counts, not
    // differentiable.
    for (int e = 0; e < r.experts; ++e)
      d_logits[e] = aux * (static_cast<float>(r.total->chosen[e]) / assignments);
    // 2. The gates g_j = p_j / S reach the chosen ones: dp_j = (dg_j − Σ dg·g) / S. The gate of a
    // dropped assignment reaches nothing but the other gates.
    float mean = 0.0f;
    float chosen = 0.0f;
    for (int j = 0; j < r.top_k; ++j) {
      mean += d_gate_of(a, expert[j], slot[j]) * gate[j];
      chosen += p[expert[j]];
    }
    for (int j = 0; j < r.top_k; ++j)
      d_logits[expert[j]] += (d_gate_of(a, expert[j], slot[j]) - mean) / chosen;
    // 3. Softmax: dz = p·(dp − Σ p·dp).
    float dot = 0.0f;
    for (int e = 0; e < r.experts; ++e) dot += p[e] * d_logits[e];
    for (int e = 0; e < r.experts; ++e) d_logits[e] = p[e] * (d_logits[e] - dot);
    // 4. The token's gradient: through the logits, then through each expert it visited, in the
    // order of choice.
    for (int c = 0; c < a.width; ++c) dx[c] = 0.0f;
    for (int e = 0; e < r.experts; ++e) {
      const float* weight = a.weight + static_cast<std::int64_t>(e) * a.width;
      const float d = d_logits[e];
      for (int c = 0; c < a.width; ++c) dx[c] += d * weight[c];
    }
    for (int j = 0; j < r.top_k; ++j) {
      if (slot[j] < 0) continue;
      const float* row =
          a.d_rows + (static_cast<std::int64_t>(expert[j]) * r.capacity + slot[j]) * a.width;
      for (int c = 0; c < a.width; ++c) dx[c] += row[c];
    }
  }
}

// dW = d_logitsᵀ·x: a thread sums kLanes columns of one expert's row over all tokens, in order.
RUNGS_KERNEL(gpu::kElementThreads) router_weight_kernel(RouterVjp a) {
  const Routing& r = a.routing;
  const int column_groups = a.width / gpu::kLanes;
  for (int item = gpu::first_index(); item < r.experts * column_groups; item += gpu::index_step()) {
    const int e = item / column_groups;
    const int column = item % column_groups * gpu::kLanes;
    gpu::LaneSums sum;
    for (int token = 0; token < r.tokens; ++token) {
      const float d = a.d_logits[token * r.experts + e];
      const bf16* x = a.x + static_cast<std::int64_t>(token) * a.width + column;
      for (int l = 0; l < gpu::kLanes; ++l) sum.lane[l] += d * to_float(x[l]);
    }
    float* out = a.d_weight + static_cast<std::int64_t>(e) * a.width + column;
    for (int l = 0; l < gpu::kLanes; ++l) out[l] = sum.lane[l];
  }
}

}  // namespace

void router_forward(const RouterForward& args, const gpu::Queue& queue) {
  gpu::launch("router_choose", gpu::row_grid(queue, args.routing.tokens), queue.stream,
              router_choose_kernel, args);
  gpu::launch("router_slots", gpu::row_grid(queue, args.routing.experts), queue.stream,
              router_slots_kernel, args);
}

void add_tallies(const Tally* tallies, int ranks, const Routing& routing, const gpu::Queue& queue) {
  gpu::launch("moe_add_tallies", gpu::row_grid(queue, routing.experts), queue.stream,
              add_tallies_kernel, tallies, ranks, routing);
}

void router_vjp(const RouterVjp& args, const gpu::Queue& queue) {
  gpu::launch("router_vjp", gpu::row_grid(queue, args.routing.tokens), queue.stream,
              router_vjp_kernel, args);
  gpu::launch("router_weight_vjp",
              gpu::element_grid(queue, static_cast<long long>(args.routing.experts) * args.width),
              queue.stream, router_weight_kernel, args);
}

}  // namespace rungs::moe
