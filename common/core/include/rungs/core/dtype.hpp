#pragma once
/// @file dtype.hpp
/// Element types. `bf16` is a plain 16-bit value on both back ends, so no CUDA header is needed.

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
struct dtype_of<std::int32_t> {
  static constexpr DType value = DType::kI32;
};

}  // namespace rungs
