// exercises/07/example.cu as a reader's mine.cu: at the end of the ladder, and right.

#include <rungs/gemm/catalog.hpp>
#include <rungs/gemm/gemm.hpp>
#include <rungs/testing/ladder_test.hpp>

#include "catalog/my_rungs.hpp"
#include "check.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

namespace rungs::gemm {
namespace {

TEST(Example, StandsAtTheEndOfTheLadder) {
  const std::vector<ladder::Operation> all = operations();
  ASSERT_EQ(all.size(), 1u);
  ASSERT_EQ(all[0].rungs.size(), kLadder.size() + 1);
  EXPECT_EQ(all[0].rungs.back().name, "mine");
  EXPECT_EQ(my_rungs().size(), 1u);
}

/// Its catalog cases, as `./rungs tour` and `bench` run them.
std::vector<testing::LadderStep> steps_of_mine() {
  std::vector<testing::LadderStep> steps = testing::ladder_steps(operations());
  std::erase_if(steps, [](const testing::LadderStep& step) {
    return step.operation->rungs[step.rung].name != "mine" ||
           !step.operation->cases[step.case_index].in_tour;
  });
  return steps;
}

class Example : public ::testing::TestWithParam<testing::LadderStep> {};
TEST_P(Example, Checked) { testing::expect_checked(GetParam()); }
INSTANTIATE_TEST_SUITE_P(Catalog, Example, ::testing::ValuesIn(steps_of_mine()),
                         [](const auto& tested) { return tested.param.name(); });

class ExampleOnDevice : public OnDevice<::testing::Test> {};

/// No width is a multiple of its quads, and no operand lies as the last.
TEST_F(ExampleOnDevice, OddShapesAndTransposedOperands) {
  const std::array<std::array<int, 3>, 6> sizes{
      {{0, 5, 7}, {5, 7, 0}, {1, 1, 1}, {3, 5, 7}, {65, 63, 33}, {9, 130, 65}}};
  for (const auto& [m, n, k] : sizes) {
    for (int layout = 0; layout < 4; ++layout) {
      GemmShape shape;
      shape.m = m;
      shape.n = n;
      shape.k = k;
      shape.a_m_major = layout % 2 == 1;
      shape.b_n_major = layout / 2 == 1;
      shape.beta = layout == 3 ? 0.5f : 0.0f;
      EXPECT_EQ(check(my_rungs().front(), shape, device()), "");
    }
  }
}

}  // namespace
}  // namespace rungs::gemm
