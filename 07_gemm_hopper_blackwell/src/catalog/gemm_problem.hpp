#pragma once
/// @file gemm_problem.hpp
/// One product with its inputs, its oracle and its error bound: what the harness and the tests run
/// the ladder on.

#include <rungs/core/dtype.hpp>
#include <rungs/gemm/gemm.hpp>
#include <rungs/gpu/buffer.hpp>
#include <rungs/ladder/build.hpp>
#include <rungs/testing/poison.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rungs::gemm {

/// What the harness or a test asks for.
struct GemmShape {
  int m = 0;
  int n = 0;
  int k = 0;
  bool a_m_major = false;  ///< A lies as [K, M]
  bool b_n_major = false;  ///< B lies as [K, N]
  DType c_dtype = DType::kF32;
  float beta = 0;
  /// Elements between the end of a line and the next line of A and B, beyond rounding up to 8 (16
  /// bytes).
  int ab_pad = 0;
  bool dense =
      false;  ///< no rounding and no pad: lines follow each other, whatever TMA thinks of it
  int c_pad = 0;
  std::optional<int> valid_rows;
  std::optional<int> valid_depth;
  /// Small integers instead of normal values: every partial sum is exact, so every rung must be.
  bool integers = false;
};

/// "512x256x256, A^T, beta 0.5, bf16"
std::string to_string(const GemmShape& shape);

/// Buffers and oracle of one product. Padding, rows of A past valid_rows and depth past
/// valid_depth's tile are NaN on the device, C is NaN where beta is 0.
class GemmProblem final : public ladder::Problem<Args> {
 public:
  GemmProblem(const GemmShape& shape, const gpu::Device& device, std::uint64_t seed);
  Args args() override;
  void reset() override;
  /// All of C [M, N], without row padding.
  std::vector<float> output() override;
  /// Every element up to 2^28 multiply-adds, else a fixed-seed sample of them.
  ladder::Reference reference() override;
  double bound(std::size_t element) override;
  std::string describe(std::size_t element) override;

  /// Empty, or which element outside C's live part (padding, guards, rows past valid_rows) was
  /// written.
  [[nodiscard]] std::string stray_write();
  /// Sets the device-side counts; valid only if the shape had them.
  void set_valid_rows(int rows);
  void set_valid_depth(int depth);

 private:
  struct Operand {
    std::vector<bf16> host;     ///< dense, [extent, depth], what the oracle sees
    gpu::Buffer<bf16> device;   ///< as laid out
    std::vector<double> norms;  ///< Euclidean, of every row of [extent, depth]
    std::int64_t pitch = 0;
  };
  Operand make_operand(int extent, bool mn_major, int live_extent, std::uint64_t seed) const;
  [[nodiscard]] double exact(std::size_t row, std::size_t col) const;
  [[nodiscard]] int live_rows() const;
  [[nodiscard]] int live_depth() const;
  [[nodiscard]] std::vector<float> download_c() const;

  GemmShape shape_;
  const gpu::Device device_;
  Operand a_;
  Operand b_;
  std::int64_t c_pitch_ = 0;
  std::vector<float> old_c_;  ///< [M, N], exact in C's dtype
  std::optional<testing::GuardedBuffer<float>> c_f32_;
  std::optional<testing::GuardedBuffer<bf16>> c_bf16_;
  std::vector<double> exact_;  ///< of every live element, once reference() has computed them all
  gpu::Buffer<std::int32_t> valid_rows_;
  gpu::Buffer<std::int32_t> valid_depth_;
};

}  // namespace rungs::gemm
