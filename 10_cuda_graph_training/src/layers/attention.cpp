#include "layers/attention.hpp"

namespace rungs::training::layers {
namespace {

// Part 0, 1 or 2 (q, k, v) of a packed projection, without copying it.
template <class T>
auto part_of(T* packed, int part, const SelfAttentionArgs& a) {
  const int width = a.heads * a.head_dim;
  auto view = tensor(packed + static_cast<std::int64_t>(part) * width, a.batch, a.context, a.heads,
                     a.head_dim);
  view.strides = {3ll * width * a.context, 3ll * width, a.head_dim, 1};
  return view;
}

attention::ForwardArgs forward_args(const SelfAttentionArgs& a) {
  return {.q = part_of(a.qkv, 0, a),
          .k = part_of(a.qkv, 1, a),
          .v = part_of(a.qkv, 2, a),
          .o = tensor(a.out, a.batch, a.context, a.heads, a.head_dim),
          .lse = tensor(a.lse, a.batch, a.heads, a.context),
          .causal = true};
}

attention::BackwardArgs backward_args(const SelfAttentionArgs& a) {
  const bf16* out = a.out;
  const float* lse = a.lse;
  return {.q = part_of(a.qkv, 0, a),
          .k = part_of(a.qkv, 1, a),
          .v = part_of(a.qkv, 2, a),
          .o = tensor(out, a.batch, a.context, a.heads, a.head_dim),
          .d_o = tensor(a.d_out, a.batch, a.context, a.heads, a.head_dim),
          .lse = tensor(lse, a.batch, a.heads, a.context),
          .dq = part_of(a.d_qkv, 0, a),
          .dk = part_of(a.d_qkv, 1, a),
          .dv = part_of(a.d_qkv, 2, a),
          .causal = true};
}

}  // namespace

SelfAttention::SelfAttention(const SelfAttentionArgs& args, const gpu::Device& device)
    : forward_(forward_args(args), device),
      backward_(backward_args(args), device) {}

}  // namespace rungs::training::layers
