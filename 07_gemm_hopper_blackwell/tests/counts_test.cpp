/// Counts that live on the device: rows and depth that are known only when the kernel runs.

#include <rungs/gemm/gemm.hpp>
#include <rungs/gpu/graph.hpp>
#include <rungs/gpu/stream.hpp>

#include "catalog/my_rungs.hpp"
#include "check.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <string>

namespace rungs::gemm {
namespace {

class Counts : public OnDevice<::testing::TestWithParam<std::size_t>> {
 protected:
  void SetUp() override { needs_rung(rung()); }
  ladder::Rung<Args> rung() const { return whole_ladder()[GetParam()]; }
};

GemmShape sized(int m, int n, int k) {
  GemmShape shape;
  shape.m = m;
  shape.n = n;
  shape.k = k;
  return shape;
}

// The problem fills dead rows of A and depth past the last tile with NaN, so reading them shows.
TEST_P(Counts, RowsPastTheCountAreNeitherUsedNorWritten) {
  for (const bool a_m_major : {false, true}) {
    for (const int rows : {0, 1, 63, 64, 65, 127, 128, 129, 199, 200, 205, -1}) {
      GemmShape shape = sized(200, 136, 72);
      shape.a_m_major = a_m_major;
      shape.valid_rows = rows;
      shape.beta = rows % 2 == 0 ? 0.0f : 0.5f;
      shape.c_dtype = rows % 3 == 0 ? DType::kBf16 : DType::kF32;
      EXPECT_EQ(check(rung(), shape, device()), "");
    }
  }
}

TEST_P(Counts, DepthPastTheCountIsNotSummed) {
  for (const bool mn_major : {false, true}) {
    for (const int depth : {0, 1, 63, 64, 65, 128, 129, 299, 300, 310, -1}) {
      GemmShape shape = sized(130, 70, 300);
      shape.a_m_major = mn_major;
      shape.b_n_major = mn_major;
      shape.valid_depth = depth;
      shape.beta = depth % 2 == 0 ? 1.0f : 0.0f;
      EXPECT_EQ(check(rung(), shape, device()), "");
    }
  }
}

TEST_P(Counts, BothAtOnce) {
  GemmShape shape = sized(300, 260, 256);
  shape.valid_rows = 131;
  shape.valid_depth = 192;
  EXPECT_EQ(check(rung(), shape, device()), "");
}

TEST_P(Counts, ACapturedProductFollowsThem) {
  const ladder::Machine machine{&device(), 1};
  GemmShape shape = sized(260, 132, 320);
  shape.valid_rows = 260;
  shape.valid_depth = 320;
  GemmProblem problem(shape, device(), 3);
  const auto prepared = rung().prepare(problem.args(), machine);
  const gpu::Stream stream(device());
  const gpu::Graph graph = gpu::Graph::capture(stream, [&] { (*prepared)(stream); });
  EXPECT_EQ(graph.node_count(), 1u);
  const std::array<std::array<int, 2>, 5> counts{
      {{260, 320}, {129, 64}, {0, 320}, {64, 0}, {200, 192}}};
  for (const auto& [rows, depth] : counts) {
    problem.set_valid_rows(rows);
    problem.set_valid_depth(depth);
    problem.reset();
    graph.replay(stream);
    stream.synchronize();
    EXPECT_EQ(judge(problem), "") << rung().name << " with " << rows << " rows, depth " << depth;
  }
}

std::string rung_name(const ::testing::TestParamInfo<std::size_t>& info) {
  return std::string(whole_ladder()[info.param].name);
}

INSTANTIATE_TEST_SUITE_P(AllRungs, Counts, ::testing::Range(std::size_t{0}, whole_ladder().size()),
                         rung_name);

}  // namespace
}  // namespace rungs::gemm
