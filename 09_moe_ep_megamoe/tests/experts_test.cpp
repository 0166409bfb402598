/// Gather, experts and combine of one rank, by a routing made by hand.

#include "experts.hpp"

#include <gtest/gtest.h>
#include <rungs/testing/oracle.hpp>

#include <cmath>

#include "support.hpp"
#include "tokens.hpp"

namespace rungs::moe {
namespace {

constexpr int kWidth = 64, kHidden = 128, kExperts = 3, kTopK = 2;

// A routing made by hand: expert 0 gets `first` tokens, expert 2 gets none when `starve` is set.
class OneRank : public ::testing::TestWithParam<int> {
 protected:
  const int tokens = GetParam();
  const std::size_t n = static_cast<std::size_t>(tokens);
  const int capacity = (tokens + 63) / 64 * 64;
  const std::size_t rows = static_cast<std::size_t>(kExperts) * static_cast<std::size_t>(capacity);
  std::vector<std::int32_t> expert, slot, assignment, count;
  std::vector<float> gate;

  const std::vector<bf16> x = testing::normal_bf16(n * kWidth, 1);
  const std::vector<bf16> up = testing::normal_bf16(kExperts * kHidden * kWidth, 2, 0.125);
  const std::vector<bf16> down = testing::normal_bf16(kExperts * kWidth * kHidden, 3, 0.09);
  const std::vector<float> residual = testing::normal_f32(n * kWidth, 4);
  const std::vector<float> d_residual = testing::normal_f32(n * kWidth, 5);

  gpu::Buffer<std::int32_t> expert_d, slot_d, assignment_d, count_d;
  gpu::Buffer<float> gate_d, residual_d, d_residual_d;
  gpu::Buffer<bf16> x_d, up_d, down_d;
  gpu::Buffer<bf16> rows_d = poisoned<bf16>(rows * kWidth), before = poisoned<bf16>(rows * kHidden),
                    after = poisoned<bf16>(rows * kHidden),
                    d_outputs = poisoned<bf16>(rows * kWidth),
                    d_hidden = poisoned<bf16>(rows * kHidden);
  gpu::Buffer<float> outputs = poisoned<float>(rows * kWidth), d_gate = poisoned<float>(rows),
                     d_rows = poisoned<float>(rows * kWidth),
                     d_up = poisoned<float>(kExperts * kHidden * kWidth),
                     d_down = poisoned<float>(kExperts * kWidth * kHidden);

  void SetUp() override {
    count.assign(kExperts, 0);
    assignment.assign(rows, -1);
    testing::Random random(6);
    for (int token = 0; token < tokens; ++token) {
      // Expert 2 is never chosen: an empty expert must give zero weight gradients.
      const std::int32_t first = static_cast<std::int32_t>(random.below(2));
      const double share = random.uniform(0.5, 1.0);
      for (int j = 0; j < kTopK; ++j) {
        const std::int32_t e = j == 0 ? first : 1 - first;
        expert.push_back(e);
        gate.push_back(static_cast<float>(j == 0 ? share : 1 - share));
        slot.push_back(count[static_cast<std::size_t>(e)]);
        assignment[static_cast<std::size_t>(e * capacity + count[static_cast<std::size_t>(e)]++)] =
            token * kTopK + j;
      }
    }
    expert_d = on_device(expert);
    slot_d = on_device(slot);
    assignment_d = on_device(assignment);
    count_d = on_device(count);
    gate_d = on_device(gate);
    residual_d = on_device(residual);
    d_residual_d = on_device(d_residual);
    x_d = on_device(x);
    up_d = on_device(up);
    down_d = on_device(down);
  }

  [[nodiscard]] TokensArgs tokens_args() const {
    return {.routing = {.probabilities = nullptr,
                        .expert = expert_d.data(),
                        .gate = gate_d.data(),
                        .slot = slot_d.data(),
                        .assignment = assignment_d.data(),
                        .count = count_d.data(),
                        .dropped = nullptr,
                        .tally = nullptr,
                        .total = nullptr,
                        .balance = nullptr,
                        .tokens = tokens,
                        .experts = kExperts,
                        .top_k = kTopK,
                        .capacity = capacity},
            .padding = Padding::kTile,
            .width = kWidth,
            .x = x_d.data(),
            .rows = rows_d.data(),
            .outputs = outputs.data(),
            .residual = residual_d.data(),
            .d_residual = d_residual_d.data(),
            .d_outputs = d_outputs.data(),
            .d_gate = d_gate.data()};
  }
  [[nodiscard]] Experts experts() const {
    return Experts({.experts = kExperts,
                    .capacity = capacity,
                    .width = kWidth,
                    .hidden = kHidden,
                    .count = count_d.data(),
                    .up = up_d.data(),
                    .down = down_d.data(),
                    .rows = rows_d.data(),
                    .before_gelu = before.data(),
                    .after_gelu = after.data(),
                    .outputs = outputs.data(),
                    .d_outputs = d_outputs.data(),
                    .d_hidden = d_hidden.data(),
                    .d_rows = d_rows.data(),
                    .d_up = d_up.data(),
                    .d_down = d_down.data()},
                   device());
  }
  void forward(const Experts& experts) const {
    gather(tokens_args(), queue());
    experts.forward(queue());
    combine(tokens_args(), queue());
  }
  void vjp(const Experts& experts) const {
    combine_vjp(tokens_args(), queue());
    experts.vjp(queue());
  }
};

// The mixture and its gradients in double, one token and choice after the other.
struct Oracle {
  std::vector<double> out, d_gate, d_rows, d_up, d_down;
};

TEST_P(OneRank, ForwardAndVjpMatchTheOracle) {
  const Experts experts = this->experts();
  forward(experts);
  const auto out = residual_d.download();
  vjp(experts);

  const auto xs = widen(x), ups = widen(up), downs = widen(down);
  Oracle want{widen(residual), std::vector<double>(rows, 0.0),
              std::vector<double>(rows * kWidth, 0.0),
              std::vector<double>(kExperts * kHidden * kWidth, 0.0),
              std::vector<double>(kExperts * kWidth * kHidden, 0.0)};
  for (std::size_t i = 0; i < n * kTopK; ++i) {
    const std::size_t token = i / kTopK;
    const auto e = static_cast<std::size_t>(expert[i]);
    const std::size_t row =
        e * static_cast<std::size_t>(capacity) + static_cast<std::size_t>(slot[i]);
    const double g = static_cast<double>(gate[i]);
    std::vector<double> before_gelu(kHidden, 0.0), hidden(kHidden), d_hidden_row(kHidden, 0.0);
    for (std::size_t h = 0; h < kHidden; ++h) {
      for (std::size_t c = 0; c < kWidth; ++c)
        before_gelu[h] += xs[token * kWidth + c] * ups[(e * kHidden + h) * kWidth + c];
      hidden[h] = testing::gelu_tanh(before_gelu[h]);
    }
    for (std::size_t c = 0; c < kWidth; ++c) {
      double output = 0;
      for (std::size_t h = 0; h < kHidden; ++h)
        output += hidden[h] * downs[(e * kWidth + c) * kHidden + h];
      want.out[token * kWidth + c] += g * output;
      const double d = static_cast<double>(d_residual[token * kWidth + c]);
      want.d_gate[row] += output * d;
      for (std::size_t h = 0; h < kHidden; ++h) {
        want.d_down[(e * kWidth + c) * kHidden + h] += g * d * hidden[h];
        d_hidden_row[h] += g * d * downs[(e * kWidth + c) * kHidden + h];
      }
    }
    for (std::size_t h = 0; h < kHidden; ++h) {
      const double d = d_hidden_row[h] * testing::gelu_tanh_derivative(before_gelu[h]);
      for (std::size_t c = 0; c < kWidth; ++c) {
        want.d_up[(e * kHidden + h) * kWidth + c] += d * xs[token * kWidth + c];
        want.d_rows[row * kWidth + c] += d * ups[(e * kHidden + h) * kWidth + c];
      }
    }
  }
  // Elements are sums of terms each carrying at most four bf16 roundings (before, after the GELU; d
  // after, d before), of random sign: four roundings of a sum's own magnitude, which is 1 for rows
  // and sqrt(tokens) for weights.
  const double bound = 4 * kBf16Rounding * 4;
  EXPECT_EQ(testing::first_mismatch(out, want.out, {.relative = bound, .absolute = bound}), "");
  const double weights_bound = bound * std::sqrt(static_cast<double>(tokens));
  EXPECT_EQ(testing::first_mismatch(d_up.download(), want.d_up,
                                    {.relative = bound, .absolute = weights_bound}),
            "");
  EXPECT_EQ(testing::first_mismatch(d_down.download(), want.d_down,
                                    {.relative = bound, .absolute = weights_bound}),
            "");
  const auto got_gate = d_gate.download();
  const auto got_rows = d_rows.download();
  const double gate_bound = bound * std::sqrt(static_cast<double>(kWidth));
  for (std::size_t e = 0; e < kExperts; ++e) {
    for (std::int32_t r = 0; r < count[e]; ++r) {
      const std::size_t row = e * static_cast<std::size_t>(capacity) + static_cast<std::size_t>(r);
      ASSERT_NEAR(got_gate[row], want.d_gate[row], gate_bound + bound * std::abs(want.d_gate[row]));
      for (std::size_t c = 0; c < kWidth; ++c)
        ASSERT_NEAR(got_rows[row * kWidth + c], want.d_rows[row * kWidth + c],
                    bound + bound * std::abs(want.d_rows[row * kWidth + c]));
    }
  }
}

TEST_P(OneRank, RowsUpToTheNextMultipleOf64AreZero) {
  const Experts experts = this->experts();
  forward(experts);
  vjp(experts);
  const auto gathered = rows_d.download(), hidden = after.download(), d_out = d_outputs.download(),
             d_hid = d_hidden.download();
  for (std::size_t e = 0; e < kExperts; ++e) {
    const std::int32_t padded = (count[e] + 63) / 64 * 64;
    for (std::int32_t r = count[e]; r < padded; ++r) {
      const std::size_t row = e * static_cast<std::size_t>(capacity) + static_cast<std::size_t>(r);
      for (std::size_t c = 0; c < kWidth; ++c) {
        ASSERT_EQ(gathered[row * kWidth + c].bits, 0) << "expert " << e << " row " << r;
        ASSERT_EQ(d_out[row * kWidth + c].bits, 0) << "expert " << e << " row " << r;
      }
      for (std::size_t h = 0; h < kHidden; ++h) {
        ASSERT_EQ(hidden[row * kHidden + h].bits, 0) << "expert " << e << " row " << r;
        ASSERT_EQ(d_hid[row * kHidden + h].bits, 0) << "expert " << e << " row " << r;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Tokens, OneRank, ::testing::Values(1, 63, 64, 65, 150));

}  // namespace
}  // namespace rungs::moe
