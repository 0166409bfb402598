#include "optimizer/optimizer.hpp"

#include <gtest/gtest.h>
#include <rungs/testing/oracle.hpp>

#include <cmath>
#include <limits>

#include "support.hpp"

namespace rungs::training {
namespace {

using optimizer::StepReport;
using optimizer::StepState;

// Parameters of a make-believe model: the first `decayed` decay.
struct Problem {
  static constexpr std::size_t kCount = 3 * optimizer::kChunk + 64;  // the last chunk is short
  static constexpr std::int64_t kDecayed = 2048;
  static constexpr int kRows = 5, kLayers = 2, kExperts = 3;
  std::vector<float> weights = testing::normal_f32(kCount, 1);
  gpu::Buffer<float> weights_d = on_device(weights);
  gpu::Buffer<float> gradients_d = poisoned<float>(kCount);
  gpu::Buffer<float> moment1 = on_device(std::vector<float>(kCount, 0.0f)),
                     moment2 = on_device(std::vector<float>(kCount, 0.0f));
  gpu::Buffer<bf16> narrow = poisoned<bf16>(kCount);
  gpu::Buffer<double> partials =
      poisoned<double>(static_cast<std::size_t>(optimizer::norm_partials(kCount)));
  gpu::Buffer<float> loss_rows = on_device(std::vector<float>{1, 2, 3, 4, 5});
  gpu::Buffer<float> balance = on_device(std::vector<float>{0.1f, 0.2f, 0.3f, 0.1f, 0.1f, 0.2f});
  gpu::Buffer<StepState> state = on_device(std::vector<StepState>(1, StepState{}));
  gpu::Buffer<StepReport> report{device(), 1, gpu::Space::kHostMapped};
  float clip = 1.0f;
  optimizer::RankSums over{};

  [[nodiscard]] optimizer::OptimizerArgs args() const {
    return {.weights = weights_d.data(),
            .weights_bf16 = narrow.data(),
            .moment1 = moment1.data(),
            .moment2 = moment2.data(),
            .gradients = gradients_d.data(),
            .partials = partials.data(),
            .loss_rows = loss_rows.data(),
            .balance = balance.data(),
            .state = state.data(),
            .report = report.data(),
            .count = static_cast<std::int64_t>(kCount),
            .decayed = kDecayed,
            .rows = kRows,
            .layers = kLayers,
            .experts = kExperts,
            .steps = 8,
            .warmup_steps = 3,
            .lr = 0.01f,
            .weight_decay = 0.1f,
            .clip = clip,
            .over = over};
  }
  StepReport update() {
    optimizer::update(args(), queue());
    gpu::synchronize(nullptr);
    return *report.data();
  }
};

// The schedule as README.md states it.
double lr_at(int step) {
  if (step <= 3) return 0.01 * step / 3.0;
  if (step >= 8) return 0.001;
  return 0.01 * (0.1 + 0.9 * 0.5 * (1 + std::cos(std::acos(-1.0) * (step - 3) / 5.0)));
}

TEST(Optimizer, TenStepsMatchTheOracle) {
  Problem p;
  std::vector<double> weights = widen(p.weights), m(Problem::kCount, 0.0), v(Problem::kCount, 0.0);
  for (int step = 1; step <= 10; ++step) {
    // Steps alternate between gradients that are clipped and gradients that are not.
    const auto gradients = testing::normal_f32(
        Problem::kCount, 100 + static_cast<std::uint64_t>(step), step % 2 == 0 ? 1.0 : 0.001);
    p.gradients_d.upload(gradients);
    const StepReport report = p.update();
    double squares = 0;
    for (const float g : gradients) squares += static_cast<double>(g) * static_cast<double>(g);
    const double norm = std::sqrt(squares);
    EXPECT_EQ(report.finite, 1u);
    EXPECT_EQ(report.step, static_cast<std::uint64_t>(step));
    EXPECT_NEAR(report.grad_norm, norm, norm * 1024 * kF32Rounding);
    EXPECT_NEAR(report.loss, 3.0, 1e-12);
    EXPECT_NEAR(report.aux_loss, 1.0 * 3 / 2, 1e-6);
    std::vector<double> clipped = widen(gradients);
    for (double& g : clipped) g *= std::min(1.0, 1.0 / (norm + 1e-6));
    // Decayed prefix and the rest are two calls: the oracle knows one decay.
    const auto part = [&](std::vector<double>& all, bool decays) {
      return decays ? std::span<double>(all).first(Problem::kDecayed)
                    : std::span<double>(all).subspan(Problem::kDecayed);
    };
    for (const bool decays : {true, false}) {
      testing::adamw(part(weights, decays), part(m, decays), part(v, decays), part(clipped, decays),
                     lr_at(step), 0.9, 0.95, 1e-8, decays ? 0.1 : 0.0, step);
    }
    // Per step some ten fp32 roundings of |w| and of an update of at most lr·(1/sqrt(1-beta2)).
    EXPECT_EQ(testing::first_mismatch(p.weights_d.download(), weights,
                                      {.relative = 4.0 * step * kF32Rounding, .absolute = 2e-6}),
              "")
        << "step " << step;
  }
  // The bf16 copy is the rounded master copy.
  EXPECT_EQ(
      testing::first_bit_difference(p.narrow.download(), testing::to_bf16(p.weights_d.download())),
      "");
}

TEST(Optimizer, ANonFiniteStepChangesNothingAndIsReported) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Problem p;
    auto gradients = testing::normal_f32(Problem::kCount, 7);
    p.gradients_d.upload(gradients);
    p.update();
    const auto weights = p.weights_d.download(), m = p.moment1.download(), v = p.moment2.download();
    gradients[1500] = bad;
    p.gradients_d.upload(gradients);
    const StepReport report = p.update();
    EXPECT_EQ(report.finite, 0u);
    EXPECT_EQ(report.step, 1u);
    EXPECT_FALSE(std::isfinite(report.grad_norm));
    EXPECT_EQ(testing::first_bit_difference(p.weights_d.download(), weights), "");
    EXPECT_EQ(testing::first_bit_difference(p.moment1.download(), m), "");
    EXPECT_EQ(testing::first_bit_difference(p.moment2.download(), v), "");
    // A NaN loss with finite gradients too.
    p.gradients_d.upload(testing::normal_f32(Problem::kCount, 8));
    p.loss_rows = on_device(std::vector<float>{1, 2, bad, 4, 5});
    EXPECT_EQ(p.update().finite, 0u);
    EXPECT_EQ(testing::first_bit_difference(p.weights_d.download(), weights), "");
  }
}

// Two ranks, one after the other on this device: elements 1024 to 2047 and 3072 to 3135 are their
// own, the others are shared. The test adds the shares as an all-reduce would.
TEST(Optimizer, RanksSettleOnTheSumsOfAll) {
  constexpr int kRanks = 2;
  constexpr std::size_t kShares = kRanks * optimizer::kShareFloats;
  const optimizer::Ranges own{.begin = 1024, .stride = 2048, .length = 64, .number = 2};
  Problem ranks[kRanks];
  std::vector<float> gradients[kRanks];
  gpu::Buffer<float> shares[kRanks];
  std::vector<float> sum(kShares, 0.0f);
  double squares = 0;
  for (int r = 0; r < kRanks; ++r) {
    Problem& p = ranks[r];
    gradients[r] = testing::normal_f32(Problem::kCount, 30);
    for (const std::size_t begin : {std::size_t{1024}, std::size_t{3072}}) {
      const auto mine = testing::normal_f32(64, 31 + static_cast<std::uint64_t>(r), 1e3);
      std::copy(mine.begin(), mine.end(), gradients[r].begin() + static_cast<long>(begin));
      for (const float g : mine) squares += static_cast<double>(g) * static_cast<double>(g);
    }
    p.gradients_d.upload(gradients[r]);
    p.loss_rows = on_device(std::vector<float>{1, 2, 3, 4, r == 0 ? 5.0f : 1e7f});
    shares[r] = poisoned<float>(kShares);
    p.over = {.rank = r,
              .ranks = kRanks,
              .shares = shares[r].data(),
              .experts = own,
              .dense = {{.begin = 0, .stride = 2048, .length = 1024, .number = 2},
                        {.begin = 1088, .stride = 0, .length = 960, .number = 1}}};
    optimizer::fill_shares(p.args(), queue());
    const auto filled = shares[r].download();
    for (std::size_t i = 0; i < kShares; ++i) {
      sum[i] += filled[i];
      EXPECT_TRUE(static_cast<int>(i) / optimizer::kShareFloats == r || filled[i] == 0.0f) << i;
    }
  }
  const auto add_range = [&](std::size_t begin, std::size_t count) {
    for (std::size_t i = begin; i < begin + count; ++i)
      squares += static_cast<double>(gradients[0][i]) * static_cast<double>(gradients[0][i]);
  };
  add_range(0, 1024);
  add_range(1088, 960);
  add_range(2048, 1024);
  StepReport reports[kRanks];
  for (int r = 0; r < kRanks; ++r) {
    shares[r].upload(sum);
    reports[r] = ranks[r].update();
    const double norm = std::sqrt(squares);
    EXPECT_NEAR(reports[r].grad_norm, norm, norm * 1024 * kF32Rounding);
    // Two floats carry 48 bits.
    const double loss = (15.0 + 10.0 + 1e7) / (2 * Problem::kRows);
    EXPECT_NEAR(reports[r].loss, loss, loss * 0x1p-47);
  }
  EXPECT_EQ(reports[0].grad_norm, reports[1].grad_norm);
  EXPECT_EQ(reports[0].loss, reports[1].loss);

  // What is not finite on one rank stops all.
  ranks[1].loss_rows =
      on_device(std::vector<float>{1, 2, std::numeric_limits<float>::infinity(), 4, 5});
  optimizer::fill_shares(ranks[1].args(), queue());
  auto broken = sum;
  const auto of_one = shares[1].download();
  std::copy(of_one.begin() + optimizer::kShareFloats, of_one.end(),
            broken.begin() + optimizer::kShareFloats);
  shares[0].upload(broken);
  EXPECT_EQ(ranks[0].update().finite, 0u);
}

TEST(Optimizer, ScheduleEndsAndWarmUpCanBeZero) {
  using optimizer::scheduled_lr;
  EXPECT_FLOAT_EQ(scheduled_lr(1, 1.0f, 0, 100),
                  0.1f + 0.9f * 0.5f * (1 + std::cos(0.0314159265f)));
  EXPECT_FLOAT_EQ(scheduled_lr(10, 1.0f, 10, 100), 1.0f);
  EXPECT_FLOAT_EQ(scheduled_lr(55, 1.0f, 10, 100), 0.55f);
  EXPECT_FLOAT_EQ(scheduled_lr(100, 1.0f, 10, 100), 0.1f);
  EXPECT_FLOAT_EQ(scheduled_lr(1000, 1.0f, 10, 100), 0.1f);
  EXPECT_FLOAT_EQ(scheduled_lr(7, 1.0f, 7, 7), 1.0f);
  EXPECT_FLOAT_EQ(scheduled_lr(8, 1.0f, 7, 7), 0.1f);
}

TEST(Optimizer, SameBitsWhateverTheGrid) {
  const auto run = [](int sm_count) {
    Problem p;
    p.gradients_d.upload(testing::normal_f32(Problem::kCount, 7));
    auto report = gpu::Buffer<StepReport>(device(), 1, gpu::Space::kHostMapped);
    optimizer::update({.weights = p.weights_d.data(),
                       .weights_bf16 = p.narrow.data(),
                       .moment1 = p.moment1.data(),
                       .moment2 = p.moment2.data(),
                       .gradients = p.gradients_d.data(),
                       .partials = p.partials.data(),
                       .loss_rows = p.loss_rows.data(),
                       .balance = p.balance.data(),
                       .state = p.state.data(),
                       .report = report.data(),
                       .count = static_cast<std::int64_t>(Problem::kCount),
                       .decayed = 0,
                       .rows = 5,
                       .layers = 2,
                       .experts = 3,
                       .steps = 8,
                       .warmup_steps = 0,
                       .lr = 0.01f,
                       .weight_decay = 0.1f,
                       .clip = 1.0f},
                      {.stream = nullptr, .sm_count = sm_count});
    return p.weights_d.download();
  };
  const auto one = run(1);
  for (const int sm_count : {2, 7, 132})
    EXPECT_EQ(testing::first_bit_difference(run(sm_count), one), "") << sm_count;
}

}  // namespace
}  // namespace rungs::training
