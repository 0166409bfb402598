#include <rungs/core/error.hpp>
#include <rungs/training/trainer.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <utility>

#include "trainer_fixture.hpp"

namespace rungs::training {
namespace {

void expect_same(const StepResult& got, const StepResult& want) {
  EXPECT_EQ(got.loss, want.loss);
  EXPECT_EQ(got.aux_loss, want.aux_loss);
  EXPECT_EQ(got.grad_norm, want.grad_norm);
}

TEST(Trainer, GraphGivesTheBitsOfEagerForTwentySteps) {
  Trainer eager = tiny_trainer(), graph = tiny_trainer();
  EXPECT_EQ(graph.graph_nodes(), 0u);
  for (int step = 0; step < 20; ++step) {
    const StepResult want = eager.step(Mode::kEager);
    expect_same(graph.step(Mode::kGraph), want);
    ASSERT_EQ(testing::first_bit_difference(graph.parameters(), eager.parameters()), "")
        << "step " << step + 1;
  }
  EXPECT_EQ(graph.steps_done(), 20);
  EXPECT_GT(graph.graph_nodes(), 50u);
}

TEST(Trainer, ModesProfilesAndEvaluationsCanBeMixed) {
  Trainer plain = tiny_trainer(), mixed = tiny_trainer();
  for (int step = 0; step < 12; ++step) {
    const StepResult want = plain.step(Mode::kGraph);
    if (step % 4 == 3) {
      const auto parts = mixed.profile_step();
      EXPECT_FALSE(parts.empty());
    } else {
      expect_same(mixed.step(step % 2 == 0 ? Mode::kGraph : Mode::kEager), want);
    }
    EXPECT_TRUE(std::isfinite(mixed.evaluate(1 + step % 3)));
    EXPECT_EQ(mixed.steps_done(), step + 1);
    ASSERT_EQ(testing::first_bit_difference(mixed.parameters(), plain.parameters()), "")
        << "step " << step + 1;
  }
}

TEST(Trainer, LossFallsOnTextAndOnTheHeldOutPart) {
  Trainer trainer = tiny_trainer();
  const double held_out_before = trainer.evaluate(0);
  double first = 0, last = 0;
  for (int step = 0; step < 30; ++step) {
    const StepResult result = trainer.step(Mode::kGraph);
    if (step < 3) first += result.loss / 3;
    if (step >= 27) last += result.loss / 3;
    EXPECT_GE(result.aux_loss, 0.9);
  }
  // Bytes of the text: ten times fewer than 256, so ln 256 = 5.5 must fall by much more than noise.
  EXPECT_LT(last, first - 1.5);
  EXPECT_LT(trainer.evaluate(0), held_out_before - 1.5);
}

TEST(Trainer, EvaluationIsRepeatableAndCountsEveryWindowOnce) {
  Trainer trainer = tiny_trainer();
  trainer.step(Mode::kEager);
  const double all = trainer.evaluate(0);
  EXPECT_EQ(trainer.evaluate(0), all);
  // 400 held-out bytes hold 24 windows of 16 and a target: 8 batches of 3, the same windows as all.
  EXPECT_EQ(trainer.evaluate(8), all);
  EXPECT_EQ(trainer.evaluate(1000), all);
  EXPECT_THROW(trainer.evaluate(-1), Error);

  // With a batch that does not divide 24 the mean is still over each window once. The model is the
  // same: no step done.
  TrainConfig other = tiny_training();
  other.batch = 5;
  Trainer fresh = tiny_trainer(), five(tiny_model(), other, small_corpus(), device());
  EXPECT_NEAR(five.evaluate(0), fresh.evaluate(0), 1e-6);
}

// Against held-out texts of one window each, which leave nothing to choose.
TEST(Trainer, EvaluationOfSomeBatchesIsSpreadOverTheText) {
  constexpr std::size_t kContext = 16;
  const Corpus whole = small_corpus();
  const auto mean_of = [&](const std::array<std::size_t, 6>& windows) {
    double sum = 0;
    for (const std::size_t window : windows) {
      Corpus one = whole;
      const auto first = whole.held_out.begin() + static_cast<std::ptrdiff_t>(window * kContext);
      one.held_out.assign(first, first + kContext + 1);
      sum += Trainer(tiny_model(), tiny_training(), std::move(one), device()).evaluate(0);
    }
    return sum / windows.size();
  };
  Trainer trainer = tiny_trainer();
  // Six of 24 windows: every fourth. A sequence's loss has the same bits in whichever batch it
  // stands, so that only the order of sums in double may differ.
  EXPECT_NEAR(trainer.evaluate(2), mean_of({0, 4, 8, 12, 16, 20}), 1e-12);
  EXPECT_GT(std::abs(trainer.evaluate(2) - mean_of({0, 1, 2, 3, 4, 5})), 1e-3);
}

TEST(Trainer, EvaluationTellsHowFarItIsAndCanBeEnded) {
  Trainer trainer = tiny_trainer();
  std::vector<int> seen;
  const double all = trainer.evaluate(0, [&](int done, int total) {
    EXPECT_EQ(total, 8);
    seen.push_back(done);
    return true;
  });
  EXPECT_EQ(all, trainer.evaluate(0));
  EXPECT_EQ(seen, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8}));
  int calls = 0;
  EXPECT_TRUE(std::isnan(trainer.evaluate(0, [&](int done, int) {
    ++calls;
    return done < 3;
  })));
  EXPECT_EQ(calls, 4);
  EXPECT_EQ(trainer.evaluate(0), all);
}

TEST(Trainer, SeedsDecideWeightsAndBatches) {
  Trainer one = tiny_trainer();
  ModelConfig model = tiny_model();
  model.seed = 2;
  Trainer other_weights(model, tiny_training(), small_corpus(), device());
  EXPECT_NE(testing::first_bit_difference(one.parameters(), other_weights.parameters()), "");
  TrainConfig train = tiny_training();
  train.data_seed = 2;
  Trainer other_batches(tiny_model(), train, small_corpus(), device());
  EXPECT_EQ(testing::first_bit_difference(one.parameters(), other_batches.parameters()), "");
  EXPECT_NE(one.step(Mode::kEager).loss, other_batches.step(Mode::kEager).loss);
}

TEST(Trainer, ANonFiniteLossIsThrownAndLeavesTheWeights) {
  for (const Mode mode : {Mode::kEager, Mode::kGraph}) {
    TrainConfig train = tiny_training();
    train.lr = 1e30f;
    train.warmup_steps = 0;
    Trainer trainer(tiny_model(), train, small_corpus(), device());
    std::vector<float> before;
    std::string message;
    int failed_at = 0;
    for (int step = 1; step <= 5 && message.empty(); ++step) {
      before = trainer.parameters();
      try {
        trainer.step(mode);
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kInternal);
        message = error.message();
        failed_at = step;
      }
    }
    ASSERT_NE(message, "") << "five steps with a learning rate of 1e30 stayed finite";
    EXPECT_NE(message.find("loss is not finite at step " + std::to_string(failed_at)),
              std::string::npos)
        << message;
    EXPECT_EQ(trainer.steps_done(), failed_at - 1);
    EXPECT_EQ(testing::first_bit_difference(trainer.parameters(), before), "");
    EXPECT_THROW(trainer.step(mode), Error);
  }
}

// Every field: a value that is refused, and a word of the message.
struct Refused {
  const char* field;
  std::function<void(ModelConfig&, TrainConfig&)> change;
};

TEST(TrainerContract, EveryFieldIsCheckedAndNamed) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Refused cases[] = {
      {"model.layers", [](auto& m, auto&) { m.layers = 0; }},
      {"model.width", [](auto& m, auto&) { m.width = 0; }},
      {"model.width", [](auto& m, auto&) { m.width = 96; }},
      {"model.heads", [](auto& m, auto&) { m.heads = 0; }},
      {"model.heads", [](auto& m, auto&) { m.heads = 3; }},
      {"model.heads", [](auto& m, auto&) { m.heads = 16; }},
      {"model.experts", [](auto& m, auto&) { m.experts = 0; }},
      {"model.experts", [](auto& m, auto&) { m.experts = 65; }},
      {"model.top_k", [](auto& m, auto&) { m.top_k = 0; }},
      {"model.top_k", [](auto& m, auto&) { m.top_k = 5; }},
      {"model.hidden", [](auto& m, auto&) { m.hidden = 0; }},
      {"model.hidden", [](auto& m, auto&) { m.hidden = 100; }},
      {"model.context", [](auto& m, auto&) { m.context = 0; }},
      {"train.batch", [](auto&, auto& t) { t.batch = 0; }},
      {"train.batch", [](auto& m, auto& t) { t.batch = 65536, m.context = 65536; }},
      {"train.steps", [](auto&, auto& t) { t.steps = 0; }},
      {"train.warmup_steps", [](auto&, auto& t) { t.warmup_steps = -1; }},
      {"train.warmup_steps", [](auto&, auto& t) { t.warmup_steps = 41; }},
      {"train.lr", [](auto&, auto& t) { t.lr = 0; }},
      {"train.lr", [nan](auto&, auto& t) { t.lr = nan; }},
      {"train.weight_decay", [](auto&, auto& t) { t.weight_decay = -0.1f; }},
      {"train.weight_decay", [nan](auto&, auto& t) { t.weight_decay = nan; }},
      {"train.clip", [](auto&, auto& t) { t.clip = 0; }},
      {"train.clip", [](auto&, auto& t) { t.clip = std::numeric_limits<float>::infinity(); }},
      {"train.aux_weight", [](auto&, auto& t) { t.aux_weight = -1; }},
  };
  for (const Refused& refused : cases) {
    ModelConfig model = tiny_model();
    TrainConfig train = tiny_training();
    refused.change(model, train);
    try {
      Trainer trainer(model, train, small_corpus(), device());
      ADD_FAILURE() << refused.field << ": accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << error.what();
      EXPECT_NE(error.message().find(refused.field), std::string::npos) << error.message();
    }
  }
}

TEST(TrainerContract, ACorpusShorterThanASequenceIsRefused) {
  for (const bool held_out : {false, true}) {
    Corpus corpus = small_corpus();
    (held_out ? corpus.held_out : corpus.train).resize(16);
    try {
      Trainer trainer(tiny_model(), tiny_training(), std::move(corpus), device());
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      EXPECT_NE(error.message().find("need 17"), std::string::npos) << error.message();
      EXPECT_NE(error.message().find(held_out ? "held-out" : "training"), std::string::npos)
          << error.message();
    }
  }
}

TEST(TrainerContract, PresetsAreValidAndMovesKeepTheState) {
  EXPECT_EQ(TrainConfig::tour().steps, 250);
  EXPECT_LT(TrainConfig::quick().steps, TrainConfig::tour().steps);
  Trainer first = tiny_trainer(), second = tiny_trainer();
  first.step(Mode::kGraph);
  second = std::move(first);
  EXPECT_EQ(second.steps_done(), 1);
  EXPECT_EQ(second.step(Mode::kGraph).loss, [] {
    Trainer trainer = tiny_trainer();
    trainer.step(Mode::kEager);
    return trainer.step(Mode::kEager).loss;
  }());
}

}  // namespace
}  // namespace rungs::training
