#pragma once
/// @file convert.hpp
/// Conversions of two floats at a time (PTX ISA, "Data Movement and Conversion Instructions: cvt"),
/// tf32, and the approximate functions of the special-function unit. Any thread; registers only.
///
/// `low` goes to the lower half of the result, that is, to the lower address when it is stored.
/// (The PTX operands stand the other way round.)

#include <rungs/ptx/where.hpp>

#include <cmath>
#include <cstring>

namespace rungs::ptx {

/// Two bf16 in 32 bits, rounded to nearest even; a NaN becomes 0x7fff. PTX: cvt.rn.bf16x2.f32.
RUNGS_DEVICE std::uint32_t cvt_bf16x2(float low, float high) {
#if RUNGS_GPU_CUDA
  std::uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
#else
  return to_bf16(low).bits | std::uint32_t{to_bf16(high).bits} << 16;
#endif
}

/// Two f16 in 32 bits, rounded to nearest even, too large ones to infinity; a NaN becomes 0x7fff.
/// PTX: cvt.rn.f16x2.f32.
RUNGS_DEVICE std::uint32_t cvt_f16x2(float low, float high) {
#if RUNGS_GPU_CUDA
  std::uint32_t packed;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
#else
  return to_f16(low).bits | std::uint32_t{to_f16(high).bits} << 16;
#endif
}

/// Two f8e4m3 in 16 bits, rounded to nearest even; what is too large becomes 448 with its sign, a
/// NaN 0x7f. Needs sm_89. PTX: cvt.rn.satfinite.e4m3x2.f32.
RUNGS_DEVICE std::uint16_t cvt_f8e4m3x2(float low, float high) {
#if RUNGS_GPU_CUDA
  std::uint16_t packed;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(packed) : "f"(high), "f"(low));
  return packed;
#else
  return static_cast<std::uint16_t>(to_f8e4m3(low).bits | to_f8e4m3(high).bits << 8);
#endif
}

/// Two f8e5m2 in 16 bits, as cvt_f8e4m3x2(); the largest is 57344. Needs sm_89. PTX:
/// cvt.rn.satfinite.e5m2x2.f32.
RUNGS_DEVICE std::uint16_t cvt_f8e5m2x2(float low, float high) {
#if RUNGS_GPU_CUDA
  std::uint16_t packed;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(packed) : "f"(high), "f"(low));
  return packed;
#else
  return static_cast<std::uint16_t>(to_f8e5m2(low).bits | to_f8e5m2(high).bits << 8);
#endif
}

/// Two f8e4m3 to two f16, exact. Needs sm_89. PTX: cvt.rn.f16x2.e4m3x2.
RUNGS_DEVICE std::uint32_t cvt_f16x2_f8e4m3x2(std::uint16_t packed) {
#if RUNGS_GPU_CUDA
  std::uint32_t halves;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(packed));
  return halves;
#else
  return cvt_f16x2(to_float(f8e4m3{static_cast<std::uint8_t>(packed)}),
                   to_float(f8e4m3{static_cast<std::uint8_t>(packed >> 8)}));
#endif
}

/// Two f8e5m2 to two f16, exact; infinity stays. Needs sm_89. PTX: cvt.rn.f16x2.e5m2x2.
RUNGS_DEVICE std::uint32_t cvt_f16x2_f8e5m2x2(std::uint16_t packed) {
#if RUNGS_GPU_CUDA
  std::uint32_t halves;
  asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(halves) : "h"(packed));
  return halves;
#else
  return cvt_f16x2(to_float(f8e5m2{static_cast<std::uint8_t>(packed)}),
                   to_float(f8e5m2{static_cast<std::uint8_t>(packed >> 8)}));
#endif
}

/// A float rounded to the 19 bits of a tf32, nearest, ties away from zero; the lower 13 bits mean
/// nothing. PTX: cvt.rna.tf32.f32.
RUNGS_DEVICE std::uint32_t cvt_tf32(float value) {
#if RUNGS_GPU_CUDA
  std::uint32_t bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
  return bits;
#else
  std::uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return 0x7fffe000u;
  if (magnitude == 0x7f800000u) return bits;
  return (bits + 0x1000u) & 0xffffe000u;
#endif
}

/// 2^value, relative error at most 2^-21. PTX: ex2.approx.f32.
RUNGS_DEVICE float ex2_approx(float value) {
#if RUNGS_GPU_CUDA
  float result;
  asm("ex2.approx.f32 %0, %1;" : "=f"(result) : "f"(value));
  return result;
#else
  return static_cast<float>(std::exp2(static_cast<double>(value)));
#endif
}

/// 1 / value, relative error at most 2^-22 where the result is normal. PTX: rcp.approx.f32.
RUNGS_DEVICE float rcp_approx(float value) {
#if RUNGS_GPU_CUDA
  float result;
  asm("rcp.approx.f32 %0, %1;" : "=f"(result) : "f"(value));
  return result;
#else
  return 1.0f / value;
#endif
}

/// tanh(value), relative error at most 2^-10. PTX: tanh.approx.f32.
RUNGS_DEVICE float tanh_approx(float value) {
#if RUNGS_GPU_CUDA
  float result;
  asm("tanh.approx.f32 %0, %1;" : "=f"(result) : "f"(value));
  return result;
#else
  return static_cast<float>(std::tanh(static_cast<double>(value)));
#endif
}

}  // namespace rungs::ptx
