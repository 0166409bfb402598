// Several ranks train one model: the losses of one rank, the same bits in every mode, the same
// dense parameters everywhere, checkpoints, and what is refused.
#include <rungs/core/error.hpp>
#include <rungs/testing/errors.hpp>
#include <rungs/training/trainer.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <tuple>

#include "detail/fnv.hpp"
#include "folder.hpp"
#include "model/parameters.hpp"
#include "rank_group.hpp"
#include "trainer_fixture.hpp"

namespace rungs::training {
namespace {

using testing::error_of;
using testing::has;

TrainConfig four_sequences() {
  TrainConfig train = tiny_training();
  train.batch = 4;
  return train;
}

gpu::Device device_of(const bootstrap::Group& group) {
  const gpu::Device mine = gpu::Device::open(group.rank() % gpu::Device::count());
  mine.make_current();
  return mine;
}

Trainer rank_trainer(bootstrap::Group& group, const RanksOptions& options = {}) {
  return {tiny_model(), four_sequences(), small_corpus(), device_of(group), group, options};
}

/// A digest of the parameters that every rank holds.
std::uint64_t dense_digest(const Trainer& trainer) {
  const ParameterLayout layout(trainer.model(), trainer.rank(), trainer.ranks());
  const std::vector<float> values = trainer.parameters();
  std::uint64_t hash = kFnvBasis;
  const auto add = [&](const Range& range) {
    hash = fnv1a64(values.data() + range.begin,
                   static_cast<std::size_t>(range.count) * sizeof(float), hash);
  };
  for (std::size_t l = 0; l < layout.layers.size(); ++l) add(layout.dense(l));
  add(layout.head_range());
  add(layout.undecayed());
  return hash;
}

/// @throws Error unless all ranks have the same
void require_same(bootstrap::Group& group, std::uint64_t mine, const char* what, int step) {
  for (const std::uint64_t theirs : group.all_gather(mine)) {
    if (theirs != mine) RUNGS_THROW(kInternal, what, " differ between ranks after step ", step);
  }
}

std::uint64_t digest(const StepResult& result) { return fnv1a64(&result, sizeof(result)); }
std::uint64_t digest(const std::vector<float>& values) {
  return fnv1a64(values.data(), values.size() * sizeof(float));
}

using Place = std::tuple<int, int>;  // ranks, nodes
std::string name_of(const ::testing::TestParamInfo<Place>& info) {
  return std::to_string(std::get<0>(info.param)) + "RanksOn" +
         std::to_string(std::get<1>(info.param)) + "Nodes";
}

class Ranks : public ::testing::TestWithParam<Place> {
 protected:
  const int ranks_ = std::get<0>(GetParam()), nodes_ = std::get<1>(GetParam());
  /// Two nodes of two are what the tour trains on: they get the long look.
  const int steps_ = ranks_ == 4 && nodes_ == 2 ? 20 : 5;
};

// The forward pass of a token has the same bits on whichever rank it runs, so before the first
// update only the order of sums in double differs (48 bits of them travel). Later the runs differ
// by the order of fp32 sums in the gradients. That changes a weight's last bit here and there, and
// now and then its rounding to bf16; had all weights other roundings, a loss would move by
// sqrt(R)·u (README.md, "How wrong it may be").
TEST_P(Ranks, LossesAreThoseOfOneRank) {
  Trainer alone(tiny_model(), four_sequences(), small_corpus(), device());
  const double before = alone.evaluate(0);
  std::vector<StepResult> want;
  for (int step = 0; step < steps_; ++step) want.push_back(alone.step(Mode::kGraph));
  const double after = alone.evaluate(0);
  const double bound = std::sqrt(12.0 * tiny_model().layers + 2) * kBf16Rounding;
  EXPECT_EQ(in_threads(ranks_, nodes_,
                       [&](bootstrap::Group& group) {
                         Trainer trainer = rank_trainer(group);
                         EXPECT_EQ(trainer.ranks(), ranks_);
                         EXPECT_EQ(trainer.rank(), group.rank());
                         EXPECT_EQ(trainer.parameter_count(), alone.parameter_count());
                         EXPECT_NEAR(trainer.evaluate(0), before, 1e-9);
                         for (int step = 0; step < steps_; ++step) {
                           const StepResult got = trainer.step(Mode::kGraph);
                           const StepResult& expected = want[static_cast<std::size_t>(step)];
                           const double allowed = step == 0 ? 1e-9 : bound;
                           EXPECT_NEAR(got.loss, expected.loss, allowed) << "step " << step + 1;
                           EXPECT_NEAR(got.aux_loss, expected.aux_loss, step == 0 ? 1e-6 : bound);
                           EXPECT_NEAR(got.grad_norm, expected.grad_norm,
                                       step == 0 ? 1e-5 * expected.grad_norm
                                                 : 8 * bound * expected.grad_norm);
                           require_same(group, digest(got), "results", step + 1);
                           require_same(group, dense_digest(trainer), "dense parameters", step + 1);
                         }
                         EXPECT_NEAR(trainer.evaluate(0), after, bound);
                         if (steps_ == 20) {
                           EXPECT_LT(trainer.evaluate(0), before - 0.5);
                         }
                       }),
            "");
}

/// What one rank saw of a run: results and parameters after every step.
std::vector<std::uint64_t> run_of(bootstrap::Group& group, Mode mode, Gradients gradients,
                                  int steps) {
  RanksOptions options;
  options.gradients = gradients;
  Trainer trainer = rank_trainer(group, options);
  std::vector<std::uint64_t> seen;
  for (int step = 0; step < steps; ++step) {
    seen.push_back(digest(trainer.step(mode)));
    seen.push_back(digest(trainer.parameters()));
  }
  EXPECT_EQ(trainer.graph_nodes() > 0, mode == Mode::kGraph);
  return seen;
}

TEST_P(Ranks, SameBitsEagerOrGraphAfterBackwardOrOverlapped) {
  EXPECT_EQ(in_threads(
                ranks_, nodes_,
                [&](bootstrap::Group& group) {
                  const auto naive = run_of(group, Mode::kEager, Gradients::kAfterBackward, steps_);
                  EXPECT_EQ(run_of(group, Mode::kEager, Gradients::kOverlapped, steps_), naive);
                  EXPECT_EQ(run_of(group, Mode::kGraph, Gradients::kAfterBackward, steps_), naive);
                  EXPECT_EQ(run_of(group, Mode::kGraph, Gradients::kOverlapped, steps_), naive);
                }),
            "");
}

TEST_P(Ranks, ModesProfilesAndEvaluationsCanBeMixed) {
  EXPECT_EQ(
      in_threads(ranks_, nodes_,
                 [&](bootstrap::Group& group) {
                   Trainer plain = rank_trainer(group);
                   std::vector<std::uint64_t> want;
                   for (int step = 0; step < 6; ++step) {
                     plain.step(Mode::kGraph);
                     want.push_back(digest(plain.parameters()));
                   }
                   Trainer mixed = rank_trainer(group);
                   for (int step = 0; step < 6; ++step) {
                     if (step % 3 == 2) {
                       EXPECT_FALSE(mixed.profile_step().empty());
                     } else {
                       mixed.step(step % 3 == 0 ? Mode::kGraph : Mode::kEager);
                     }
                     EXPECT_TRUE(std::isfinite(mixed.evaluate(1 + step % 3)));
                     EXPECT_EQ(digest(mixed.parameters()), want[static_cast<std::size_t>(step)])
                         << "step " << step + 1;
                   }
                 }),
      "");
}

TEST_P(Ranks, ResumeGivesTheBitsOfAnUninterruptedRun) {
  const Folder folder;
  EXPECT_EQ(in_threads(ranks_, nodes_,
                       [&](bootstrap::Group& group) {
                         Trainer whole = rank_trainer(group);
                         for (int step = 0; step < 10; ++step) {
                           if (step == 5) whole.save(folder.path());
                           whole.step(Mode::kGraph);
                         }
                         Trainer second = rank_trainer(group);
                         second.step(Mode::kGraph);  // its graph must follow the resume
                         second.resume(folder.path());
                         EXPECT_EQ(second.steps_done(), 5);
                         for (int step = 0; step < 5; ++step)
                           second.step(step % 2 == 0 ? Mode::kGraph : Mode::kEager);
                         EXPECT_EQ(digest(second.parameters()), digest(whole.parameters()));
                         EXPECT_EQ(digest(second.step(Mode::kGraph)),
                                   digest(whole.step(Mode::kGraph)));
                       }),
            "");
  EXPECT_EQ(inspect_checkpoint(folder.path()).steps_done, 5);
  EXPECT_EQ(inspect_checkpoint(folder.path()).nodes.size(), static_cast<std::size_t>(ranks_));
}

INSTANTIATE_TEST_SUITE_P(Places, Ranks,
                         ::testing::Values(Place{1, 1}, Place{2, 1}, Place{2, 2}, Place{4, 2}),
                         name_of);
// Four ranks on one node cost what two nodes of two do; only the losses are looked at again.
INSTANTIATE_TEST_SUITE_P(OneNode, Ranks, ::testing::Values(Place{4, 1}), name_of);

TEST(RanksCheckpoint, OtherRanksAreRefusedAndChangeNothing) {
  const Folder folder;
  EXPECT_EQ(in_threads(4, 2,
                       [&](bootstrap::Group& group) {
                         Trainer trainer = rank_trainer(group);
                         trainer.step(Mode::kEager);
                         trainer.save(folder.path());
                       }),
            "");
  const auto refused = [&](Trainer& trainer) {
    const auto before = digest(trainer.parameters());
    const std::string text = error_of([&] { trainer.resume(folder.path()); });
    EXPECT_EQ(digest(trainer.parameters()), before);
    EXPECT_EQ(trainer.steps_done(), 0);
    return text;
  };
  const std::string saved = "was saved by 4 ranks on nodes 0 0 1 1, this trainer is ";
  EXPECT_EQ(in_threads({0, 1},
                       [&](bootstrap::Group& group) {
                         Trainer trainer = rank_trainer(group);
                         EXPECT_TRUE(has(refused(trainer), saved + "2 ranks on nodes 0 1"));
                         trainer.step(Mode::kEager);  // fit for more
                       }),
            "");
  EXPECT_EQ(in_threads({0, 1, 0, 1},
                       [&](bootstrap::Group& group) {
                         Trainer trainer = rank_trainer(group);
                         EXPECT_TRUE(has(refused(trainer), saved + "4 ranks on nodes 0 1 0 1"));
                       }),
            "");
  Trainer alone(tiny_model(), four_sequences(), small_corpus(), device());
  EXPECT_TRUE(has(refused(alone), saved + "one rank"));
}

TEST(RanksContract, ImpossibleSharesAndDisagreementsAreNamed) {
  EXPECT_TRUE(has(error_of([] {
                    TrainConfig train = tiny_training();
                    train.batch = 6;
                    check(tiny_model(), train, 4);
                  }),
                  "train.batch"));
  EXPECT_TRUE(has(error_of([] {
                    ModelConfig model = tiny_model();
                    model.experts = 6;
                    check(model, four_sequences(), 4);
                  }),
                  "model.experts must be a multiple of the 4 ranks"));
  EXPECT_EQ(in_threads(2, 1,
                       [](bootstrap::Group& group) {
                         TrainConfig train = four_sequences();
                         if (group.rank() == 1) train.warmup_steps = 5;
                         const std::string text = error_of([&] {
                           const Trainer trainer(tiny_model(), train, small_corpus(),
                                                 device_of(group), group);
                         });
                         EXPECT_TRUE(has(text,
                                         "InvalidArgument: ranks disagree on train.warmup_steps: "
                                         "rank 0 has 4, rank 1 has 5"))
                             << text;
                         RanksOptions options;
                         if (group.rank() == 0) options.gradients = Gradients::kAfterBackward;
                         EXPECT_TRUE(has(error_of([&] { rank_trainer(group, options); }),
                                         "RanksOptions.gradients: rank 0 has kAfterBackward"));
                         EXPECT_TRUE(has(error_of([&] {
                                           const Trainer trainer(
                                               tiny_model(), four_sequences(),
                                               small_corpus(group.rank() == 0 ? 1 : 2),
                                               device_of(group), group);
                                         }),
                                         "text."));
                       }),
            "");
}

TEST(RanksContract, ANonFiniteLossIsThrownOnEveryRankAndLeavesTheWeights) {
  EXPECT_EQ(in_threads(2, 1,
                       [](bootstrap::Group& group) {
                         TrainConfig train = four_sequences();
                         train.lr = 1e30f;
                         train.warmup_steps = 0;
                         Trainer trainer(tiny_model(), train, small_corpus(), device_of(group),
                                         group);
                         std::string text = "nothing";
                         std::uint64_t before = 0;
                         for (int step = 1; step <= 5 && text == "nothing"; ++step) {
                           before = digest(trainer.parameters());
                           text = error_of([&] { trainer.step(Mode::kGraph); });
                         }
                         EXPECT_TRUE(has(text, "Internal: loss is not finite at step")) << text;
                         EXPECT_EQ(digest(trainer.parameters()), before);
                         require_same(group, static_cast<std::uint64_t>(trainer.steps_done()),
                                      "steps done", 0);
                       }),
            "");
}

TEST(RanksContract, EvaluationEndsOnAllRanksWhenOneWantsItTo) {
  EXPECT_EQ(in_threads(2, 1,
                       [](bootstrap::Group& group) {
                         Trainer trainer = rank_trainer(group);
                         int calls = 0;
                         const double loss = trainer.evaluate(0, [&](int done, int) {
                           ++calls;
                           return group.rank() == 0 || done < 2;
                         });
                         EXPECT_TRUE(std::isnan(loss));
                         EXPECT_EQ(calls, 3);
                         EXPECT_EQ(trainer.evaluate(2), trainer.evaluate(2));
                       }),
            "");
}

}  // namespace
}  // namespace rungs::training
