#pragma once
/// @file bulk_oracle.hpp
/// Operands of reductions and what they must become, computed in double or in wide integers.

#include <rungs/gpu/tensor_map.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace rungs::ptx::test {

inline std::size_t element_size(gpu::TensorElement type) {
  using E = gpu::TensorElement;
  switch (type) {
    case E::kU8:
      return 1;
    case E::kU16:
    case E::kF16:
    case E::kBf16:
      return 2;
    case E::kU64:
    case E::kI64:
    case E::kF64:
      return 8;
    default:
      return 4;
  }
}

/// A binary floating-point format of 16 bits: how many bits its fraction has, and its exponent's
/// bias.
struct HalfFormat {
  int fraction_bits;
  int bias;
};
inline HalfFormat half_format(gpu::TensorElement type) {
  return type == gpu::TensorElement::kF16 ? HalfFormat{10, 15} : HalfFormat{7, 127};
}

inline double half_value(std::uint16_t bits, HalfFormat format) {
  const int scale = 1 << format.fraction_bits;
  const int fraction = bits % scale;
  const int exponent = bits % 0x8000 / scale;
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, 1 - format.bias - format.fraction_bits)
                    : std::ldexp(scale + fraction, exponent - format.bias - format.fraction_bits);
  return bits >= 0x8000 ? -magnitude : magnitude;
}

/// To the nearest value of the format, ties to even; finite values in the format's range only.
inline std::uint16_t half_bits(double value, HalfFormat format) {
  const double magnitude = std::fabs(value);
  int exponent = 1 - format.bias;  // of the smallest normal number, and of all subnormal ones
  if (magnitude > 0) {
    const int floor = std::ilogb(magnitude);
    if (floor > exponent) exponent = floor;
  }
  // In units of the last place; reaching the next power of two carries into the exponent by itself.
  const double units = std::nearbyint(std::ldexp(magnitude, format.fraction_bits - exponent));
  const auto bits = static_cast<std::uint32_t>(
      (static_cast<std::int64_t>(exponent + format.bias - 1) << format.fraction_bits) +
      static_cast<std::int64_t>(units));
  return static_cast<std::uint16_t>(bits | (std::signbit(value) ? 0x8000u : 0u));
}

/// Operands of many magnitudes and both signs. No zeros, infinities, NaNs; no subnormals of f32,
/// which the hardware flushes.
inline std::vector<std::uint8_t> reduction_operands(gpu::TensorElement type, std::size_t size_bytes,
                                                    std::uint64_t seed) {
  std::vector<std::uint8_t> bytes(size_bytes);
  const std::size_t size = element_size(type);
  std::uint64_t state = seed * 0x9e3779b97f4a7c15ull;
  for (std::size_t i = 0; i < size_bytes; i += size) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    const std::uint64_t random = state ^ state >> 29;
    const double sign = (random >> 40 & 1) != 0 ? -1.0 : 1.0;
    const int spread = static_cast<int>(random >> 41 & 15) - 8;
    const double value =
        sign * std::ldexp(1.0 + static_cast<double>(random & 0xfffff) / 0x100000, spread);
    switch (type) {
      case gpu::TensorElement::kF32: {
        const auto f32 = static_cast<float>(value);
        std::memcpy(&bytes[i], &f32, size);
        break;
      }
      case gpu::TensorElement::kF64:
        std::memcpy(&bytes[i], &value, size);
        break;
      case gpu::TensorElement::kF16:
      case gpu::TensorElement::kBf16: {
        const std::uint16_t half = half_bits(value, half_format(type));
        std::memcpy(&bytes[i], &half, size);
        break;
      }
      default: {
        // Small numbers in every fourth, so that inc and dec meet old == x and old == 0.
        const std::uint64_t whole = i / size % 4 == 0 ? random % 3 : random * 0x2545f4914f6cdd1dull;
        std::memcpy(&bytes[i], &whole, size);
        break;
      }
    }
  }
  return bytes;
}

template <class T>
T reduced_integer(gpu::BulkReduction reduction, T old, T x) {
  switch (reduction) {
    case gpu::BulkReduction::kAdd:
      return static_cast<T>(static_cast<std::uint64_t>(old) + static_cast<std::uint64_t>(x));
    case gpu::BulkReduction::kMin:
      return x < old ? x : old;
    case gpu::BulkReduction::kMax:
      return x > old ? x : old;
    case gpu::BulkReduction::kInc:
      return old >= x ? T{0} : static_cast<T>(old + 1);
    case gpu::BulkReduction::kDec:
      return old == 0 || old > x ? x : static_cast<T>(old - 1);
    case gpu::BulkReduction::kAnd:
      return old & x;
    case gpu::BulkReduction::kOr:
      return old | x;
    case gpu::BulkReduction::kXor:
      return old ^ x;
  }
  return old;
}

template <class T>
T reduced_real(gpu::BulkReduction reduction, T old, T x) {
  if (reduction == gpu::BulkReduction::kAdd) return old + x;
  return (reduction == gpu::BulkReduction::kMin) == (x < old) ? x : old;
}

template <class T>
void store_reduced(gpu::BulkReduction reduction, std::uint8_t* at, const std::uint8_t* with) {
  T old, x;
  std::memcpy(&old, at, sizeof(T));
  std::memcpy(&x, with, sizeof(T));
  if constexpr (static_cast<T>(0.5) != T{0}) {
    old = reduced_real(reduction, old, x);
  } else {
    old = reduced_integer(reduction, old, x);
  }
  std::memcpy(at, &old, sizeof(T));
}

/// One element: *at = *at op *with.
inline void reduce_one(gpu::BulkReduction reduction, gpu::TensorElement type, std::uint8_t* at,
                       const std::uint8_t* with) {
  using E = gpu::TensorElement;
  switch (type) {
    case E::kU32:
      return store_reduced<std::uint32_t>(reduction, at, with);
    case E::kI32:
      return store_reduced<std::int32_t>(reduction, at, with);
    case E::kU64:
      return store_reduced<std::uint64_t>(reduction, at, with);
    case E::kI64:
      return store_reduced<std::int64_t>(reduction, at, with);
    case E::kF32:
      return store_reduced<float>(reduction, at, with);
    case E::kF64:
      return store_reduced<double>(reduction, at, with);
    default:
      break;
  }
  const HalfFormat format = half_format(type);
  std::uint16_t old, x;
  std::memcpy(&old, at, 2);
  std::memcpy(&x, with, 2);
  old = half_bits(reduced_real(reduction, half_value(old, format), half_value(x, format)), format);
  std::memcpy(at, &old, 2);
}

inline std::vector<std::uint8_t> reduced(gpu::BulkReduction reduction, gpu::TensorElement type,
                                         std::vector<std::uint8_t> data,
                                         const std::vector<std::uint8_t>& x) {
  for (std::size_t i = 0; i < data.size(); i += element_size(type))
    reduce_one(reduction, type, &data[i], &x[i]);
  return data;
}

}  // namespace rungs::ptx::test
