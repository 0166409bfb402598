/// Every rung, every way the operands can lie, sizes around every tile edge: against the oracle,
/// element by element.

#include <rungs/gemm/gemm.hpp>
#include <rungs/gpu/stream.hpp>
#include <rungs/testing/compare.hpp>

#include "catalog/my_rungs.hpp"
#include "check.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <string>
#include <tuple>
#include <vector>

namespace rungs::gemm {
namespace {

struct Size {
  int m, n, k;
};

// 0 and 1; odd; one below, at and above 64, 128 and 256 (tiles) and 32 and 64 (depth of a step);
// more steps than the ring has stages, more tiles than the emulator has SMs.
constexpr std::array<Size, 18> kSizes{{{0, 5, 7},
                                       {5, 0, 7},
                                       {5, 7, 0},
                                       {1, 1, 1},
                                       {3, 5, 7},
                                       {63, 65, 31},
                                       {64, 64, 64},
                                       {65, 63, 65},
                                       {1, 300, 100},
                                       {300, 1, 33},
                                       {127, 129, 63},
                                       {128, 128, 128},
                                       {129, 255, 65},
                                       {128, 256, 127},
                                       {255, 257, 129},
                                       {257, 130, 320},
                                       {256, 512, 64},
                                       {300, 700, 392}}};

class Ladder : public OnDevice<::testing::TestWithParam<std::tuple<std::size_t, bool, bool>>> {
 protected:
  void SetUp() override { needs_rung(rung()); }
  ladder::Rung<Args> rung() const { return whole_ladder()[std::get<0>(GetParam())]; }
  GemmShape shape(const Size& size) const {
    GemmShape shape;
    shape.m = size.m;
    shape.n = size.n;
    shape.k = size.k;
    shape.a_m_major = std::get<1>(GetParam());
    shape.b_n_major = std::get<2>(GetParam());
    return shape;
  }
};

TEST_P(Ladder, StaysInsideItsErrorBound) {
  for (const Size& size : kSizes) EXPECT_EQ(check(rung(), shape(size), device()), "");
}

TEST_P(Ladder, IsExactOnSmallIntegers) {
  for (const Size& size : kSizes) {
    GemmShape integers = shape(size);
    integers.integers = true;
    EXPECT_EQ(check(rung(), integers, device()), "");
  }
}

TEST_P(Ladder, HonoursBetaOutputTypeAndStrides) {
  const std::array<Size, 5> sizes{
      {{5, 7, 0}, {65, 63, 65}, {128, 128, 64}, {129, 127, 96}, {130, 384, 130}}};
  const std::array<float, 4> betas{0.0f, 1.0f, 0.5f, -2.0f};
  std::size_t turn = 0;
  for (const Size& size : sizes) {
    for (const float beta : betas) {
      GemmShape strided = shape(size);
      strided.beta = beta;
      strided.c_dtype = turn % 2 == 0 ? DType::kBf16 : DType::kF32;
      strided.c_pad = static_cast<int>(turn % 4);  // 0, odd (no pair is aligned), even, odd
      strided.ab_pad = turn % 3 == 0 ? 8 : 0;
      EXPECT_EQ(check(rung(), strided, device()), "");
      ++turn;
    }
    ++turn;  // the other pairing of beta and type for the next size
  }
}

TEST_P(Ladder, GivesTheSameBitsTwice) {
  const ladder::Machine machine{&device(), 1};
  GemmProblem problem(shape({200, 260, 330}), device(), 5);
  const auto prepared = rung().prepare(problem.args(), machine);
  std::vector<std::vector<float>> outputs;
  for (int run = 0; run < 2; ++run) {
    problem.reset();
    (*prepared)(nullptr);
    gpu::synchronize(nullptr);
    outputs.push_back(problem.output());
  }
  EXPECT_EQ(judge(problem), "");
  EXPECT_EQ(testing::first_bit_difference(outputs[0], outputs[1]), "");
}

std::string case_name(const ::testing::TestParamInfo<std::tuple<std::size_t, bool, bool>>& info) {
  return std::string(whole_ladder()[std::get<0>(info.param)].name) +
         (std::get<1>(info.param) ? "_AMajorM" : "_AMajorK") +
         (std::get<2>(info.param) ? "_BMajorN" : "_BMajorK");
}

INSTANTIATE_TEST_SUITE_P(AllRungs, Ladder,
                         ::testing::Combine(::testing::Range(std::size_t{0}, whole_ladder().size()),
                                            ::testing::Bool(), ::testing::Bool()),
                         case_name);

}  // namespace
}  // namespace rungs::gemm
