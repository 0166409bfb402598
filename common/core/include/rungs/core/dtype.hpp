#pragma once
/// @file dtype.hpp
/// Element types. `bf16` and the other small floats are plain bits on both back ends, so no CUDA
/// header is needed.

#include <cstddef>
#include <cstdint>
#include <cstring>

// Function attributes are the one thing that may depend on the compiler in a public header: they do
// not change what a host TU sees.
#if defined(__CUDACC__)
#define RUNGS_HD __host__ __device__ __forceinline__
#else
#define RUNGS_HD inline
#endif

namespace rungs {

/// Numbered like ncclDataType_t, so that values pass through unchanged.
enum class DType : int {
  kI8 = 0,
  kU8 = 1,
  kI32 = 2,
  kU32 = 3,
  kI64 = 4,
  kU64 = 5,
  kF16 = 6,
  kF32 = 7,
  kF64 = 8,
  kBf16 = 9,
  kF8E4M3 = 10,
  kF8E5M2 = 11,
};

/// Bytes of one element; 0 for a value outside the enumeration.
std::size_t size_bytes(DType dtype) noexcept;
/// "bf16", "f32", ...; "unknown" for a value outside the enumeration.
const char* to_string(DType dtype) noexcept;

/// bfloat16: the upper half of an IEEE binary32. Trivially copyable on host and device.
struct bf16 {
  std::uint16_t bits;
};
static_assert(sizeof(bf16) == 2);

/// Exact.
RUNGS_HD float to_float(bf16 value) {
  const std::uint32_t wide = std::uint32_t{value.bits} << 16;
  float result;
  memcpy(&result, &wide, sizeof(result));
  return result;
}

/// Rounds to nearest even; every NaN becomes the quiet NaN 0x7fff.
RUNGS_HD bf16 to_bf16(float value) {
  std::uint32_t wide;
  memcpy(&wide, &value, sizeof(wide));
  if ((wide & 0x7fffffffu) > 0x7f800000u) return bf16{0x7fff};
  return bf16{static_cast<std::uint16_t>((wide + 0x7fffu + ((wide >> 16) & 1u)) >> 16)};
}

/// IEEE binary16. Trivially copyable on host and device, like the 8-bit floats below.
struct f16 {
  std::uint16_t bits;
};
/// 4 exponent and 3 mantissa bits: up to 448, no infinity, NaN is 0x7f or 0xff.
struct f8e4m3 {
  std::uint8_t bits;
};
/// 5 exponent and 2 mantissa bits: the upper half of an f16, up to 57344, with infinity and NaNs.
struct f8e5m2 {
  std::uint8_t bits;
};
static_assert(sizeof(f16) == 2 && sizeof(f8e4m3) == 1 && sizeof(f8e5m2) == 1);

namespace detail {

RUNGS_HD std::uint32_t float_bits(float value) {
  std::uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}
RUNGS_HD float float_of(std::uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

/// The finite value of sign, exponent and mantissa bits; exact, subnormal or not.
template <int kExponentBits, int kMantissaBits>
RUNGS_HD float widen(std::uint32_t bits) {
  constexpr std::uint32_t kBias = (1u << (kExponentBits - 1)) - 1;
  constexpr std::uint32_t kWidth = kExponentBits + kMantissaBits;
  // The fields read as those of a float are too small by the difference of the biases.
  const float scale = float_of((127 + 127 - kBias) << 23);
  const float magnitude = float_of((bits & ((1u << kWidth) - 1)) << (23 - kMantissaBits)) * scale;
  return (bits >> kWidth & 1) != 0 ? -magnitude : magnitude;
}

/// Sign, exponent and mantissa of the nearest value, ties to even; `limit` if the magnitude's
/// pattern would be above it. Not for NaN.
template <int kExponentBits, int kMantissaBits>
RUNGS_HD std::uint32_t narrow(float value, std::uint32_t limit) {
  constexpr std::uint32_t kBias = (1u << (kExponentBits - 1)) - 1;
  constexpr std::uint32_t kDropped = 23 - kMantissaBits;
  const std::uint32_t wide = float_bits(value), magnitude = wide & 0x7fffffffu;
  std::uint32_t rounded;
  if (magnitude < (128 - kBias) << 23) {  // subnormal: counts steps of the smallest value
    const float steps = float_of(magnitude) * float_of((126 + kBias + kMantissaBits) << 23);
    rounded = float_bits(steps + 8388608.0f) - float_bits(8388608.0f);
  } else {
    rounded = (magnitude + (1u << (kDropped - 1)) - 1 + (magnitude >> kDropped & 1)) >> kDropped;
    rounded -= (127 - kBias) << kMantissaBits;
  }
  if (rounded > limit) rounded = limit;
  return rounded | (wide >> 31) << (kExponentBits + kMantissaBits);
}

}  // namespace detail

/// Exact.
RUNGS_HD float to_float(f16 value) {
  if ((value.bits & 0x7c00u) == 0x7c00u) {
    return detail::float_of((value.bits & 0x8000u) << 16 | 0x7f800000u |
                            (value.bits & 0x3ffu) << 13);
  }
  return detail::widen<5, 10>(value.bits);
}
RUNGS_HD float to_float(f8e4m3 value) {
  if ((value.bits & 0x7fu) == 0x7fu) return detail::float_of(0x7fffffffu);
  return detail::widen<4, 3>(value.bits);
}
RUNGS_HD float to_float(f8e5m2 value) {
  return to_float(f16{static_cast<std::uint16_t>(value.bits << 8)});
}

/// Rounds to nearest even, too large to infinity; every NaN becomes the quiet NaN 0x7fff.
RUNGS_HD f16 to_f16(float value) {
  if ((detail::float_bits(value) & 0x7fffffffu) > 0x7f800000u) return f16{0x7fff};
  return f16{static_cast<std::uint16_t>(detail::narrow<5, 10>(value, 0x7c00))};
}
/// Rounds to nearest even; too large, or infinite, becomes the largest finite value; every NaN
/// becomes 0x7f. As cvt.rn.satfinite does.
RUNGS_HD f8e4m3 to_f8e4m3(float value) {
  if ((detail::float_bits(value) & 0x7fffffffu) > 0x7f800000u) return f8e4m3{0x7f};
  return f8e4m3{static_cast<std::uint8_t>(detail::narrow<4, 3>(value, 0x7e))};
}
/// As to_f8e4m3().
RUNGS_HD f8e5m2 to_f8e5m2(float value) {
  if ((detail::float_bits(value) & 0x7fffffffu) > 0x7f800000u) return f8e5m2{0x7f};
  return f8e5m2{static_cast<std::uint8_t>(detail::narrow<5, 2>(value, 0x7b))};
}

/// The DType of a C++ element type.
template <class T>
struct dtype_of;
template <>
struct dtype_of<float> {
  static constexpr DType value = DType::kF32;
};
template <>
struct dtype_of<bf16> {
  static constexpr DType value = DType::kBf16;
};
template <>
struct dtype_of<f16> {
  static constexpr DType value = DType::kF16;
};
template <>
struct dtype_of<f8e4m3> {
  static constexpr DType value = DType::kF8E4M3;
};
template <>
struct dtype_of<f8e5m2> {
  static constexpr DType value = DType::kF8E5M2;
};
template <>
struct dtype_of<std::int32_t> {
  static constexpr DType value = DType::kI32;
};

}  // namespace rungs
