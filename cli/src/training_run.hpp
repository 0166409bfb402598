#pragma once
/// @file training_run.hpp
/// Training with something to look at: shared by `tour` and `train`.

#include "report.hpp"

#include <rungs/bootstrap/group.hpp>
#include <rungs/training/trainer.hpp>

#include <cstddef>
#include <string>

namespace rungs::cli {

struct TrainingPlan {
  int steps = 250;  ///< train until this many steps are done, earlier ones of a checkpoint included
  training::Mode mode = training::Mode::kGraph;
  int evaluate_every = 50;   ///< steps between looks at the held-out text; 0: only at the end
  int evaluate_batches = 8;  ///< of such a look; the last one reads all of it
  std::string checkpoint;    ///< folder; empty: nothing is saved
  int checkpoint_every = 0;  ///< 0: only at the end and when interrupted
};

struct TrainingOutcome {
  int steps_done = 0;           ///< those of a checkpoint included
  int steps_now = 0;            ///< of this run; without any there is neither loss nor speed
  double train_loss = 0;        ///< mean of the last steps, up to ten; nats a byte
  double held_out_loss = 0;     ///< over the whole held-out text; nats a byte
  double bytes_per_second = 0;  ///< of training, without the looks at the held-out text
  std::size_t parameters = 0;   ///< of the whole model
  int ranks = 1;
  int nodes = 1;
  int signal = 0;  ///< that ended it early, or 0; then held_out_loss is not set. All steps may be
                   ///< done: the look at the held-out text ends early too
};

/// Says what the text and the model are, and on how many ranks they are trained.
void introduce(const training::Corpus& corpus, const training::ModelConfig& model,
               const training::TrainConfig& config, int ranks = 1, int nodes = 1);
/// The same of one rank.
void introduce(const training::Trainer& trainer, const training::TrainConfig& config);

/// Steps with a progress bar, then a table of the losses on the way. Saves as planned. Stops after
/// the step, or the batch of the held-out text, in which SIGINT or SIGTERM arrived, saved if there
/// is a folder.
/// @param group of several ranks: collective then; rank 0 shows what there is to see, and a signal
///        that reaches one rank stops all after the same step. The caller holds the InterruptGuard.
///        Null: alone
TrainingOutcome run_training(training::Trainer& trainer, const training::TrainConfig& config,
                             const TrainingPlan& plan, bootstrap::Group* group = nullptr);

/// Adds rows: losses, entropies and speed.
/// @param checked whether the losses were held against a criterion and met it
void add_training_rows(Report& report, const training::Corpus& corpus,
                       const training::ModelConfig& model, const training::TrainConfig& config,
                       const TrainingPlan& plan, const TrainingOutcome& outcome, bool checked);
/// The same of one rank.
void add_training_rows(Report& report, const training::Trainer& trainer,
                       const training::TrainConfig& config, const TrainingPlan& plan,
                       const TrainingOutcome& outcome, bool checked);

}  // namespace rungs::cli
