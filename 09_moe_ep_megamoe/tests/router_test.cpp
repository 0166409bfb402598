/// The router alone: choice, gates, slots, tally and its VJP.

#include "router.hpp"

#include <gtest/gtest.h>
#include <rungs/testing/oracle.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

#include "support.hpp"

namespace rungs::moe {
namespace {

struct Extents {
  int tokens, experts, top_k;
  int capacity = 0;  // 0: room for all
};

constexpr int kWidth = 64;

// Owns what Routing points to.
struct RoutingBuffers {
  explicit RoutingBuffers(const Extents& s)
      : shape(s),
        capacity(s.capacity > 0 ? s.capacity : (s.tokens + 63) / 64 * 64),
        probabilities(poisoned<float>(size(s.tokens, s.experts))),
        gate(poisoned<float>(size(s.tokens, s.top_k))),
        balance(poisoned<float>(size(s.experts, 1))),
        expert(poisoned<std::int32_t>(size(s.tokens, s.top_k))),
        slot(poisoned<std::int32_t>(size(s.tokens, s.top_k))),
        assignment(poisoned<std::int32_t>(size(s.experts, capacity))),
        count(poisoned<std::int32_t>(size(s.experts, 1))),
        dropped(poisoned<std::int32_t>(size(s.experts, 1))),
        tally(poisoned<Tally>(1)),
        total(poisoned<Tally>(1)) {}
  static std::size_t size(int a, int b) {
    return static_cast<std::size_t>(a) * static_cast<std::size_t>(b);
  }
  [[nodiscard]] Routing view() const {
    return {.probabilities = probabilities.data(),
            .expert = expert.data(),
            .gate = gate.data(),
            .slot = slot.data(),
            .assignment = assignment.data(),
            .count = count.data(),
            .dropped = dropped.data(),
            .tally = tally.data(),
            .total = total.data(),
            .balance = balance.data(),
            .tokens = shape.tokens,
            .experts = shape.experts,
            .top_k = shape.top_k,
            .capacity = capacity};
  }
  Extents shape;
  int capacity;
  gpu::Buffer<float> probabilities, gate, balance;
  gpu::Buffer<std::int32_t> expert, slot, assignment, count, dropped;
  gpu::Buffer<Tally> tally, total;
};

class Router : public ::testing::TestWithParam<Extents> {
 protected:
  const Extents shape = GetParam();
  const std::size_t tokens = static_cast<std::size_t>(shape.tokens);
  const std::size_t experts = static_cast<std::size_t>(shape.experts);
  const std::size_t top_k = static_cast<std::size_t>(shape.top_k);
  const std::vector<bf16> x = testing::normal_bf16(tokens * kWidth, 1);
  const std::vector<float> weight = testing::normal_f32(experts * kWidth, 2, 0.2);
  const gpu::Buffer<bf16> x_device = on_device(x);
  const gpu::Buffer<float> weight_device = on_device(weight);
  RoutingBuffers buffers{shape};

  void forward() {
    router_forward({x_device.data(), weight_device.data(), buffers.view(), kWidth}, queue());
    add_tallies(buffers.tally.data(), 1, buffers.view(), queue());
  }
  // Softmax of one token's logits for inputs in double.
  [[nodiscard]] std::vector<double> probabilities_of(const std::vector<double>& x_row,
                                                     const std::vector<double>& w) const {
    std::vector<double> logits(experts, 0.0);
    for (std::size_t e = 0; e < experts; ++e)
      for (std::size_t c = 0; c < kWidth; ++c) logits[e] += x_row[c] * w[e * kWidth + c];
    return testing::softmax(logits, experts);
  }
  [[nodiscard]] std::vector<double> row_of(std::size_t token) const {
    const std::vector<double> all = widen(x);
    return {all.begin() + static_cast<std::ptrdiff_t>(token * kWidth),
            all.begin() + static_cast<std::ptrdiff_t>((token + 1) * kWidth)};
  }
};

TEST_P(Router, ChoosesTheMostProbableAndRenormalises) {
  forward();
  const auto probabilities = buffers.probabilities.download();
  const auto expert = buffers.expert.download();
  const auto gate = buffers.gate.download();
  for (std::size_t token = 0; token < tokens; ++token) {
    const auto want = probabilities_of(row_of(token), widen(weight));
    const std::vector<float> got(
        probabilities.begin() + static_cast<std::ptrdiff_t>(token * experts),
        probabilities.begin() + static_cast<std::ptrdiff_t>((token + 1) * experts));
    // Logits of magnitude 5 at most, 64 terms; exp turns their absolute error into a relative one.
    ASSERT_EQ(testing::first_mismatch(got, want, {.relative = 5 * 64 * kF32Rounding}), "")
        << "token " << token;
    std::vector<char> taken(experts, 0);
    double chosen = 0;
    for (std::size_t j = 0; j < top_k; ++j) {
      const std::int32_t e = expert[token * top_k + j];
      ASSERT_TRUE(e >= 0 && e < shape.experts && taken[static_cast<std::size_t>(e)] == 0)
          << "token " << token;
      taken[static_cast<std::size_t>(e)] = 1;
      chosen += static_cast<double>(got[static_cast<std::size_t>(e)]);
      if (j > 0) {
        EXPECT_GE(got[static_cast<std::size_t>(expert[token * top_k + j - 1])],
                  got[static_cast<std::size_t>(e)]);
      }
    }
    double sum = 0;
    for (std::size_t j = 0; j < top_k; ++j) {
      const auto e = static_cast<std::size_t>(expert[token * top_k + j]);
      EXPECT_NEAR(gate[token * top_k + j], static_cast<double>(got[e]) / chosen, 8 * kF32Rounding);
      sum += static_cast<double>(gate[token * top_k + j]);
      for (std::size_t other = 0; other < experts; ++other) {
        EXPECT_TRUE(taken[other] != 0 || got[other] <= got[e]) << "token " << token;
      }
    }
    EXPECT_NEAR(sum, 1.0, 8 * kF32Rounding);
  }
}

TEST_P(Router, SlotsCountUpInTokenOrderAsLongAsThereIsRoom) {
  forward();
  const auto expert = buffers.expert.download();
  const auto slot = buffers.slot.download();
  const auto assignment = buffers.assignment.download();
  const auto balance = buffers.balance.download();
  const Tally tally = buffers.tally.download()[0];
  const auto probabilities = buffers.probabilities.download();
  std::vector<std::int32_t> next(experts, 0);
  for (std::size_t i = 0; i < tokens * top_k; ++i) {
    const auto e = static_cast<std::size_t>(expert[i]);
    if (next[e] < buffers.capacity) {
      EXPECT_EQ(slot[i], next[e]);
      EXPECT_EQ(assignment[e * static_cast<std::size_t>(buffers.capacity) +
                           static_cast<std::size_t>(next[e])],
                static_cast<std::int32_t>(i));
    } else {
      EXPECT_EQ(slot[i], -1);
    }
    ++next[e];
  }
  EXPECT_EQ(tally.tokens, shape.tokens);
  const auto count = buffers.count.download(), dropped = buffers.dropped.download();
  for (std::size_t e = 0; e < experts; ++e) {
    EXPECT_EQ(tally.chosen[e], next[e]);
    EXPECT_EQ(count[e], std::min(next[e], buffers.capacity));
    EXPECT_EQ(dropped[e], next[e] - count[e]);
  }
  for (std::size_t e = 0; e < experts; ++e) {
    double mean = 0;
    for (std::size_t token = 0; token < tokens; ++token)
      mean += static_cast<double>(probabilities[token * experts + e]) / static_cast<double>(tokens);
    EXPECT_NEAR(balance[e], mean * next[e] / static_cast<double>(tokens * top_k),
                (static_cast<double>(tokens) + 8) * kF32Rounding);
  }
}

// The VJP against central differences, in double, of the scalar J(x, W) = Σ d_gate·gate + Σ
// d_rows·x (the experts' inputs) + aux·experts·Σ f_e·P_e with the choice of experts and the shares
// f_e held fixed: both are constant around any point that is no tie.
TEST_P(Router, VjpMatchesFiniteDifferences) {
  forward();
  const std::size_t capacity = static_cast<std::size_t>(buffers.capacity);
  const auto d_gate = testing::normal_f32(experts * capacity, 3);
  const auto d_rows = testing::normal_f32(experts * capacity * kWidth, 4);
  const auto d_gate_device = on_device(d_gate), d_rows_device = on_device(d_rows);
  auto d_logits = poisoned<float>(tokens * experts);
  auto dx = poisoned<float>(tokens * kWidth);
  auto d_weight = poisoned<float>(experts * kWidth);
  const float aux_weight = 0.5f;
  router_vjp({.x = x_device.data(),
              .weight = weight_device.data(),
              .d_gate = d_gate_device.data(),
              .d_rows = d_rows_device.data(),
              .routing = buffers.view(),
              .aux_weight = aux_weight,
              .d_logits = d_logits.data(),
              .dx = dx.data(),
              .d_weight = d_weight.data(),
              .width = kWidth},
             queue());
  const auto expert = buffers.expert.download();
  const auto slot = buffers.slot.download();
  const Tally total = buffers.total.download()[0];

  const auto objective_of = [&](std::size_t token, const std::vector<double>& row,
                                const std::vector<double>& w) {
    const auto p = probabilities_of(row, w);
    double objective = 0;
    double chosen = 0;
    for (std::size_t j = 0; j < top_k; ++j)
      chosen += p[static_cast<std::size_t>(expert[token * top_k + j])];
    for (std::size_t j = 0; j < top_k; ++j) {
      const auto e = static_cast<std::size_t>(expert[token * top_k + j]);
      if (slot[token * top_k + j] < 0) continue;  // dropped: reaches nothing
      const std::size_t at = e * capacity + static_cast<std::size_t>(slot[token * top_k + j]);
      objective += static_cast<double>(d_gate[at]) * p[e] / chosen;
      for (std::size_t c = 0; c < kWidth; ++c)
        objective += static_cast<double>(d_rows[at * kWidth + c]) * row[c];
    }
    for (std::size_t e = 0; e < experts; ++e)
      objective += static_cast<double>(aux_weight) * static_cast<double>(experts) *
                   total.chosen[e] / static_cast<double>(tokens * top_k) * p[e] /
                   static_cast<double>(tokens);
    return objective;
  };
  const double step = 1e-5;
  const std::vector<double> w = widen(weight);
  const auto got_dx = dx.download();
  for (const std::size_t token : {std::size_t{0}, tokens / 2, tokens - 1}) {
    for (std::size_t c = 0; c < kWidth; c += 7) {
      std::vector<double> above = row_of(token), below = row_of(token);
      above[c] += step;
      below[c] -= step;
      const double want =
          (objective_of(token, above, w) - objective_of(token, below, w)) / (2 * step);
      EXPECT_NEAR(got_dx[token * kWidth + c], want, 1e-4) << "token " << token << " column " << c;
    }
  }
  const auto got_dw = d_weight.download();
  for (std::size_t i = 0; i < experts * kWidth; i += 37) {
    std::vector<double> above = w, below = w;
    above[i] += step;
    below[i] -= step;
    double want = 0;
    for (std::size_t token = 0; token < tokens; ++token)
      want +=
          (objective_of(token, row_of(token), above) - objective_of(token, row_of(token), below)) /
          (2 * step);
    // `tokens` terms of magnitude |d_logit·x| ~ 1.
    EXPECT_NEAR(got_dw[i], want, 1e-4 + static_cast<double>(tokens) * 20 * kF32Rounding)
        << "weight " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, Router,
                         ::testing::Values(Extents{1, 1, 1}, Extents{1, 4, 2}, Extents{65, 4, 2},
                                           Extents{64, 4, 4}, Extents{40, 64, 8},
                                           Extents{65, 4, 2, 20}),
                         [](const auto& instance) {
                           return std::to_string(instance.param.tokens) + "tokens" +
                                  std::to_string(instance.param.experts) + "experts" +
                                  std::to_string(instance.param.top_k) + "chosen" +
                                  std::to_string(instance.param.capacity) + "rows";
                         });

TEST(RouterContract, TiesGoToTheLowerNumberAndNanKeepsIndicesLegal) {
  const Extents shape{2, 4, 2};
  std::vector<bf16> x(2 * kWidth, bf16{0});
  x[kWidth] = to_bf16(std::numeric_limits<float>::quiet_NaN());
  const auto x_device = on_device(x);
  const auto weight_device = on_device(testing::normal_f32(4 * kWidth, 1));
  RoutingBuffers buffers(shape);
  router_forward({x_device.data(), weight_device.data(), buffers.view(), kWidth}, queue());
  EXPECT_EQ(buffers.expert.download(), (std::vector<std::int32_t>{0, 1, 0, 1}));
  EXPECT_EQ(buffers.count.download(), (std::vector<std::int32_t>{2, 2, 0, 0}));
  EXPECT_TRUE(std::isnan(buffers.gate.download()[2]));
}

// Totals are sums over the ranks in order; ranks without tokens, and no tokens at all, are no
// special case.
TEST(RouterContract, TalliesOfSeveralRanksAddUp) {
  constexpr int kExperts = 3;
  std::vector<Tally> tallies(3);
  tallies[0] = {.tokens = 4, .chosen = {3, 5, 0}, .probability_sum = {1.5f, 2.0f, 0.5f}};
  tallies[1] = {.tokens = 0, .chosen = {}, .probability_sum = {}};
  tallies[2] = {.tokens = 6, .chosen = {0, 12, 0}, .probability_sum = {0.5f, 5.0f, 0.5f}};
  const auto tallies_device = on_device(tallies);
  const RoutingBuffers buffers({1, kExperts, 2});
  add_tallies(tallies_device.data(), 3, buffers.view(), queue());
  const Tally total = buffers.total.download()[0];
  EXPECT_EQ(total.tokens, 10);
  EXPECT_EQ(std::vector<std::int32_t>(total.chosen, total.chosen + kExperts),
            (std::vector<std::int32_t>{3, 17, 0}));
  const auto balance = buffers.balance.download();
  EXPECT_NEAR(balance[0], 3.0 / 20 * 0.2, 1e-7);
  EXPECT_NEAR(balance[1], 17.0 / 20 * 0.7, 1e-7);
  EXPECT_EQ(balance[2], 0.0f);
  const auto nobody = on_device(std::vector<Tally>(2));
  add_tallies(nobody.data(), 2, buffers.view(), queue());
  EXPECT_EQ(buffers.balance.download(), (std::vector<float>{0, 0, 0}));
}

}  // namespace
}  // namespace rungs::moe
