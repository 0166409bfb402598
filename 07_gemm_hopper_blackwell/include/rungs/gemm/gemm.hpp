#pragma once
/// @file gemm.hpp
/// C = A·Bᵀ + beta·C in bf16 with fp32 accumulation, and its ladder.

#include <rungs/config.hpp>
#include <rungs/core/tensor.hpp>
#include <rungs/gpu/device.hpp>
#include <rungs/ladder/rung.hpp>

#include <array>
#include <cstdint>
#include <memory>

namespace rungs::gemm {

/// One product. Transposed operands are said by strides: `view.transposed()`.
struct Args {
  /// device, [M, K] bf16; one of the two strides is 1 (K-major or M-major)
  ConstTensor<2> a;
  /// device, [N, K] bf16; one of the two strides is 1 (K-major or N-major)
  ConstTensor<2> b;
  /// device, [M, N] f32 or bf16, row-major with any row stride >= N; must not overlap a or b
  Tensor<2> c;
  /// C's old contents times beta are added; with beta 0 they are not read, so NaN in them does not
  /// spread
  float beta = 0.0f;
  /// device int32 or null: only rows [0, *valid_rows) of A are read and of C are written. Read when
  /// the kernel runs, so a captured graph follows the count. Values are clamped to [0, M].
  const std::int32_t* valid_rows = nullptr;
  /// device int32 or null: only the first *valid_depth of K are summed, clamped to [0, K]. The
  /// caller keeps elements of A and B from *valid_depth up to the next multiple of 64 at zero (a
  /// tile is read whole).
  const std::int32_t* valid_depth = nullptr;
};

/// A product made ready for repeated runs: checks, tensor maps and tile choice are done once.
class Plan {
 public:
  /// Uses the fastest rung that supports the call.
  /// @throws Error kInvalidArgument naming the dimension, stride or dtype that is wrong
  Plan(const Args& args, const gpu::Device& device);
  /// Enqueues C = A·Bᵀ + beta·C. Capturable. @note same bits every run for the same inputs
  void run(gpu::StreamHandle stream) const;
  [[nodiscard]] std::string_view rung() const noexcept { return rung_; }

 private:
  std::string_view rung_;
  std::unique_ptr<ladder::Prepared> prepared_;
};

/// One call: Plan(args, current device).run(stream).
void multiply(const Args& args, gpu::StreamHandle stream);

namespace detail {
ladder::Support supports_any(const Args&, const ladder::Machine&);
ladder::Support supports_sm90_tma(const Args&, const ladder::Machine&);
std::unique_ptr<ladder::Prepared> prepare_naive(const Args&, const ladder::Machine&);
std::unique_ptr<ladder::Prepared> prepare_tiled(const Args&, const ladder::Machine&);
std::unique_ptr<ladder::Prepared> prepare_tma_wgmma(const Args&, const ladder::Machine&);
}  // namespace detail

/// The ladder, naive first. Tests, benches and the CLI iterate it.
inline constexpr std::array<ladder::Rung<Args>, 3> kLadder{{
    {"naive", "one thread an element of C", &detail::supports_any, &detail::prepare_naive},
    {"tiled", "a block stages tiles of A and B in shared memory", &detail::supports_any,
     &detail::prepare_tiled},
    {"tma_wgmma", "one warpgroup feeds a TMA ring, the others run tensor-core wgmma",
     &detail::supports_sm90_tma, &detail::prepare_tma_wgmma},
}};

}  // namespace rungs::gemm
