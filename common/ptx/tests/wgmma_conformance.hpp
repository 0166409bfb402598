#pragma once
/// @file wgmma_conformance.hpp
/// Kernels of the conformance suite for wgmma, one a form of the instruction.

#include <rungs/gpu/launch.hpp>
#include <rungs/gpu/tensor_map.hpp>

#include <cstdint>
#include <vector>

namespace rungs::ptx::test {

/// Element types as the test knows them.
enum class Element : std::uint8_t { kF32, kF16, kBf16, kTf32, kE4m3, kE5m2, kS32, kS8, kU8 };

constexpr std::uint32_t kWgmmaImageBytes = 32 * 1024;
constexpr int kMaxWgmmaSteps = 4;

/// A chain of multiplications, of 32 bytes of K each, on operands whose images are given.
struct WgmmaChain {
  int steps;
  bool accumulate_first;
  std::uint32_t a_leading, a_stride, a_advance;  // bytes
  std::uint32_t b_leading, b_stride, b_advance;
  gpu::Swizzle swizzle_a, swizzle_b;
};

/// One form of wgmma.mma_async and the kernel that runs chains of it.
struct WgmmaForm {
  int n;
  Element d, a, b;
  bool transpose_a, transpose_b, negate_a, negate_b, satfinite;
  bool a_in_registers;
  /// @param a the image of A in shared memory, [kWgmmaImageBytes / 4], or if A is in registers
  ///          [steps][128 threads][4 registers]
  /// @param d the accumulator registers, C on entry and D afterwards: [registers][128 threads]
  void (*launch)(gpu::StreamHandle stream, const WgmmaChain& chain, const std::uint32_t* a,
                 const std::uint32_t* b, std::uint32_t* d);
};

/// wgmma_float_kernels_sm90.cu: f32 accumulators
std::vector<WgmmaForm> float_forms();
/// wgmma_narrow_kernels_sm90.cu: f16 and s32 accumulators
std::vector<WgmmaForm> narrow_forms();

/// wgmma_float_kernels_sm90.cu: d[64][64] = (A B) C of bf16, the product A B rounded to bf16 in
/// registers. A[64, 16] and B[16, 64] are K-major with 32-byte swizzle, C[64, 64] is N-major with
/// 128-byte swizzle.
void launch_chained(gpu::StreamHandle stream, std::uint32_t c_leading, std::uint32_t c_stride,
                    std::uint32_t c_advance, const std::uint32_t* a, const std::uint32_t* b,
                    const std::uint32_t* c, float* d);

/// wgmma_widths_sm90.cu: kernels that hold every form; not for launching.
std::vector<const void*> every_wgmma();

}  // namespace rungs::ptx::test
