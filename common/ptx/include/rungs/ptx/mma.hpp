#pragma once
/// @file mma.hpp
/// mma.sync: D = A B + C on fragments in the registers of a warp (PTX ISA, "Warp Level Matrix
/// Multiply-Accumulate Instructions"). A is [16][K], B is [K][8], C and D are [16][8].
///
/// With g = lane / 4, t = lane % 4 and E = elements in a 32-bit register (tf32 1, 16-bit types 2,
/// 8-bit types 4; the first in the lowest bits):
///
///     A     register r, element j: row g + 8 (r % 2), column E t + j + 4 E (r / 2)
///     B     register r, element j: row E t + j + 4 E r, column g
///     C, D  element i: row g + 8 (i / 2), column 2 t + i % 2; f16 ones two to a register
///
/// ldmatrix() loads A from rows of K, and B from rows of K of its transpose ("col").
///
/// Rounding. Products are exact. The order of the additions, and how many bits each keeps, is the
/// hardware's business: with S = |c| + sum |a b| of an element, an f32 result lies within
/// K 2^-22 S of the exact one (K 2^-13 S for 8-bit floats), an f16 result within
/// (4 + K 2^-10) 2^-11 S. Sums of small integers are exact. The emulator rounds once. Subnormals
/// are kept; a NaN becomes the canonical one.
///
/// Executed by the whole warp, aligned; registers only, so no memory order. d and c may be the same
/// array.

#include <rungs/ptx/where.hpp>

#include <cstring>
#include <type_traits>

#if !RUNGS_GPU_CUDA
#include <rungs/emulator/model_warp.hpp>
#endif

namespace rungs::ptx {

#if RUNGS_GPU_CUDA
// The instruction with the registers that its shape has. The operands' names are those of the
// wrappers below.
#define RUNGS_MMA_A2_B1(text, d_kind, c_kind)                                                   \
  asm volatile("mma.sync.aligned." text " {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %8, %9, %10};" \
               : d_kind(d[0]), d_kind(d[1]), d_kind(d[2]), d_kind(d[3])                         \
               : "r"(a[0]), "r"(a[1]), "r"(b[0]), c_kind(c[0]), c_kind(c[1]), c_kind(c[2]),     \
                 c_kind(c[3]))
#define RUNGS_MMA_A4_B2(text, d_kind, c_kind)                                                    \
  asm volatile("mma.sync.aligned." text                                                          \
               " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"            \
               : d_kind(d[0]), d_kind(d[1]), d_kind(d[2]), d_kind(d[3])                          \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), c_kind(c[0]), \
                 c_kind(c[1]), c_kind(c[2]), c_kind(c[3]))
#else
namespace detail {
using emulator::model::MmaShape;
using emulator::model::MmaType;

template <class T>
constexpr MmaType mma_type() {
  return std::is_same_v<T, f8e4m3>         ? MmaType::kE4M3
         : std::is_same_v<T, f8e5m2>       ? MmaType::kE5M2
         : std::is_same_v<T, std::int8_t>  ? MmaType::kS8
         : std::is_same_v<T, std::uint8_t> ? MmaType::kU8
         : std::is_same_v<T, f16>          ? MmaType::kF16
                                           : MmaType::kBf16;
}

// Registers are bits to the model, whatever their C++ type.
template <class T>
void mma(const MmaShape& shape, T (&d)[4], const std::uint32_t* a, const std::uint32_t* b,
         const T (&c)[4], emulator::Location where) {
  std::uint32_t in[4], out[4];
  memcpy(in, c, sizeof(in));
  emulator::model::mma(shape, out, a, b, in, where);
  memcpy(d, out, sizeof(out));
}
}  // namespace detail
#endif

/// bf16, K = 8. PTX: mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32.
RUNGS_DEVICE void mma_m16n8k8_bf16(float (&d)[4], const std::uint32_t (&a)[2],
                                   const std::uint32_t (&b)[1],
                                   const float (&c)[4] RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  RUNGS_MMA_A2_B1("m16n8k8.row.col.f32.bf16.bf16.f32", "=f", "f");
#else
  using enum emulator::model::MmaType;
  detail::mma({8, kBf16, kBf16, kF32}, d, a, b, c, where);
#endif
}

/// bf16, K = 16. PTX: mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32.
RUNGS_DEVICE void mma_m16n8k16_bf16(float (&d)[4], const std::uint32_t (&a)[4],
                                    const std::uint32_t (&b)[2],
                                    const float (&c)[4] RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  RUNGS_MMA_A4_B2("m16n8k16.row.col.f32.bf16.bf16.f32", "=f", "f");
#else
  using enum emulator::model::MmaType;
  detail::mma({16, kBf16, kBf16, kF32}, d, a, b, c, where);
#endif
}

/// f16 with f32 accumulators, K = 8. PTX: mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32.
RUNGS_DEVICE void mma_m16n8k8_f16(float (&d)[4], const std::uint32_t (&a)[2],
                                  const std::uint32_t (&b)[1],
                                  const float (&c)[4] RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  RUNGS_MMA_A2_B1("m16n8k8.row.col.f32.f16.f16.f32", "=f", "f");
#else
  using enum emulator::model::MmaType;
  detail::mma({8, kF16, kF16, kF32}, d, a, b, c, where);
#endif
}

/// f16 with f32 accumulators, K = 16. PTX: mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32.
RUNGS_DEVICE void mma_m16n8k16_f16(float (&d)[4], const std::uint32_t (&a)[4],
                                   const std::uint32_t (&b)[2],
                                   const float (&c)[4] RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  RUNGS_MMA_A4_B2("m16n8k16.row.col.f32.f16.f16.f32", "=f", "f");
#else
  using enum emulator::model::MmaType;
  detail::mma({16, kF16, kF16, kF32}, d, a, b, c, where);
#endif
}

/// f16 with f16 accumulators, K = 8; d and c hold two a register. PTX:
/// mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16.
RUNGS_DEVICE void mma_m16n8k8_f16_f16(std::uint32_t (&d)[2], const std::uint32_t (&a)[2],
                                      const std::uint32_t (&b)[1],
                                      const std::uint32_t (&c)[2] RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3}, {%4}, {%5, %6};"
      : "=r"(d[0]), "=r"(d[1])
      : "r"(a[0]), "r"(a[1]), "r"(b[0]), "r"(c[0]), "r"(c[1]));
#else
  using enum emulator::model::MmaType;
  emulator::model::mma({8, kF16, kF16, kF16}, d, a, b, c, where);
#endif
}

/// f16 with f16 accumulators, K = 16. PTX: mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16.
RUNGS_DEVICE void mma_m16n8k16_f16_f16(std::uint32_t (&d)[2], const std::uint32_t (&a)[4],
                                       const std::uint32_t (&b)[2],
                                       const std::uint32_t (&c)[2] RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, "
      "{%8, %9};"
      : "=r"(d[0]), "=r"(d[1])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(c[0]), "r"(c[1]));
#else
  using enum emulator::model::MmaType;
  emulator::model::mma({16, kF16, kF16, kF16}, d, a, b, c, where);
#endif
}

/// tf32, K = 4: floats of which the upper 19 bits count (cvt_tf32() rounds to them). PTX:
/// mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32.
RUNGS_DEVICE void mma_m16n8k4_tf32(float (&d)[4], const std::uint32_t (&a)[2],
                                   const std::uint32_t (&b)[1],
                                   const float (&c)[4] RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  RUNGS_MMA_A2_B1("m16n8k4.row.col.f32.tf32.tf32.f32", "=f", "f");
#else
  using enum emulator::model::MmaType;
  detail::mma({4, kTf32, kTf32, kF32}, d, a, b, c, where);
#endif
}

/// tf32, K = 8. PTX: mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32.
RUNGS_DEVICE void mma_m16n8k8_tf32(float (&d)[4], const std::uint32_t (&a)[4],
                                   const std::uint32_t (&b)[2],
                                   const float (&c)[4] RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  RUNGS_MMA_A4_B2("m16n8k8.row.col.f32.tf32.tf32.f32", "=f", "f");
#else
  using enum emulator::model::MmaType;
  detail::mma({8, kTf32, kTf32, kF32}, d, a, b, c, where);
#endif
}

/// 8-bit floats, K = 32. Needs sm_89. PTX:
/// mma.sync.aligned.m16n8k32.row.col.f32.{e4m3,e5m2}.{e4m3,e5m2}.f32.
/// @tparam A, B f8e4m3 or f8e5m2
template <class A, class B>
RUNGS_DEVICE void mma_m16n8k32_f8(float (&d)[4], const std::uint32_t (&a)[4],
                                  const std::uint32_t (&b)[2],
                                  const float (&c)[4] RUNGS_AND_WHERE) {
  static_assert(std::is_same_v<A, f8e4m3> || std::is_same_v<A, f8e5m2>);
  static_assert(std::is_same_v<B, f8e4m3> || std::is_same_v<B, f8e5m2>);
#if RUNGS_GPU_CUDA
  if constexpr (std::is_same_v<A, f8e4m3> && std::is_same_v<B, f8e4m3>) {
    RUNGS_MMA_A4_B2("m16n8k32.row.col.f32.e4m3.e4m3.f32", "=f", "f");
  } else if constexpr (std::is_same_v<A, f8e4m3>) {
    RUNGS_MMA_A4_B2("m16n8k32.row.col.f32.e4m3.e5m2.f32", "=f", "f");
  } else if constexpr (std::is_same_v<B, f8e4m3>) {
    RUNGS_MMA_A4_B2("m16n8k32.row.col.f32.e5m2.e4m3.f32", "=f", "f");
  } else {
    RUNGS_MMA_A4_B2("m16n8k32.row.col.f32.e5m2.e5m2.f32", "=f", "f");
  }
#else
  constexpr auto kF32 = emulator::model::MmaType::kF32;
  detail::mma({32, detail::mma_type<A>(), detail::mma_type<B>(), kF32}, d, a, b, c, where);
#endif
}

/// 8-bit integers, K = 16. PTX: mma.sync.aligned.m16n8k16.row.col{.satfinite}.s32.{s8,u8}.{s8,u8}.
/// @tparam A, B std::int8_t or std::uint8_t
/// @tparam Saturate a sum outside the range of an i32 becomes its end; otherwise it wraps. Where
///         partial sums leave the range and come back, the end result depends on the hardware.
template <class A, class B, bool Saturate = false>
RUNGS_DEVICE void mma_m16n8k16_i8(std::int32_t (&d)[4], const std::uint32_t (&a)[2],
                                  const std::uint32_t (&b)[1],
                                  const std::int32_t (&c)[4] RUNGS_AND_WHERE) {
  static_assert(std::is_same_v<A, std::int8_t> || std::is_same_v<A, std::uint8_t>);
  static_assert(std::is_same_v<B, std::int8_t> || std::is_same_v<B, std::uint8_t>);
#if RUNGS_GPU_CUDA
#define RUNGS_MMA_I8(types)                                                     \
  if constexpr (Saturate) {                                                     \
    RUNGS_MMA_A2_B1("m16n8k16.row.col.satfinite.s32." types ".s32", "=r", "r"); \
  } else {                                                                      \
    RUNGS_MMA_A2_B1("m16n8k16.row.col.s32." types ".s32", "=r", "r");           \
  }
  if constexpr (std::is_signed_v<A> && std::is_signed_v<B>) {
    RUNGS_MMA_I8("s8.s8")
  } else if constexpr (std::is_signed_v<A>) {
    RUNGS_MMA_I8("s8.u8")
  } else if constexpr (std::is_signed_v<B>) {
    RUNGS_MMA_I8("u8.s8")
  } else {
    RUNGS_MMA_I8("u8.u8")
  }
#undef RUNGS_MMA_I8
#else
  constexpr auto kS32 = emulator::model::MmaType::kS32;
  detail::mma({16, detail::mma_type<A>(), detail::mma_type<B>(), kS32, Saturate}, d, a, b, c,
              where);
#endif
}

/// 8-bit integers, K = 32, as mma_m16n8k16_i8(). PTX:
/// mma.sync.aligned.m16n8k32.row.col{.satfinite}.s32.{s8,u8}.{s8,u8}.
template <class A, class B, bool Saturate = false>
RUNGS_DEVICE void mma_m16n8k32_i8(std::int32_t (&d)[4], const std::uint32_t (&a)[4],
                                  const std::uint32_t (&b)[2],
                                  const std::int32_t (&c)[4] RUNGS_AND_WHERE) {
  static_assert(std::is_same_v<A, std::int8_t> || std::is_same_v<A, std::uint8_t>);
  static_assert(std::is_same_v<B, std::int8_t> || std::is_same_v<B, std::uint8_t>);
#if RUNGS_GPU_CUDA
#define RUNGS_MMA_I8(types)                                                     \
  if constexpr (Saturate) {                                                     \
    RUNGS_MMA_A4_B2("m16n8k32.row.col.satfinite.s32." types ".s32", "=r", "r"); \
  } else {                                                                      \
    RUNGS_MMA_A4_B2("m16n8k32.row.col.s32." types ".s32", "=r", "r");           \
  }
  if constexpr (std::is_signed_v<A> && std::is_signed_v<B>) {
    RUNGS_MMA_I8("s8.s8")
  } else if constexpr (std::is_signed_v<A>) {
    RUNGS_MMA_I8("s8.u8")
  } else if constexpr (std::is_signed_v<B>) {
    RUNGS_MMA_I8("u8.s8")
  } else {
    RUNGS_MMA_I8("u8.u8")
  }
#undef RUNGS_MMA_I8
#else
  constexpr auto kS32 = emulator::model::MmaType::kS32;
  detail::mma({32, detail::mma_type<A>(), detail::mma_type<B>(), kS32, Saturate}, d, a, b, c,
              where);
#endif
}

#if RUNGS_GPU_CUDA
#undef RUNGS_MMA_A2_B1
#undef RUNGS_MMA_A4_B2
#endif

}  // namespace rungs::ptx
