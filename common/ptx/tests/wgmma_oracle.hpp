#pragma once
/// @file wgmma_oracle.hpp
/// What wgmma computes, by its definition: formats from their fields, fragments from the figures of
/// the PTX ISA ("Register Fragments"), products in double or 64-bit integers.

#include "wgmma_conformance.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

namespace rungs::ptx::test {

/// A floating format of up to 16 bits, or tf32 (its upper 19 bits).
struct Format {
  int exponent_bits, mantissa_bits;

  static Format of(Element element) {
    switch (element) {
      case Element::kF16:
        return {5, 10};
      case Element::kBf16:
        return {8, 7};
      case Element::kTf32:
        return {8, 10};
      case Element::kE4m3:
        return {4, 3};
      default:
        return {5, 2};
    }
  }
  [[nodiscard]] int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  /// E4M3 has no infinity, and only one NaN of each sign.
  [[nodiscard]] bool has_infinity() const { return mantissa_bits != 3; }
  [[nodiscard]] std::uint32_t infinity() const {
    return ((1u << exponent_bits) - 1) << mantissa_bits;
  }
  [[nodiscard]] std::uint32_t nan() const { return (1u << (exponent_bits + mantissa_bits)) - 1; }
  [[nodiscard]] double value(std::uint32_t bits) const {
    const std::uint32_t unsigned_bits = bits & nan();
    if (unsigned_bits == nan() || (has_infinity() && unsigned_bits > infinity())) return NAN;
    if (has_infinity() && unsigned_bits == infinity())
      return (bits >> (exponent_bits + mantissa_bits) & 1) != 0 ? -INFINITY : INFINITY;
    const std::uint32_t exponent = bits >> mantissa_bits & ((1u << exponent_bits) - 1);
    const double fraction =
        std::ldexp(static_cast<double>(bits & ((1u << mantissa_bits) - 1)), -mantissa_bits);
    const double magnitude = exponent == 0
                                 ? std::ldexp(fraction, 1 - bias())
                                 : std::ldexp(1 + fraction, static_cast<int>(exponent) - bias());
    return (bits >> (exponent_bits + mantissa_bits) & 1) != 0 ? -magnitude : magnitude;
  }
  /// The nearest pattern of a value inside the range.
  [[nodiscard]] std::uint32_t pattern(double x) const {
    const int exponent = x == 0 ? 1 - bias() : std::max(std::ilogb(x), 1 - bias());
    const double steps = std::nearbyint(std::ldexp(std::abs(x), mantissa_bits - exponent));
    // Counted in steps from the smallest subnormal, patterns are consecutive.
    const auto magnitude = static_cast<std::uint32_t>(
        steps + std::ldexp(static_cast<double>(exponent + bias() - 1), mantissa_bits));
    return magnitude | (std::signbit(x) ? 1u << (exponent_bits + mantissa_bits) : 0u);
  }
};

inline std::uint32_t size_of(Element element) {
  switch (element) {
    case Element::kF32:
    case Element::kTf32:
    case Element::kS32:
      return 4;
    case Element::kF16:
    case Element::kBf16:
      return 2;
    default:
      return 1;
  }
}

inline bool is_integer(Element element) {
  return element == Element::kS8 || element == Element::kU8 || element == Element::kS32;
}

/// The bits of an operand or accumulator element; floating values are rounded to the format.
inline std::uint32_t to_bits(Element element, double value) {
  switch (element) {
    case Element::kF32: {
      const auto single = static_cast<float>(value);
      std::uint32_t bits;
      std::memcpy(&bits, &single, sizeof(bits));
      return bits;
    }
    case Element::kTf32:
      return Format::of(element).pattern(value) << 13;
    case Element::kS32:
      return static_cast<std::uint32_t>(static_cast<std::int32_t>(value));
    case Element::kS8:
    case Element::kU8:
      return static_cast<std::uint32_t>(static_cast<int>(value)) & 0xff;
    default:
      return Format::of(element).pattern(value);
  }
}

inline double value_of(Element element, std::uint32_t bits) {
  switch (element) {
    case Element::kF32: {
      float single;
      std::memcpy(&single, &bits, sizeof(single));
      return static_cast<double>(single);
    }
    case Element::kTf32:
      return Format::of(element).value(bits >> 13);
    case Element::kS32:
      return static_cast<std::int32_t>(bits);
    case Element::kS8:
      return static_cast<std::int8_t>(bits);
    case Element::kU8:
      return static_cast<std::uint8_t>(bits);
    default:
      return Format::of(element).value(bits);
  }
}

/// Where an element lies in the warpgroup's registers.
struct FragmentPlace {
  std::uint32_t thread, register_index, byte;
};

/// Of A, `byte` counted from the start of the row's 32 bytes.
inline FragmentPlace place_in_a(std::uint32_t row, std::uint32_t byte) {
  const std::uint32_t group = row % 8, in_group = byte % 16 / 4;
  return {row / 16 * 32 + group * 4 + in_group, row % 16 / 8 + 2 * (byte / 16), byte % 4};
}

/// Of D.
inline FragmentPlace place_in_d(std::uint32_t row, std::uint32_t column, std::uint32_t size) {
  const std::uint32_t group = row % 8, in_group = column % 8 / 2;
  const std::uint32_t index = column / 8 * 4 + row % 16 / 8 * 2 + column % 2;
  return {row / 16 * 32 + group * 4 + in_group, index * size / 4, index * size % 4};
}

/// The exponent that a tensor core gives a number of that type: of subnormals the least normal one.
inline int exponent_of(Element element, double value) {
  const int least = element == Element::kF32 ? -126 : 1 - Format::of(element).bias();
  return value == 0 ? -126 : std::max(std::ilogb(value), least);
}

/// A sum of products as Hopper's tensor core makes it, according to MMA-Sim (arXiv 2511.10909,
/// T-FDPA): every summand is cut off `kept` bits below the greatest exponent, where a product has
/// the sum of its operands' exponents. For FP8 13, and so is the f32 result; else 25.
class FusedSum {
 public:
  FusedSum(Element d, double c) : d_(d) { add(c, exponent_of(d, c)); }
  void add_product(Element a, double x, Element b, double y) {
    add(x * y, x * y == 0 ? -126 : exponent_of(a, x) + exponent_of(b, y));
  }
  [[nodiscard]] double result(int kept) const {
    double sum = 0;  // whole, below 2^53
    for (const double value : summands_) sum += std::trunc(std::ldexp(value, kept - greatest_));
    sum = std::ldexp(sum, greatest_ - kept);
    if (d_ == Element::kF16) return value_of(d_, to_bits(d_, sum));
    if (sum == 0) return 0;
    const int below = (kept == 13 ? 13 : 23) - std::ilogb(sum);
    return std::ldexp(std::trunc(std::ldexp(sum, below)), -below);
  }

 private:
  void add(double value, int exponent) {
    summands_.push_back(value);
    greatest_ = std::max(greatest_, exponent);
  }
  Element d_;
  std::vector<double> summands_;
  int greatest_ = -1000;
};

/// The 32-bit sum of a multiplication.
inline std::int32_t add_integers(std::int32_t sum, std::int64_t products, bool satfinite) {
  const std::int64_t exact = sum + products;
  if (!satfinite) return static_cast<std::int32_t>(static_cast<std::uint32_t>(exact));
  using Limits = std::numeric_limits<std::int32_t>;
  return static_cast<std::int32_t>(
      std::max<std::int64_t>(Limits::min(), std::min<std::int64_t>(Limits::max(), exact)));
}

}  // namespace rungs::ptx::test
