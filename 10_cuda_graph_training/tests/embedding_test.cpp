#include "layers/embedding.hpp"

#include <gtest/gtest.h>

#include "support.hpp"

namespace rungs::training {
namespace {

constexpr int kBatch = 3, kContext = 10, kWidth = 64, kRows = kBatch * kContext;

TEST(Embedding, ForwardAddsTokenAndPosition) {
  const auto tokens = testing::integers(kRows, 1, 0, 255);
  const auto table = testing::normal_f32(256 * kWidth, 2),
             positions = testing::normal_f32(kContext * kWidth, 3);
  const auto tokens_device = on_device(tokens);
  const auto table_device = on_device(table), positions_device = on_device(positions);
  auto x = poisoned<float>(kRows * kWidth);
  layers::embedding_forward({tokens_device.data(), table_device.data(), positions_device.data(),
                             x.data(), kRows, kWidth, kContext},
                            queue());
  std::vector<float> want;
  for (int row = 0; row < kRows; ++row)
    for (int c = 0; c < kWidth; ++c)
      want.push_back(
          table[static_cast<std::size_t>(tokens[static_cast<std::size_t>(row)] * kWidth + c)] +
          positions[static_cast<std::size_t>(row % kContext * kWidth + c)]);
  EXPECT_EQ(testing::first_bit_difference(x.download(), want), "");
}

TEST(Embedding, VjpAddsUpRepeatedTokensAndZeroesAbsentOnes) {
  // Few distinct tokens, both ends of the vocabulary among them.
  std::vector<std::int32_t> tokens = testing::integers(kRows, 1, 0, 3);
  tokens[7] = 255;
  const auto dx = testing::normal_f32(kRows * kWidth, 2);
  const auto tokens_device = on_device(tokens);
  const auto dx_device = on_device(dx);
  auto d_table = poisoned<float>(256 * kWidth), d_positions = poisoned<float>(kContext * kWidth);
  layers::embedding_vjp({tokens_device.data(), dx_device.data(), d_table.data(), d_positions.data(),
                         kRows, kWidth, kContext},
                        queue());
  std::vector<double> want_table(256 * kWidth, 0.0), want_positions(kContext * kWidth, 0.0);
  for (std::size_t row = 0; row < kRows; ++row)
    for (std::size_t c = 0; c < kWidth; ++c) {
      const double d = static_cast<double>(dx[row * kWidth + c]);
      want_table[static_cast<std::size_t>(tokens[row]) * kWidth + c] += d;
      want_positions[row % kContext * kWidth + c] += d;
    }
  const testing::Tolerance sums{.relative = 0, .absolute = kRows * 4.0 * kF32Rounding};
  EXPECT_EQ(testing::first_mismatch(d_table.download(), want_table, sums), "");
  EXPECT_EQ(testing::first_mismatch(d_positions.download(), want_positions, sums), "");
}

}  // namespace
}  // namespace rungs::training
