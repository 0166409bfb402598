// The whole model against a reference in double: loss, and the gradient of every parameter by
// central differences.
#include "model/model.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string>

#include "catalog/reference_model.hpp"
#include "support.hpp"

namespace rungs::training {
namespace {

constexpr float kAuxWeight = 0.05f;

ModelConfig tiny(int experts, int top_k) {
  return {.layers = 2,
          .width = 64,
          .heads = 2,
          .experts = experts,
          .top_k = top_k,
          .hidden = 64,
          .context = 12,
          .seed = 3};
}

// The parameters whose values a GEMM reads as bf16; the others are read in fp32.
bool is_bf16(const std::string& name) {
  return name == "head" || name.find("attention.") != std::string::npos ||
         name.find("experts.") != std::string::npos;
}

class WholeModel : public ::testing::TestWithParam<ModelConfig> {
 protected:
  static constexpr int kBatch = 3;
  const ModelConfig config = GetParam();
  const ParameterLayout layout{config};
  const std::size_t count = static_cast<std::size_t>(layout.count());
  std::vector<float> values;
  gpu::Buffer<float> weights, gradients;
  gpu::Buffer<bf16> narrow;
  std::unique_ptr<Model> model;
  reference::Input input;
  reference::Weights doubles;
  reference::Result want;
  double loss = 0;

  void SetUp() override {
    values = layout.initial_values(config.seed);
    // Gains of 1 and biases of 0 would hide a gain or bias in the wrong place; routers near 0 would
    // hide theirs.
    for (const Parameter& p : layout.parameters()) {
      const auto noise = testing::normal_f32(static_cast<std::size_t>(p.count()), 50);
      for (std::size_t i = 0; i < noise.size(); ++i) {
        float& value = values[static_cast<std::size_t>(p.offset) + i];
        if (p.init_deviation == 0) value += 0.2f * noise[i];
        if (p.name.find("router") != std::string::npos) value *= 5;
        if (p.name.find("embedding") != std::string::npos) value *= 5;
      }
    }
    weights = on_device(values);
    narrow = on_device(testing::to_bf16(values));
    gradients = poisoned<float>(count);
    model = std::make_unique<Model>(
        config, kBatch, kAuxWeight,
        ParameterPointers{weights.data(), narrow.data(), gradients.data()}, device());
    const auto tokens = static_cast<std::size_t>(kBatch * config.context);
    input.tokens = testing::integers(tokens, 11, 0, 255);
    input.targets = testing::integers(tokens, 12, 0, 255);
    gpu::copy_async(model->tokens(), input.tokens.data(), tokens * sizeof(std::int32_t), nullptr);
    gpu::copy_async(model->targets(), input.targets.data(), tokens * sizeof(std::int32_t), nullptr);
    model->forward(queue(), true);
    model->backward(queue());
    for (const float row : model->loss_rows().download())
      loss += static_cast<double>(row) / static_cast<double>(tokens);
    for (int l = 0; l < config.layers; ++l)
      input.expert.push_back(from_device(model->experts(static_cast<std::size_t>(l)).chosen(),
                                         tokens * static_cast<std::size_t>(config.top_k)));
    for (const Parameter& p : layout.parameters()) {
      auto& target = doubles[p.name];
      for (std::int64_t i = 0; i < p.count(); ++i) {
        const float value = values[static_cast<std::size_t>(p.offset + i)];
        target.push_back(static_cast<double>(is_bf16(p.name) ? to_float(to_bf16(value)) : value));
      }
    }
    want = reference::run(config, doubles, input);
  }

  [[nodiscard]] double objective() const {
    const auto result = reference::run(config, doubles, input);
    return result.cross_entropy + static_cast<double>(kAuxWeight) * result.balance;
  }
  [[nodiscard]] double difference(double& value) const {
    const double step = 1e-4;
    const double before = value;
    value = before + step;
    const double above = objective();
    value = before - step;
    const double below = objective();
    value = before;
    return (above - below) / (2 * step);
  }
};

// Roundings to bf16 between a parameter and the loss and back (README.md, "How wrong it may be"):
// forward 6 a layer, back 6 a layer, 2 at the head.
constexpr double kRoundings = 2 * 12 + 2;

TEST_P(WholeModel, LossAndRoutingMatchTheReference) {
  EXPECT_NEAR(loss, want.cross_entropy, kRoundings * kBf16Rounding);
  // The device's choice is the reference's, but for probabilities closer than their error.
  const auto experts = static_cast<std::size_t>(config.experts),
             top_k = static_cast<std::size_t>(config.top_k);
  for (std::size_t l = 0; l < want.probabilities.size(); ++l) {
    const auto& p = want.probabilities[l];
    EXPECT_EQ(testing::first_mismatch(
                  from_device(model->experts(l).probabilities(), input.tokens.size() * experts), p,
                  {.absolute = kRoundings * kBf16Rounding}),
              "")
        << "layer " << l;
    for (std::size_t n = 0; n < input.tokens.size(); ++n) {
      const auto chosen = input.expert[l].begin() + static_cast<std::ptrdiff_t>(n * top_k);
      for (std::size_t e = 0; e < experts; ++e) {
        if (std::find(chosen, chosen + static_cast<std::ptrdiff_t>(top_k),
                      static_cast<std::int32_t>(e)) != chosen + static_cast<std::ptrdiff_t>(top_k))
          continue;
        for (std::size_t j = 0; j < top_k; ++j)
          EXPECT_LE(
              p[n * experts + e],
              p[n * experts + static_cast<std::size_t>(chosen[static_cast<std::ptrdiff_t>(j)])] +
                  2 * kRoundings * kBf16Rounding);
      }
    }
  }
}

TEST_P(WholeModel, EveryParametersGradientMatchesFiniteDifferences) {
  const auto got = gradients.download();
  for (const Parameter& p : layout.parameters()) {
    const auto* g = got.data() + p.offset;
    const auto size = static_cast<std::size_t>(p.count());
    double squares = 0;
    for (std::size_t i = 0; i < size; ++i) {
      ASSERT_TRUE(std::isfinite(g[i])) << p.name << "[" << i << "] was not written";
      squares += static_cast<double>(g[i]) * static_cast<double>(g[i]);
    }
    const double rms = std::sqrt(squares / static_cast<double>(size));
    // The softmax of a single expert is 1 whatever its logit.
    const bool constant = config.experts == 1 && p.name.find("router") != std::string::npos;
    EXPECT_EQ(rms > 0, !constant) << p.name;
    // The four largest and six arbitrary ones.
    std::vector<std::size_t> order(size);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::partial_sort(
        order.begin(), order.begin() + 4, order.end(),
        [&](std::size_t a, std::size_t b) { return std::abs(g[a]) > std::abs(g[b]); });
    order.resize(4);
    testing::Random random(static_cast<std::uint64_t>(p.offset) + 1);
    for (int i = 0; i < 6; ++i) order.push_back(random.below(size));
    for (const std::size_t i : order) {
      const double expected = difference(doubles[p.name][i]);
      // Each rounding moves the element by at most kBf16Rounding of the terms it is summed from,
      // which are taken as large as the element itself plus twice the tensor's typical one.
      // Independent roundings add in quadrature; twice that sum is 3.5 of its standard deviations
      // (a rounding's is 1/sqrt(3) of its largest error).
      const double bound =
          2 * std::sqrt(kRoundings) * kBf16Rounding * (std::abs(expected) + 2 * rms);
      EXPECT_NEAR(g[i], expected, bound) << p.name << "[" << i << "], rms " << rms;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Configurations, WholeModel,
                         ::testing::Values(tiny(4, 2), tiny(3, 3), tiny(4, 1), tiny(1, 1)),
                         [](const auto& instance) {
                           return "Top" + std::to_string(instance.param.top_k) + "Of" +
                                  std::to_string(instance.param.experts);
                         });

TEST(ParameterLayout, OffsetsAreAlignedDisjointAndDecayedFirst) {
  const ParameterLayout layout(ModelConfig{});
  std::int64_t end = 0;
  for (const Parameter& p : layout.parameters()) {
    EXPECT_EQ(p.offset % kParameterAlign, 0) << p.name;
    EXPECT_GE(p.offset, end) << p.name;
    end = p.offset + p.count();
    const bool matrix =
        p.name.find("norm") == std::string::npos && p.name.find("embedding") == std::string::npos;
    EXPECT_EQ(p.offset < layout.decayed(), matrix) << p.name;
  }
  EXPECT_LE(end, layout.count());
  // 2·(3·128² + 128² + 4·128 + 2·4·512·128 + 4·128) + 256·128 + 2·128 + (256 + 64)·128.
  EXPECT_EQ(layout.trained(), 1255680);
}

TEST(ParameterLayout, RanksHoldAllDenseParametersAndTheirShareOfTheExperts) {
  const ModelConfig config = tiny(6, 2);
  const ParameterLayout whole(config);
  const auto all = whole.initial_values(5);
  for (const int ranks : {1, 2, 3}) {
    std::map<std::string, std::int64_t> experts_seen;
    for (int rank = 0; rank < ranks; ++rank) {
      const ParameterLayout layout(config, rank, ranks);
      EXPECT_EQ(layout.trained(), whole.trained());
      const auto mine = layout.initial_values(5);
      ASSERT_EQ(layout.parameters().size(), whole.parameters().size());
      for (std::size_t p = 0; p < layout.parameters().size(); ++p) {
        const Parameter &part = layout.parameters()[p], &full = whole.parameters()[p];
        const bool expert = full.name.find("experts.") != std::string::npos;
        ASSERT_EQ(part.name, full.name);
        ASSERT_EQ(part.count(), expert ? full.count() / ranks : full.count());
        EXPECT_EQ(part.first, expert ? rank * part.count() : 0);
        experts_seen[part.name] += part.count();
        for (std::int64_t i = 0; i < part.count(); ++i) {
          ASSERT_EQ(mine[static_cast<std::size_t>(part.offset + i)],
                    all[static_cast<std::size_t>(full.offset + part.first + i)])
              << part.name << "[" << i << "] of rank " << rank;
        }
      }
      // The ranges tell dense parameters from experts, and leave nothing out.
      std::vector<int> owner(static_cast<std::size_t>(layout.count()), 0);
      const auto mark = [&](const Range& range, int who) {
        for (std::int64_t i = range.begin; i < range.begin + range.count; ++i)
          owner[static_cast<std::size_t>(i)] += who;
      };
      for (std::size_t l = 0; l < layout.layers.size(); ++l) {
        mark(layout.dense(l), 1);
        mark(layout.experts(l), 100);
        const std::int64_t behind = static_cast<std::int64_t>(l) * layout.layer_stride();
        EXPECT_EQ(layout.dense(l).begin, layout.dense(0).begin + behind);
        EXPECT_EQ(layout.experts(l).begin, layout.experts(0).begin + behind);
      }
      mark(layout.head_range(), 1);
      mark(layout.undecayed(), 1);
      for (const Parameter& p : layout.parameters()) {
        const bool expert = p.name.find("experts.") != std::string::npos;
        for (std::int64_t i = 0; i < p.count(); ++i)
          ASSERT_EQ(owner[static_cast<std::size_t>(p.offset + i)], expert ? 100 : 1) << p.name;
      }
      EXPECT_EQ(std::count(owner.begin(), owner.end(), 0), 0);
    }
    for (const Parameter& p : whole.parameters()) {
      const bool expert = p.name.find("experts.") != std::string::npos;
      EXPECT_EQ(experts_seen[p.name], expert ? p.count() : ranks * p.count()) << p.name;
    }
  }
}

TEST(ParameterLayout, InitialValuesHaveTheirDeviationAndDependOnTheSeed) {
  const ParameterLayout layout(ModelConfig{});
  const auto values = layout.initial_values(1);
  EXPECT_EQ(testing::first_bit_difference(values, layout.initial_values(1)), "");
  EXPECT_NE(testing::first_bit_difference(values, layout.initial_values(2)), "");
  for (const Parameter& p : layout.parameters()) {
    double sum = 0, squares = 0;
    const auto n = static_cast<double>(p.count());
    for (std::int64_t i = 0; i < p.count(); ++i) {
      const double value = static_cast<double>(values[static_cast<std::size_t>(p.offset + i)]);
      sum += value;
      squares += value * value;
    }
    const double deviation = std::sqrt(std::max(0.0, squares / n - sum / n * (sum / n)));
    // Mean and deviation of n normal values lie within five of their own deviations.
    EXPECT_NEAR(sum / n, static_cast<double>(p.init_value),
                5 * static_cast<double>(p.init_deviation) / std::sqrt(n) + 1e-12)
        << p.name;
    EXPECT_NEAR(deviation, static_cast<double>(p.init_deviation),
                5 * static_cast<double>(p.init_deviation) / std::sqrt(2 * n) + 1e-12)
        << p.name;
  }
}

}  // namespace
}  // namespace rungs::training
