/// Both ladders against the oracle: every element of every output, within the chapter's bound.

#include "catalog/attention_problem.hpp"
#include "low_precision.hpp"

#include <rungs/attention/attention.hpp>
#include <rungs/attention/catalog.hpp>
#include <rungs/gpu/stream.hpp>
#include <rungs/testing/compare.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace rungs::attention {
namespace {

ProblemShape shape(int batch, int queries, int keys, int heads, int head_dim, bool causal) {
  ProblemShape result;
  result.batch = batch;
  result.queries = queries;
  result.keys = keys;
  result.heads = heads;
  result.head_dim = head_dim;
  result.causal = causal;
  return result;
}

ProblemShape laid_out(ProblemShape base, bool packed, int pad, int offset) {
  base.packed = packed;
  base.pad = pad;
  base.offset = offset;
  return base;
}

ProblemShape scaled(ProblemShape base, float scale) {
  base.scale = scale;
  return base;
}

/// One element; the tile (64), the key tile (32) and the step (16) at -1, 0, +1; the odd pairs of
/// FlashAttention's own tests; more queries than keys; every compiled head_dim, and some that only
/// the materialised rung takes.
std::vector<ProblemShape> shapes() {
  return {
      shape(1, 1, 1, 1, 32, false),
      shape(1, 1, 1, 2, 64, true),
      shape(2, 64, 64, 6, 32, true),
      shape(1, 64, 64, 1, 16, true),
      shape(1, 64, 128, 2, 64, true),
      shape(1, 128, 192, 1, 128, true),
      shape(1, 113, 203, 2, 64, false),
      shape(1, 113, 203, 1, 32, true),
      shape(1, 113, 128, 1, 128, false),
      shape(1, 128, 217, 1, 64, true),
      shape(1, 113, 211, 2, 32, true),
      shape(1, 108, 256, 1, 64, true),
      shape(1, 108, 256, 2, 32, false),
      shape(1, 239, 1, 2, 64, false),
      shape(1, 239, 1, 1, 32, true),
      shape(1, 799, 3, 1, 32, true),
      shape(1, 256, 128, 1, 64, true),
      shape(2, 63, 65, 2, 32, true),
      shape(2, 65, 63, 2, 32, true),
      shape(1, 33, 31, 3, 16, false),
      shape(1, 15, 17, 2, 128, true),
      shape(1, 17, 15, 1, 128, true),
      shape(1, 1, 257, 6, 64, true),
      shape(1, 31, 45, 2, 40, true),
      shape(1, 45, 31, 2, 40, false),
      shape(2, 9, 9, 2, 1, true),
      shape(1, 17, 29, 1, 256, true),
      laid_out(shape(2, 64, 64, 4, 32, true), true, 0, 0),
      laid_out(shape(1, 97, 97, 2, 64, false), true, 24, 8),
      laid_out(shape(1, 70, 70, 2, 64, true), true, 3, 1),
      laid_out(shape(1, 33, 50, 2, 128, true), false, 5, 3),
      laid_out(shape(1, 20, 20, 2, 40, true), true, 1, 1),
      scaled(shape(1, 40, 50, 2, 32, true), 1.5f),
      scaled(shape(1, 40, 50, 2, 32, false), -0.25f),
      scaled(shape(1, 40, 70, 2, 32, true), 16.0f),  // exp(score) would overflow
  };
}

std::string name_of(const ::testing::TestParamInfo<ProblemShape>& info) {
  std::string name = to_string(info.param);
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

/// Runs one rung on a poisoned problem.
template <class Args, class Problem>
std::vector<float> run(const ladder::Rung<Args>& rung, Problem& problem,
                       const gpu::Device& device) {
  problem.reset();
  const gpu::Stream stream(device);
  const std::unique_ptr<ladder::Prepared> prepared = rung.prepare(problem.args(), {&device, 1});
  (*prepared)(stream);
  stream.synchronize();
  return problem.output();
}

/// Every rung that takes the shape, against the oracle; a rung that refuses must say why.
template <class Problem, class Ladder>
void expect_within_bounds(const Ladder& ladder, const ProblemShape& shape) {
  const gpu::Device device = gpu::Device::open(0);
  Problem problem(shape, device, 7);
  const ladder::Reference reference = problem.reference();
  for (const auto& rung : ladder) {
    const ladder::Support support = rung.supports(problem.args(), {&device, 1});
    if (!support.ok) {
      EXPECT_NE(rung.name, "materialised");
      EXPECT_NE(support.reason.find("head_dim"), std::string_view::npos) << support.reason;
      continue;
    }
    const std::vector<float> output = run(rung, problem, device);
    ASSERT_EQ(output.size(), reference.values.size());
    for (std::size_t e = 0; e < output.size(); ++e) {
      if (output[e] == reference.values[e]) continue;  // equal infinities included
      const double error = std::abs(output[e] - reference.values[e]);
      ASSERT_TRUE(error <= problem.bound(e))
          << rung.name << ": " << problem.describe(e) << " is " << output[e] << ", the oracle says "
          << reference.values[e] << ", bound " << problem.bound(e);
    }
    EXPECT_EQ(problem.stray_write(), "") << rung.name;
  }
}

class AttentionLadder : public ::testing::TestWithParam<ProblemShape> {};

TEST_P(AttentionLadder, ForwardWithinBound) {
  expect_within_bounds<ForwardProblem>(kForwardLadder, GetParam());
}
TEST_P(AttentionLadder, BackwardWithinBound) {
  expect_within_bounds<BackwardProblem>(kBackwardLadder, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Shapes, AttentionLadder, ::testing::ValuesIn(shapes()), name_of);

/// A head's values repeated over all heads, turned: how the catalog's large cases are checked.
TEST(Attention, ReplicatedHeadsWithinBound) {
  ProblemShape replicated = shape(3, 40, 40, 2, 32, true);
  replicated.replicated = true;
  expect_within_bounds<ForwardProblem>(kForwardLadder, replicated);
  expect_within_bounds<BackwardProblem>(kBackwardLadder, replicated);
}

/// FlashAttention's own criterion: the error against the exact result is at most twice (gradients:
/// three times) that of the same formulas with every intermediate rounded to bf16, plus twice the
/// rounding of the result's offset by 0.3.
TEST(Attention, NoWorseThanTwiceTheLowPrecisionFormulas) {
  const gpu::Device device = gpu::Device::open(0);
  for (const ProblemShape& s :
       {shape(1, 113, 203, 2, 64, false), shape(2, 64, 64, 2, 32, true),
        shape(1, 128, 217, 1, 128, true), shape(1, 108, 256, 1, 64, true)}) {
    SCOPED_TRACE(to_string(s));
    ForwardProblem forward(s, device, 11);
    const std::vector<double> exact = forward.reference().values;
    const Inputs& in = forward.inputs();
    const auto low =
        low_precision::forward(in.oracle_shape(), in.exact_q(), in.exact_k(), in.exact_v());
    for (const auto& rung : kForwardLadder) {
      const std::vector<float> output = run(rung, forward, device);
      EXPECT_EQ(low_precision::worse_than(output, low, exact, low.size(), 2), "") << rung.name;
    }
    BackwardProblem backward(s, device, 11);
    const std::vector<double> exact_gradients = backward.reference().values;
    const auto low_gradients = low_precision::backward(
        in.oracle_shape(), in.exact_q(), in.exact_k(), in.exact_v(), backward.exact_d_o());
    for (const auto& rung : kBackwardLadder) {
      const std::vector<float> output = run(rung, backward, device);
      EXPECT_EQ(low_precision::worse_than(output, low_gradients, exact_gradients,
                                          low_gradients.size(), 3),
                "")
          << rung.name;
    }
  }
}

/// Same inputs, same bits: no sum depends on timing, and the loads' width changes nothing.
TEST(Attention, SameBitsEveryRunAndForEveryAlignment) {
  const gpu::Device device = gpu::Device::open(0);
  const ProblemShape s = shape(2, 130, 150, 2, 64, true);
  ForwardProblem aligned(s, device, 3);
  ForwardProblem shifted(laid_out(s, false, 3, 1), device, 3);
  BackwardProblem backward(s, device, 3);
  BackwardProblem backward_shifted(laid_out(s, false, 3, 1), device, 3);
  for (const auto& rung : kForwardLadder) {
    const std::vector<float> first = run(rung, aligned, device);
    for (int repeat = 0; repeat < 3; ++repeat) {
      EXPECT_EQ(testing::first_bit_difference(run(rung, aligned, device), first), "") << rung.name;
    }
    EXPECT_EQ(testing::first_bit_difference(run(rung, shifted, device), first), "") << rung.name;
  }
  for (const auto& rung : kBackwardLadder) {
    const std::vector<float> first = run(rung, backward, device);
    for (int repeat = 0; repeat < 3; ++repeat) {
      EXPECT_EQ(testing::first_bit_difference(run(rung, backward, device), first), "") << rung.name;
    }
    EXPECT_EQ(testing::first_bit_difference(run(rung, backward_shifted, device), first), "")
        << rung.name;
  }
}

TEST(Attention, CatalogCasesPass) {
  const gpu::Device device = gpu::Device::open(0);
  const ladder::Machine machine{&device, 1};
  int ran = 0;
  for (const ladder::Operation& operation : operations()) {
    for (std::size_t c = 0; c < operation.cases.size(); ++c) {
      if (operation.cases[c].gpu_only) continue;
      for (std::size_t rung = 0; rung < operation.rungs.size(); ++rung) {
        ASSERT_TRUE(operation.supports(rung, c, machine).ok);
        const ladder::Outcome outcome = operation.run(rung, c, machine, 1);
        EXPECT_TRUE(outcome.checked)
            << operation.name << " " << operation.cases[c].name << ": " << outcome.note;
        ++ran;
      }
    }
  }
  EXPECT_EQ(ran, 16);
}

}  // namespace
}  // namespace rungs::attention
