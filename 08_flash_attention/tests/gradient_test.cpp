/// The backward rungs against finite differences of the oracle's forward pass: a check that shares
/// no derivation with them, nor with the oracle's backward.

#include "catalog/attention_problem.hpp"

#include <rungs/attention/attention.hpp>
#include <rungs/gpu/stream.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace rungs::attention {
namespace {

/// d(Σ o·dO)/d(values[e]) by the central difference with step 2^-12: its error is about step²·f'''
/// < 1e-6 here.
std::vector<double> differences(const testing::AttentionShape& shape,
                                std::vector<double> (&inputs)[3], int which,
                                std::span<const double> d_o) {
  constexpr double kStep = 0x1p-12;
  const auto loss = [&] {
    const std::vector<double> o =
        testing::attention_forward(shape, inputs[0], inputs[1], inputs[2]).o;
    double sum = 0;
    for (std::size_t e = 0; e < o.size(); ++e) sum += o[e] * d_o[e];
    return sum;
  };
  std::vector<double> result;
  for (double& value : inputs[which]) {
    const double kept = value;
    value = kept + kStep;
    const double above = loss();
    value = kept - kStep;
    const double below = loss();
    value = kept;
    result.push_back((above - below) / (2 * kStep));
  }
  return result;
}

class Gradient : public ::testing::TestWithParam<bool> {};

TEST_P(Gradient, IsTheSlopeOfTheForwardPass) {
  const gpu::Device device = gpu::Device::open(0);
  for (const auto& [queries, keys] : {std::pair{5, 7}, std::pair{7, 5}, std::pair{6, 6}}) {
    ProblemShape shape;
    shape.queries = queries;
    shape.keys = keys;
    shape.heads = 2;
    shape.head_dim = 16;
    shape.causal = GetParam();
    BackwardProblem problem(shape, device, 5);
    static_cast<void>(problem.reference());  // fills the bounds
    const Inputs& in = problem.inputs();
    std::vector<double> inputs[3] = {{in.exact_q().begin(), in.exact_q().end()},
                                     {in.exact_k().begin(), in.exact_k().end()},
                                     {in.exact_v().begin(), in.exact_v().end()}};
    std::vector<double> slopes;
    for (int which = 0; which < 3; ++which) {
      const std::vector<double> part =
          differences(in.oracle_shape(), inputs, which, problem.exact_d_o());
      slopes.insert(slopes.end(), part.begin(), part.end());
    }
    for (const auto& rung : kBackwardLadder) {
      problem.reset();
      const gpu::Stream stream(device);
      const std::unique_ptr<ladder::Prepared> prepared = rung.prepare(problem.args(), {&device, 1});
      (*prepared)(stream);
      stream.synchronize();
      const std::vector<float> output = problem.output();
      ASSERT_EQ(output.size(), slopes.size());
      for (std::size_t e = 0; e < output.size(); ++e) {
        ASSERT_TRUE(std::abs(output[e] - slopes[e]) <= problem.bound(e) + 1e-6)
            << rung.name << ": " << problem.describe(e) << " is " << output[e] << ", slope "
            << slopes[e];
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Masks, Gradient, ::testing::Bool(),
                         [](const auto& mask) { return mask.param ? "causal" : "full"; });

}  // namespace
}  // namespace rungs::attention
