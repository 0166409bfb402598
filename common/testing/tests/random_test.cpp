#include <rungs/testing/random.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace rungs::testing {
namespace {

TEST(Random, FirstValuesAreThoseOfTheReference) {
  // SplitMix64 from seed 1234567, as the generator's published test vector has them.
  Random random(1234567);
  EXPECT_EQ(random.next(), 6457827717110365317u);
  EXPECT_EQ(random.next(), 3203168211198807973u);
  EXPECT_EQ(random.next(), 9817491932198370423u);
}

TEST(Random, SeedsDecideEverything) {
  const std::vector<float> once = normal_f32(100, 7);
  EXPECT_EQ(once, normal_f32(100, 7));
  EXPECT_NE(once, normal_f32(100, 8));
  EXPECT_TRUE(std::equal(once.begin(), once.begin() + 10, normal_f32(10, 7).begin()));
}

// 100,000 draws: the mean's standard error is 0.0032 and the variance's 0.0045; six of them are
// allowed.
TEST(Random, NormalHasMeanZeroAndTheGivenDeviation) {
  const std::vector<float> values = normal_f32(100000, 1, 2.0);
  double sum = 0;
  double squares = 0;
  for (const float value : values) {
    sum += value;
    squares += static_cast<double>(value) * value;
  }
  const double count = static_cast<double>(values.size());
  EXPECT_LE(std::abs(sum / count), 6 * 0.0064);
  EXPECT_LE(std::abs(squares / count / 4 - 1), 6 * 0.0045);
}

TEST(Random, UniformStaysInRangeAndFillsIt) {
  const std::vector<float> values = uniform_f32(10000, 3, -2, 5);
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  EXPECT_GE(*low, -2);
  EXPECT_LE(*high, 5);
  EXPECT_LT(*low, -1.9);
  EXPECT_GT(*high, 4.9);
}

TEST(Random, IntegersReachBothEnds) {
  const std::vector<std::int32_t> values = integers(1000, 5, -1, 2);
  EXPECT_EQ(*std::min_element(values.begin(), values.end()), -1);
  EXPECT_EQ(*std::max_element(values.begin(), values.end()), 2);
  const std::vector<std::int32_t> all = integers(100, 5, -2147483647 - 1, 2147483647);
  EXPECT_LT(*std::min_element(all.begin(), all.end()), -1000000000);
  EXPECT_GT(*std::max_element(all.begin(), all.end()), 1000000000);
}

TEST(Random, ConversionsAgree) {
  const std::vector<float> exact{1.5f, -2.0f, 0.0f};
  EXPECT_EQ(to_float(to_bf16(exact)), exact);
  EXPECT_EQ(to_double(to_bf16(exact)), (std::vector<double>{1.5, -2, 0}));
  EXPECT_EQ(to_double(exact), (std::vector<double>{1.5, -2, 0}));
  const std::vector<bf16> drawn = normal_bf16(64, 9);
  const std::vector<bf16> rounded = to_bf16(normal_f32(64, 9));
  EXPECT_EQ(std::memcmp(drawn.data(), rounded.data(), 64 * sizeof(bf16)), 0);
  EXPECT_EQ(uniform_bf16(8, 1).size(), 8u);
}

}  // namespace
}  // namespace rungs::testing
