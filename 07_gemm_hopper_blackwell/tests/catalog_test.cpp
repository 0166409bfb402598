/// What the tour and the benches run: every rung on every case of the catalog that is small enough.

#include <rungs/gemm/catalog.hpp>
#include <rungs/testing/ladder_test.hpp>

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace rungs::gemm {
namespace {

/// The largest cases take the naive rung seconds to minutes: benches run them, tests do not.
std::vector<testing::LadderStep> small_steps() {
  std::vector<testing::LadderStep> steps = testing::ladder_steps(operations());
  std::erase_if(steps, [](const testing::LadderStep& step) {
    return !step.operation->cases[step.case_index].in_tour;
  });
  return steps;
}

std::string step_name(const ::testing::TestParamInfo<testing::LadderStep>& info) {
  return info.param.name();
}

class Catalog : public ::testing::TestWithParam<testing::LadderStep> {};

TEST_P(Catalog, Checked) { testing::expect_checked(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Gemm, Catalog, ::testing::ValuesIn(small_steps()), step_name);

TEST(Catalog07, NamesItsPeerAndWhyItIsMissing) {
  const ladder::Operation gemm = operations().at(0);
  ASSERT_EQ(gemm.peers.size(), 1u);
  EXPECT_EQ(gemm.peers[0].name, "cublas");
#if !RUNGS_GPU_CUDA
  EXPECT_NE(gemm.peers[0].unavailable(ladder::Machine{}).find("CUDA build"), std::string::npos);
#endif
}

}  // namespace
}  // namespace rungs::gemm
