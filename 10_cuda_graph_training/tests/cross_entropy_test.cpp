#include "layers/cross_entropy.hpp"

#include <gtest/gtest.h>
#include <rungs/testing/oracle.hpp>

#include <cmath>
#include <limits>

#include "support.hpp"

namespace rungs::training {
namespace {

constexpr int kClasses = 256;

class CrossEntropyRows : public ::testing::TestWithParam<int> {};

TEST_P(CrossEntropyRows, MatchesTheOracle) {
  const std::size_t rows = static_cast<std::size_t>(GetParam());
  auto logits = testing::normal_f32(rows * kClasses, 1, 3.0);
  logits[5] = 200.0f;  // would overflow an exponential that nothing was subtracted from
  const auto targets = testing::integers(rows, 2, 0, kClasses - 1);
  const auto logits_device = on_device(logits);
  const auto targets_device = on_device(targets);
  auto loss = poisoned<float>(rows);
  auto d_logits = poisoned<bf16>(rows * kClasses);
  layers::cross_entropy({logits_device.data(), targets_device.data(), loss.data(), d_logits.data(),
                         GetParam(), GetParam(), kClasses},
                        queue());
  const auto want = testing::cross_entropy(widen(logits), targets, kClasses);
  // log of a sum of 256 terms: some roundings of the largest magnitude, 200.
  EXPECT_EQ(testing::first_mismatch(loss.download(), want.row_losses,
                                    {.absolute = 256 * 8 * kF32Rounding}),
            "");
  EXPECT_EQ(testing::first_mismatch(widen(d_logits.download()), want.dlogits,
                                    {.relative = 1.05 * kBf16Rounding,
                                     .absolute = 64 * kF32Rounding / static_cast<double>(rows)}),
            "");
}

INSTANTIATE_TEST_SUITE_P(Rows, CrossEntropyRows, ::testing::Values(1, 5, 64, 65));

TEST(CrossEntropyContract, NanInALogitReachesTheLoss) {
  std::vector<float> logits(2 * kClasses, 0.0f);
  logits[kClasses + 17] = std::numeric_limits<float>::quiet_NaN();
  const auto logits_device = on_device(logits);
  const auto targets_device = on_device(std::vector<std::int32_t>{3, 4});
  auto loss = poisoned<float>(2);
  layers::cross_entropy(
      {logits_device.data(), targets_device.data(), loss.data(), nullptr, 2, 2, kClasses}, queue());
  const auto got = loss.download();
  EXPECT_NEAR(got[0], std::log(256.0), 1e-5);
  EXPECT_TRUE(std::isnan(got[1]));
}

}  // namespace
}  // namespace rungs::training
