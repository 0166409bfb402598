#pragma once
/// @file linear.hpp
/// A linear layer without bias: y = x·Wᵀ. Its VJP is two more GEMMs over the same memory, seen
/// transposed.

#include <rungs/core/dtype.hpp>
#include <rungs/core/tensor.hpp>
#include <rungs/gemm/gemm.hpp>
#include <rungs/gpu/device.hpp>

#include <cstdint>

namespace rungs::gemm {

/// One layer; all device memory, row-major.
struct LinearArgs {
  const bf16* x;       ///< [rows, in]
  const bf16* weight;  ///< [out, in]
  /// f32 or bf16, [rows, out]; with `accumulate` y += x·Wᵀ (f32 only): how a residual is added
  Tensor<2> y;
  bool accumulate = false;
  const bf16* dy = nullptr;   ///< [rows, out]
  Tensor<2> dx{};             ///< f32 or bf16, [rows, in], overwritten
  float* d_weight = nullptr;  ///< [out, in], overwritten
  int rows = 0;
  int in = 0;
  int out = 0;
  /// device or null: only this many rows are in use. x and dy must then be zero from there to the
  /// next multiple of 64 rows.
  const std::int32_t* valid_rows = nullptr;
};

/// Three plans made once: tensor maps and tile choice are no work of a step.
class Linear {
 public:
  /// @throws Error kInvalidArgument as Plan does
  Linear(const LinearArgs& args, const gpu::Device& device);
  /// y = x·Wᵀ, [rows, out].
  void forward(gpu::StreamHandle stream) const { forward_.run(stream); }
  /// dx = dy·W, [rows, in]: depth is `out`, W is read N-major.
  void input_vjp(gpu::StreamHandle stream) const { input_.run(stream); }
  /// dW = dyᵀ·x, [out, in]: depth is `rows`, both operands are read transposed.
  void weight_vjp(gpu::StreamHandle stream) const { weight_.run(stream); }

 private:
  Plan forward_;
  Plan input_;
  Plan weight_;
};

}  // namespace rungs::gemm
