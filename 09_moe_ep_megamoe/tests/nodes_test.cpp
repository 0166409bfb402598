/// Two pretend nodes of two ranks: mapped memory inside a node, the HCA between them, posted by the
/// proxy and by the kernels themselves.

#include <rungs/testing/compare.hpp>

#include <gtest/gtest.h>

#include <limits>

#include "support.hpp"
#include "world.hpp"

namespace rungs::moe {
namespace {

class TwoNodes : public ::testing::TestWithParam<symmetric::Network> {};

TEST_P(TwoNodes, HaveTheBitsOfOneRank) {
  RUNGS_NEEDS_DEVICE();
  MoeCase spec;
  spec.tokens = {33, 0, 20, 40};
  spec.bias = falling(spec.experts, 0.4f);
  const MoeInputs inputs = make_inputs(spec, 5);
  const auto got =
      run_layer(inputs, {.exchange = Exchange::kCounted, .network = GetParam()}, /*a host*/ 2);
  const auto want = run_layer(on_one_rank(inputs), {.exchange = Exchange::kLocal});
  using testing::first_bit_difference;
  EXPECT_EQ(first_bit_difference(joined(got, &RankOutputs::out), want[0].out), "");
  EXPECT_EQ(first_bit_difference(joined(got, &RankOutputs::dx), want[0].dx), "");
  EXPECT_EQ(first_bit_difference(joined(got, &RankOutputs::d_up), want[0].d_up), "");
  EXPECT_EQ(first_bit_difference(joined(got, &RankOutputs::d_down), want[0].d_down), "");
  EXPECT_EQ(judge(got, reference_layer(inputs, std::numeric_limits<int>::max())), "");
}

INSTANTIATE_TEST_SUITE_P(, TwoNodes,
                         ::testing::Values(symmetric::Network::kProxy,
                                           symmetric::Network::kGpuInitiated),
                         [](const auto& instance) {
                           return instance.param == symmetric::Network::kProxy ? "Proxy"
                                                                               : "GpuInitiated";
                         });

}  // namespace
}  // namespace rungs::moe
