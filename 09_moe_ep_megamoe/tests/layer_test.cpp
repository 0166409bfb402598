/// The whole layer, forward and VJP, on 1, 2 and 4 ranks that are threads.

#include <rungs/testing/compare.hpp>
#include <rungs/testing/gpu_test.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "world.hpp"

namespace rungs::moe {
namespace {

constexpr int kExperts = 8;
constexpr int kEverything = std::numeric_limits<int>::max();

MoeCase of(std::string name, std::vector<int> tokens, std::vector<float> bias = {}) {
  MoeCase result;
  result.name = std::move(name);
  result.experts = kExperts;
  result.tokens = std::move(tokens);
  result.bias = std::move(bias);
  return result;
}

std::vector<MoeCase> routings() {
  std::vector<MoeCase> all = {
      of("OneRank", {70}),
      of("OneToken", {1}),
      of("TwoRanks", {40, 33}),
      of("TwoRanksOneWithoutTokens", {0, 37}),
      of("Balanced", {33, 33, 33, 33}),
      of("Skewed", {33, 33, 33, 33}, falling(kExperts, 0.7f)),
      of("AllToOneExpert", {40, 40, 40, 40}, favouring(kExperts, 3, 1, 12)),
      of("RankWithoutWork", {33, 33, 33, 33}, favouring(kExperts, 2, 2, -12)),
      of("UnequalTokens", {0, 1, 65, 17}),
      of("NobodyHasTokens", {0, 0, 0, 0}),
  };
  MoeCase& full = all.emplace_back(of("EveryExpertForEveryToken", {9, 20, 3, 12}));
  full.top_k = kExperts;
  MoeCase& single = all.emplace_back(of("OneExpertEach", {30, 0}));
  single.experts = 2;
  single.top_k = 1;
  return all;
}

class Routing : public ::testing::TestWithParam<MoeCase> {
 protected:
  const MoeInputs inputs = make_inputs(GetParam(), 1);
  void SetUp() override { RUNGS_NEEDS_DEVICE(); }
};

TEST_P(Routing, PaddedMatchesTheOracleWhenNothingIsDropped) {
  const auto got = run_layer(inputs, {.exchange = Exchange::kPadded});
  EXPECT_EQ(judge(got, reference_layer(inputs, kEverything)), "");
}

TEST_P(Routing, PaddedDropsInTokenOrderExactlyWhatDoesNotFit) {
  MoeInputs tight = inputs;
  tight.spec.capacity_factor = 0.625f;
  const Shape shape = tight.spec.shape();
  // The next whole number of 5/8 of an even share.
  const int capacity = std::max(
      1, (5 * shape.top_k * shape.max_tokens + 8 * shape.experts - 1) / (8 * shape.experts));
  const LayerReference want = reference_layer(tight, capacity);
  EXPECT_EQ(judge(run_layer(tight, {.exchange = Exchange::kPadded}), want), "");
}

TEST_P(Routing, CountedMatchesTheOracle) {
  const auto got = run_layer(inputs, {.exchange = Exchange::kCounted});
  EXPECT_EQ(judge(got, reference_layer(inputs, kEverything)), "");
}

TEST_P(Routing, CountedHasTheBitsOfOneRank) {
  const auto got = run_layer(inputs, {.exchange = Exchange::kCounted});
  const auto want = run_layer(on_one_rank(inputs), {.exchange = Exchange::kLocal});
  using testing::first_bit_difference;
  EXPECT_EQ(first_bit_difference(joined(got, &RankOutputs::out), want[0].out), "");
  EXPECT_EQ(first_bit_difference(joined(got, &RankOutputs::dx), want[0].dx), "");
  // Experts see the rows in the order of ranks, which here is that of the tokens.
  EXPECT_EQ(first_bit_difference(joined(got, &RankOutputs::d_up), want[0].d_up), "");
  EXPECT_EQ(first_bit_difference(joined(got, &RankOutputs::d_down), want[0].d_down), "");
  EXPECT_EQ(judge(want, reference_layer(on_one_rank(inputs), kEverything)), "");
  // All ranks sum the same tallies.
  for (const RankOutputs& rank : got)
    EXPECT_EQ(first_bit_difference(rank.balance, got[0].balance), "");
}

INSTANTIATE_TEST_SUITE_P(Cases, Routing, ::testing::ValuesIn(routings()),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace rungs::moe
