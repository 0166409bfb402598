#include <rungs/core/error.hpp>
#include <rungs/testing/compare.hpp>
#include <rungs/testing/oracle.hpp>
#include <rungs/testing/random.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

namespace rungs::testing {
namespace {

using Doubles = std::vector<double>;

Doubles normal(std::size_t count, std::uint64_t seed) { return to_double(normal_f32(count, seed)); }

double dot(const Doubles& x, const Doubles& y) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += x[i] * y[i];
  return sum;
}

// The gradient of `loss` at `x` by central differences. Its error is step² for these functions,
// whose third derivatives are of order one: 1e-8 with the step 1e-4, and rounding adds 1e-12.
Doubles numeric_gradient(Doubles x, const std::function<double(const Doubles&)>& loss) {
  constexpr double kStep = 1e-4;
  Doubles gradient(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double at = x[i];
    x[i] = at + kStep;
    const double above = loss(x);
    x[i] = at - kStep;
    gradient[i] = (above - loss(x)) / (2 * kStep);
    x[i] = at;
  }
  return gradient;
}
constexpr Tolerance kNumeric{.relative = 1e-6, .absolute = 1e-6};

TEST(Oracle, MatmulByHand) {
  const Doubles a{1, 2, 3, 4, 5, 6};     // [2, 3]
  const Doubles b{7, 8, 9, 10, 11, 12};  // [3, 2]
  EXPECT_EQ(matmul(a, b, 2, 2, 3), (Doubles{58, 64, 139, 154}));
  const Doubles at{1, 4, 2, 5, 3, 6};
  const Doubles bt{7, 9, 11, 8, 10, 12};
  EXPECT_EQ(matmul(at, b, 2, 2, 3, Layout::kTransposed), (Doubles{58, 64, 139, 154}));
  EXPECT_EQ(matmul(a, bt, 2, 2, 3, Layout::kPlain, Layout::kTransposed),
            (Doubles{58, 64, 139, 154}));
  EXPECT_EQ(matmul(at, bt, 2, 2, 3, Layout::kTransposed, Layout::kTransposed),
            (Doubles{58, 64, 139, 154}));
  EXPECT_EQ(matmul({}, {}, 2, 2, 0), (Doubles{0, 0, 0, 0}));
  EXPECT_THROW(matmul(a, b, 2, 2, 2), Error);
  EXPECT_EQ(magnitudes(Doubles{-1, 2}), (Doubles{1, 2}));
}

TEST(Oracle, AttentionOfEqualScoresIsTheMean) {
  AttentionShape shape;
  shape.queries = 2;
  shape.keys = 4;
  shape.head_dim = 1;
  const Doubles v{1, 2, 3, 6};
  const AttentionForward full = attention_forward(shape, Doubles{0, 0}, Doubles{5, 6, 7, 8}, v);
  EXPECT_EQ(first_mismatch(full.o, Doubles{3, 3}, {.relative = 1e-15}), "");
  EXPECT_EQ(first_mismatch(full.lse, Doubles{std::log(4), std::log(4)}, {.relative = 1e-15}), "");
  // Bottom-right aligned: query 0 sees keys 0..2, query 1 all four.
  shape.causal = true;
  const AttentionForward causal = attention_forward(shape, Doubles{0, 0}, Doubles{5, 6, 7, 8}, v);
  EXPECT_EQ(first_mismatch(causal.o, Doubles{2, 3}, {.relative = 1e-15}), "");
}

TEST(Oracle, AttentionOfTwoKeysByHand) {
  AttentionShape shape;
  shape.keys = 2;
  shape.head_dim = 1;
  shape.scale = 0.5;
  // Scores 0.5·2·{1, 3} = {1, 3}: weights e^1 and e^3.
  const AttentionForward out = attention_forward(shape, Doubles{2}, Doubles{1, 3}, Doubles{10, 20});
  const double p = 1 / (1 + std::exp(2.0));
  EXPECT_EQ(first_mismatch(out.o, Doubles{10 * p + 20 * (1 - p)}, {.relative = 1e-14}), "");
  EXPECT_EQ(first_mismatch(out.lse, Doubles{std::log(std::exp(1.0) + std::exp(3.0))},
                           {.relative = 1e-14}),
            "");
}

TEST(Oracle, QueriesThatSeeNoKeyGiveZero) {
  AttentionShape shape;
  shape.queries = 3;
  shape.keys = 1;
  shape.head_dim = 1;
  shape.causal = true;  // only the last query sees the key
  const Doubles q{1, 1, 1};
  const AttentionForward out = attention_forward(shape, q, Doubles{1}, Doubles{7});
  constexpr double kInf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(out.o, (Doubles{0, 0, 7}));
  EXPECT_EQ(out.lse, (Doubles{-kInf, -kInf, 1}));
  const AttentionBackward back =
      attention_backward(shape, q, Doubles{1}, Doubles{7}, Doubles{2, 3, 4});
  EXPECT_EQ(back.dq, (Doubles{0, 0, 0}));
  EXPECT_EQ(back.dv, (Doubles{4}));
}

class AttentionGradient : public ::testing::TestWithParam<bool> {};

TEST_P(AttentionGradient, AgreesWithDifferences) {
  AttentionShape shape{.batch = 2,
                       .queries = 3,
                       .keys = 4,
                       .heads = 2,
                       .head_dim = 3,
                       .scale = 0,
                       .causal = GetParam()};
  const Doubles q = normal(36, 1);
  const Doubles k = normal(48, 2);
  const Doubles v = normal(48, 3);
  const Doubles d_o = normal(36, 4);
  const AttentionBackward back = attention_backward(shape, q, k, v, d_o);
  const auto loss = [&](const Doubles& q2, const Doubles& k2, const Doubles& v2) {
    return dot(attention_forward(shape, q2, k2, v2).o, d_o);
  };
  EXPECT_EQ(
      first_mismatch(back.dq, numeric_gradient(q, [&](const Doubles& x) { return loss(x, k, v); }),
                     kNumeric),
      "");
  EXPECT_EQ(
      first_mismatch(back.dk, numeric_gradient(k, [&](const Doubles& x) { return loss(q, x, v); }),
                     kNumeric),
      "");
  EXPECT_EQ(
      first_mismatch(back.dv, numeric_gradient(v, [&](const Doubles& x) { return loss(q, k, x); }),
                     kNumeric),
      "");
}
INSTANTIATE_TEST_SUITE_P(, AttentionGradient, ::testing::Bool());

TEST(Oracle, SoftmaxRowsSumToOneAndDoNotOverflow) {
  EXPECT_EQ(softmax(Doubles{0, 0, 1000, 1000}, 2), (Doubles{0.5, 0.5, 0.5, 0.5}));
  const Doubles y = softmax(Doubles{0, std::log(3.0)}, 2);
  EXPECT_EQ(first_mismatch(y, Doubles{0.25, 0.75}, {.relative = 1e-15}), "");
  EXPECT_THROW(softmax(Doubles{1, 2, 3}, 2), Error);
}

TEST(Oracle, LayerNormByHandAndByDifferences) {
  const LayerNormForward by_hand =
      layer_norm_forward(Doubles{1, 3}, Doubles{2, 2}, Doubles{10, 20}, 0);
  EXPECT_EQ(by_hand.mean, (Doubles{2}));
  EXPECT_EQ(by_hand.rstd, (Doubles{1}));
  EXPECT_EQ(by_hand.y, (Doubles{8, 22}));

  const Doubles x = normal(15, 1);
  const Doubles weight = normal(5, 2);
  const Doubles bias = normal(5, 3);
  const Doubles dy = normal(15, 4);
  const LayerNormBackward back = layer_norm_backward(x, weight, dy, 1e-5);
  const auto loss = [&](const Doubles& x2, const Doubles& w2, const Doubles& b2) {
    return dot(layer_norm_forward(x2, w2, b2, 1e-5).y, dy);
  };
  EXPECT_EQ(
      first_mismatch(back.dx,
                     numeric_gradient(x, [&](const Doubles& a) { return loss(a, weight, bias); }),
                     kNumeric),
      "");
  EXPECT_EQ(
      first_mismatch(back.dweight,
                     numeric_gradient(weight, [&](const Doubles& a) { return loss(x, a, bias); }),
                     kNumeric),
      "");
  EXPECT_EQ(
      first_mismatch(back.dbias,
                     numeric_gradient(bias, [&](const Doubles& a) { return loss(x, weight, a); }),
                     kNumeric),
      "");
}

TEST(Oracle, GeluValuesAndDerivatives) {
  EXPECT_EQ(gelu(0), 0);
  EXPECT_NEAR(gelu(1), 0.8413447460685429, 1e-15);  // Φ(1)
  // The tanh form is known to stay within 5e-4 of the exact one.
  for (double x = -4; x <= 4; x += 0.25) {
    EXPECT_NEAR(gelu_tanh(x), gelu(x), 5e-4) << x;
    const Doubles exact = numeric_gradient({x}, [](const Doubles& a) { return gelu(a[0]); });
    EXPECT_EQ(first_mismatch(Doubles{gelu_derivative(x)}, exact, kNumeric), "") << x;
    const Doubles tanh_form =
        numeric_gradient({x}, [](const Doubles& a) { return gelu_tanh(a[0]); });
    EXPECT_EQ(first_mismatch(Doubles{gelu_tanh_derivative(x)}, tanh_form, kNumeric), "") << x;
  }
}

TEST(Oracle, CrossEntropyByHandAndByDifferences) {
  const CrossEntropy even = cross_entropy(Doubles{5, 5, 5, 5}, std::vector<std::int32_t>{2}, 4);
  EXPECT_NEAR(even.loss, std::log(4.0), 1e-15);
  EXPECT_EQ(first_mismatch(even.dlogits, Doubles{0.25, 0.25, -0.75, 0.25}, {.relative = 1e-15}),
            "");

  const Doubles logits = normal(12, 1);
  const std::vector<std::int32_t> targets{0, 3, 2};
  const CrossEntropy out = cross_entropy(logits, targets, 4);
  EXPECT_EQ(out.row_losses.size(), 3u);
  const Doubles numeric =
      numeric_gradient(logits, [&](const Doubles& a) { return cross_entropy(a, targets, 4).loss; });
  EXPECT_EQ(first_mismatch(out.dlogits, numeric, kNumeric), "");
  EXPECT_THROW(cross_entropy(logits, std::vector<std::int32_t>{0, 4, 2}, 4), Error);
  EXPECT_THROW(cross_entropy(logits, std::vector<std::int32_t>{0}, 4), Error);
}

TEST(Oracle, FirstAdamWStepMovesByTheLearningRate) {
  Doubles parameter{1.0};
  Doubles m{0.0};
  Doubles v{0.0};
  // After one step the corrected moments are g and g², so the step is lr·(sign(g) + decay·p) for
  // epsilon 0.
  adamw(parameter, m, v, Doubles{-3.0}, 0.1, 0.9, 0.999, 0, 0.5, 1);
  EXPECT_NEAR(parameter[0], 1.0 - 0.1 * (-1 + 0.5 * 1.0), 1e-12);
  EXPECT_NEAR(m[0], -0.3, 1e-15);
  EXPECT_NEAR(v[0], 0.009, 1e-15);
  EXPECT_THROW(adamw(parameter, m, v, Doubles{1}, 0.1, 0.9, 0.999, 0, 0, 0), Error);
}

}  // namespace
}  // namespace rungs::testing
