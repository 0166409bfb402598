#pragma once
// A few training steps as the ladder sees them: the naive rung launches kernel by kernel, the other
// replays a graph.

#include <rungs/gpu/buffer.hpp>
#include <rungs/gpu/stream.hpp>
#include <rungs/ladder/build.hpp>
#include <rungs/training/trainer.hpp>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "step.hpp"

namespace rungs::training {

/// `steps` optimizer steps of `step`, one after the other. After the first, its report goes to
/// `first_report`.
struct StepArgs {
  const TrainingStep* step = nullptr;
  int steps = 1;
  optimizer::StepReport* first_report = nullptr;  // host-mapped
};

/// Both rungs serve every call; the array is the ladder, naive first.
extern const std::array<ladder::Rung<StepArgs>, 2> kStepLadder;

/// Words in random order: no file is needed to check a step.
Corpus made_up_text(std::uint64_t seed);
/// The loss of step 1 from the model in double, which starts with `values`, laid out as one rank
/// has them.
double first_loss(const ModelConfig& model, const TrainConfig& train, const Corpus& corpus,
                  const std::vector<float>& values);
/// How far a rung's may lie from it.
double first_loss_bound(const ModelConfig& model);

/// How many tokens a step and how many steps a run.
struct StepShape {
  int batch = 4;
  int steps = 4;
};

/// Output: loss of the first step, then every parameter after the last.
class StepProblem final : public ladder::Problem<StepArgs> {
 public:
  StepProblem(const StepShape& shape, const gpu::Device& device, std::uint64_t seed);
  StepArgs args() override { return {step_.get(), shape_.steps, first_report_.data()}; }
  void reset() override;
  std::vector<float> output() override;
  /// The loss of the first step, from the model in double. Later steps are judged by equality of
  /// the rungs' bits.
  ladder::Reference reference() override;
  double bound(std::size_t element) override;
  std::string describe(std::size_t element) override;

 private:
  StepShape shape_;
  ModelConfig model_;
  TrainConfig train_;
  Corpus corpus_;
  gpu::Stream stream_;
  gpu::Buffer<optimizer::StepReport> first_report_;
  std::unique_ptr<TrainingStep> step_;
  Checkpoint initial_;
};

}  // namespace rungs::training
