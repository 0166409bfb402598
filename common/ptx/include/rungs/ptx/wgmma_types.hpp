#pragma once
/// @file wgmma_types.hpp
/// Which multiplications wgmma.mma_async has (PTX ISA, "Asynchronous Warpgroup Level Matrix
/// Multiply-Accumulate": shapes, types, register fragments).
///
///     D             A, B                               K    N
///     float         bf16, bf16     f16, f16            16   8, 16, 24 ... 256
///     float         tf32, tf32                          8
///     float         f8e4m3 or f8e5m2, each             32
///     f16           f16, f16                           16
///     f16           f8e4m3 or f8e5m2, each             32
///     std::int32_t  std::int8_t or std::uint8_t, each  32   8, 16, 24, 32, 48, 64, 80 ... 256
///
/// K is 32 bytes of A, whatever the type.

#include <rungs/core/dtype.hpp>
#include <rungs/ptx/where.hpp>

#include <cstddef>
#include <type_traits>

namespace rungs::ptx {

/// An f32 in memory or a register of which a tensor core reads sign, exponent and the upper 10
/// mantissa bits: it ignores the lower 13.
struct tf32 {
  std::uint32_t bits;
};

/// The immediates of a multiplication: a sum of the following. (No enumeration: nvcc 13.0 fails on
/// kernel templates over a sum of its values.)
using WgmmaModifiers = unsigned;
/// The operand's contiguous dimension in shared memory is M (or N) instead of K. bf16 and f16 only.
constexpr WgmmaModifiers kWgmmaTransposeA = 1;
constexpr WgmmaModifiers kWgmmaTransposeB = 2;
/// The operand's elements are negated. Not for integers.
constexpr WgmmaModifiers kWgmmaNegateA = 4;
constexpr WgmmaModifiers kWgmmaNegateB = 8;
/// The sum stops at the ends of the range instead of wrapping around. Integers only.
constexpr WgmmaModifiers kWgmmaSatfinite = 16;

/// K of one multiplication.
template <class A>
constexpr int kWgmmaDepth = static_cast<int>(32 / sizeof(A));

/// One register of D: a float or an int32 each, or two f16, the one with the lower index below.
template <class D>
using WgmmaRegister = std::conditional_t<std::is_same_v<D, f16>, std::uint32_t, D>;
/// How many of them a thread holds.
template <int N, class D>
constexpr int kWgmmaRegisters = std::is_same_v<D, f16> ? N / 4 : N / 2;

namespace detail {

template <class T>
constexpr bool kIsF8 = std::is_same_v<T, f8e4m3> || std::is_same_v<T, f8e5m2>;
template <class T>
constexpr bool kIsInteger8 = std::is_same_v<T, std::int8_t> || std::is_same_v<T, std::uint8_t>;
template <class T>
constexpr bool kIsHalf = std::is_same_v<T, bf16> || std::is_same_v<T, f16>;

/// Whether wgmma has these types.
template <class D, class A, class B>
RUNGS_HD constexpr bool wgmma_has_types() {
  const bool equal = std::is_same_v<A, B>, both_f8 = kIsF8<A> && kIsF8<B>;
  if (std::is_same_v<D, float>)
    return (equal && (kIsHalf<A> || std::is_same_v<A, tf32>)) || both_f8;
  if (std::is_same_v<D, f16>) return (equal && std::is_same_v<A, f16>) || both_f8;
  return std::is_same_v<D, std::int32_t> && kIsInteger8<A> && kIsInteger8<B>;
}

/// Whether wgmma has this N for accumulators of that type.
template <class D>
RUNGS_HD constexpr bool wgmma_has_width(int n) {
  if (n < 8 || n > 256 || n % 8 != 0) return false;
  return !std::is_same_v<D, std::int32_t> || n % 16 == 0 || n <= 24;
}

/// Whether wgmma has these modifiers for operands of that type.
template <class A>
RUNGS_HD constexpr bool wgmma_has_modifiers(WgmmaModifiers m) {
  constexpr WgmmaModifiers kSigns = kWgmmaNegateA | kWgmmaNegateB;
  constexpr WgmmaModifiers kTranspositions = kWgmmaTransposeA | kWgmmaTransposeB;
  const WgmmaModifiers legal = kIsInteger8<A> ? kWgmmaSatfinite
                               : kIsHalf<A>   ? kSigns | kTranspositions
                                              : kSigns;
  return (m & ~legal) == 0;
}

/// True; does not compile for a multiplication that wgmma has not.
template <int N, class D, class A, class B, WgmmaModifiers M>
RUNGS_HD constexpr bool wgmma_exists() {
  static_assert(wgmma_has_types<D, A, B>(), "wgmma has no multiplication of these types");
  static_assert(wgmma_has_width<D>(N), "wgmma has no such N for this type of accumulators");
  static_assert(wgmma_has_modifiers<A>(M), "wgmma has no such modifiers for these operands");
  return true;
}

}  // namespace detail
}  // namespace rungs::ptx
