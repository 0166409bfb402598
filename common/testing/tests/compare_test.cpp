#include <rungs/testing/compare.hpp>

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace rungs::testing {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

using Doubles = std::vector<double>;

TEST(Compare, WithinToleranceIsSilent) {
  EXPECT_EQ(first_mismatch(Doubles{1.01, -2, 0}, Doubles{1, -2, 0}, {.relative = 0.02}), "");
  EXPECT_EQ(first_mismatch(Doubles{}, Doubles{}, {}), "");
  EXPECT_EQ(first_mismatch(std::vector<bf16>{to_bf16(1.5f)}, Doubles{1.5}, {}), "");
}

TEST(Compare, TheFirstMismatchIsNamed) {
  EXPECT_EQ(first_mismatch(Doubles{1, 3, 9}, Doubles{1, 2, 2}, {.absolute = 0.5}),
            "element 1: got 3, want 2, allowed difference 0.5");
}

TEST(Compare, NanNeverPasses) {
  EXPECT_NE(first_mismatch(Doubles{kNan}, Doubles{1}, {.relative = 1e9, .absolute = kInf}), "");
  EXPECT_NE(first_mismatch(Doubles{1}, Doubles{kNan}, {.absolute = 1e9}), "");
  EXPECT_NE(first_mismatch(Doubles{kNan}, Doubles{kNan}, {.absolute = 1e9}), "");
  EXPECT_NE(first_mismatch(Doubles{1}, Doubles{1 + 1e-9}, {.absolute = kNan}), "");
  EXPECT_EQ(max_error(Doubles{kNan, 0}, Doubles{0, 0}), kInf);
}

TEST(Compare, InfinitiesMustBeMetExactly) {
  EXPECT_EQ(first_mismatch(Doubles{-kInf}, Doubles{-kInf}, {}), "");
  EXPECT_NE(first_mismatch(Doubles{kInf}, Doubles{-kInf}, {.relative = 1}), "");
  EXPECT_NE(first_mismatch(Doubles{1e300}, Doubles{kInf}, {.relative = 1}), "");
  EXPECT_NE(first_mismatch(Doubles{kInf}, Doubles{1}, {.relative = 1, .absolute = 1e300}), "");
}

TEST(Compare, SizesMustAgree) {
  EXPECT_EQ(first_mismatch(Doubles{1}, Doubles{1, 2}, {}), "sizes differ: got 1 elements, want 2");
  EXPECT_EQ(first_outside_bounds(Doubles{1}, Doubles{1}, Doubles{}),
            "sizes differ: 0 bounds for 1 elements");
  EXPECT_NE(first_bit_difference(Doubles{1}, Doubles{}), "");
  EXPECT_THROW(max_error(Doubles{1}, Doubles{}), Error);
}

TEST(Compare, EveryElementHasItsOwnBound) {
  EXPECT_EQ(first_outside_bounds(Doubles{1.1, 2.1}, Doubles{1, 2}, Doubles{0.2, 0.2}), "");
  EXPECT_EQ(first_outside_bounds(Doubles{1.5, 2.5}, Doubles{1, 2}, Doubles{1, 0.25}),
            "element 1: got 2.5, want 2, allowed difference 0.25");
  EXPECT_NE(first_outside_bounds(Doubles{kNan}, Doubles{0}, Doubles{kInf}), "");
}

TEST(Compare, BitsTellZerosApartAndNansTogether) {
  EXPECT_EQ(first_bit_difference(Doubles{kNan, 1}, Doubles{kNan, 1}), "");
  EXPECT_NE(first_bit_difference(Doubles{0.0}, Doubles{-0.0}), "");
  EXPECT_EQ(first_bit_difference(std::vector<float>{1, 2}, std::vector<float>{1, 3}),
            "element 1: bits differ, got 2, want 3");
}

TEST(Compare, MaxError) {
  EXPECT_EQ(max_error(Doubles{1, 5, kInf}, Doubles{2, 3, kInf}), 2);
  EXPECT_EQ(max_error(Doubles{}, Doubles{}), 0);
}

}  // namespace
}  // namespace rungs::testing
