#include <rungs/gemm/linear.hpp>

namespace rungs::gemm {
namespace {

// gemm computes C[M, N] = A[M, K]·B[N, K]ᵀ.
Args forward_args(const LinearArgs& a) {
  return {.a = tensor(a.x, a.rows, a.in),
          .b = tensor(a.weight, a.out, a.in),
          .c = a.y,
          .beta = a.accumulate ? 1.0f : 0.0f,
          .valid_rows = a.valid_rows};
}

Args input_args(const LinearArgs& a) {
  return {.a = tensor(a.dy, a.rows, a.out),
          .b = tensor(a.weight, a.out, a.in).transposed(),
          .c = a.dx,
          .valid_rows = a.valid_rows};
}

Args weight_args(const LinearArgs& a) {
  return {.a = tensor(a.dy, a.rows, a.out).transposed(),
          .b = tensor(a.x, a.rows, a.in).transposed(),
          .c = tensor(a.d_weight, a.out, a.in),
          .valid_depth = a.valid_rows};
}

}  // namespace

Linear::Linear(const LinearArgs& args, const gpu::Device& device)
    : forward_(forward_args(args), device),
      input_(input_args(args), device),
      weight_(weight_args(args), device) {}

}  // namespace rungs::gemm
