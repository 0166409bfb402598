// The small floats, every pattern: against their definition in double, and rounding against the
// nearest of all values.

#include <rungs/core/dtype.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace rungs {
namespace {

// Sign, exponent, mantissa as the format's definition reads.
double defined(unsigned bits, int exponent_bits, int mantissa_bits) {
  const int width = exponent_bits + mantissa_bits, bias = (1 << (exponent_bits - 1)) - 1;
  const unsigned exponent = bits >> mantissa_bits & ((1u << exponent_bits) - 1);
  const double fraction = (bits & ((1u << mantissa_bits) - 1)) / std::ldexp(1.0, mantissa_bits);
  const double magnitude = exponent == 0
                               ? std::ldexp(fraction, 1 - bias)
                               : std::ldexp(1.0 + fraction, static_cast<int>(exponent) - bias);
  return (bits >> width & 1) != 0 ? -magnitude : magnitude;
}

template <class T>
struct Format;
template <>
struct Format<f16> {
  static constexpr int kExponent = 5, kMantissa = 10;
  static constexpr unsigned kLargest = 0x7bff, kTooLarge = 0x7c00, kNan = 0x7fff;
  static f16 convert(float value) { return to_f16(value); }
};
template <>
struct Format<f8e4m3> {
  static constexpr int kExponent = 4, kMantissa = 3;
  static constexpr unsigned kLargest = 0x7e, kTooLarge = 0x7e, kNan = 0x7f;
  static f8e4m3 convert(float value) { return to_f8e4m3(value); }
};
template <>
struct Format<f8e5m2> {
  static constexpr int kExponent = 5, kMantissa = 2;
  static constexpr unsigned kLargest = 0x7b, kTooLarge = 0x7b, kNan = 0x7f;
  static f8e5m2 convert(float value) { return to_f8e5m2(value); }
};

template <class T>
class SmallFloat : public ::testing::Test {};
using SmallFloats = ::testing::Types<f16, f8e4m3, f8e5m2>;
TYPED_TEST_SUITE(SmallFloat, SmallFloats);

TYPED_TEST(SmallFloat, EveryValueIsExactAndComesBack) {
  using F = Format<TypeParam>;
  constexpr unsigned kSign = 1u << (F::kExponent + F::kMantissa);
  for (unsigned magnitude = 0; magnitude <= F::kLargest; magnitude++) {
    for (const unsigned bits : {magnitude, magnitude | kSign}) {
      const float value = to_float(TypeParam{static_cast<decltype(TypeParam::bits)>(bits)});
      EXPECT_EQ(value, defined(bits, F::kExponent, F::kMantissa)) << bits;
      EXPECT_EQ(F::convert(value).bits, bits);
    }
  }
}

TYPED_TEST(SmallFloat, RoundsToNearestEven) {
  using F = Format<TypeParam>;
  for (unsigned below = 0; below < F::kLargest; below++) {
    const double low = defined(below, F::kExponent, F::kMantissa);
    const double high = defined(below + 1, F::kExponent, F::kMantissa);
    const auto middle = static_cast<float>((low + high) / 2);  // exact
    EXPECT_EQ(F::convert(middle).bits, below + below % 2);
    EXPECT_EQ(F::convert(std::nextafter(middle, 0.0f)).bits, below);
    EXPECT_EQ(F::convert(std::nextafter(middle, INFINITY)).bits, below + 1);
  }
}

TYPED_TEST(SmallFloat, Specials) {
  using F = Format<TypeParam>;
  constexpr unsigned kSign = 1u << (F::kExponent + F::kMantissa);
  for (const float value : {1e6f, std::numeric_limits<float>::max(), INFINITY}) {
    EXPECT_EQ(F::convert(value).bits, F::kTooLarge);
    EXPECT_EQ(F::convert(-value).bits, F::kTooLarge | kSign);
  }
  EXPECT_EQ(F::convert(NAN).bits, F::kNan);
  EXPECT_TRUE(std::isnan(to_float(TypeParam{F::kNan})));
  EXPECT_EQ(F::convert(-0.0f).bits, kSign);
}

TEST(SmallFloatLimits, InfinitiesOfThoseThatHaveThem) {
  EXPECT_EQ(to_float(f16{0x7c00}), INFINITY);
  EXPECT_EQ(to_float(f16{0xfc00}), -INFINITY);
  EXPECT_EQ(to_float(f8e5m2{0x7c}), INFINITY);
  EXPECT_EQ(to_f16(65519.9f).bits, 0x7bff);  // rounds down; 65520 is half way to 65536
  EXPECT_EQ(to_f16(65520.0f).bits, 0x7c00);
  EXPECT_EQ(to_f8e4m3(464.0f).bits, 0x7e);
}

}  // namespace
}  // namespace rungs
