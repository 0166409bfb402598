#pragma once
// Everything a training step needs in device memory, and the step as a sequence of launches that
// reads nothing from the host: what Trainer runs eagerly, captures and replays.

#include <rungs/gpu/buffer.hpp>
#include <rungs/training/trainer.hpp>

#include <cstdint>
#include <memory>

#include "checkpoint.hpp"
#include "gradient_sums.hpp"
#include "model/model.hpp"
#include "optimizer/optimizer.hpp"
#include "rank_links.hpp"

namespace rungs::training {

class TrainingStep {
 public:
  /// Weights are the initial ones, and `corpus` is copied to the device, when this returns.
  /// @param links of a rank among several; collective then, and they must outlive the step
  TrainingStep(const ModelConfig& model, const TrainConfig& train, const Corpus& corpus,
               const gpu::Device& device, gpu::StreamHandle stream, RankLinks* links = nullptr);

  /// The whole step: batch, forward, backward, sum of gradients, clip, schedule, AdamW. Capturable
  /// unless the queue has a profile.
  void enqueue(const gpu::Queue& queue) const;
  /// Forward only, over windows `first`, `first + stride`, … of the held-out text, to loss_rows().
  /// Of several ranks each gives its own.
  void enqueue_evaluation(const gpu::Queue& queue, std::int64_t first, std::int64_t stride) const;

  /// What the last finished step reported. Valid once the stream is synchronised.
  [[nodiscard]] const optimizer::StepReport& report() const noexcept { return *report_.data(); }
  [[nodiscard]] const gpu::Buffer<float>& loss_rows() const noexcept { return model_.loss_rows(); }
  /// Windows of `context` bytes that do not overlap, each with the target of its last byte.
  [[nodiscard]] std::int64_t held_out_windows() const noexcept { return windows_; }

  /// Weights and moments as they are; `step` is what the device counts.
  [[nodiscard]] Checkpoint download(gpu::StreamHandle stream) const;
  [[nodiscard]] std::vector<float> parameters(gpu::StreamHandle stream) const {
    return weights_.download(stream);
  }
  /// Replaces them, and waits.
  void load(const Checkpoint& checkpoint, const gpu::Queue& queue);
  /// Sequences of a step that this rank computes.
  [[nodiscard]] int local_batch() const noexcept { return model_.extents().batch; }
  /// Step 0: initial weights, moments zero.
  [[nodiscard]] Checkpoint initial() const;

  [[nodiscard]] const ParameterLayout& layout() const noexcept { return layout_; }
  [[nodiscard]] const TrainConfig& settings() const noexcept { return train_config_; }
  [[nodiscard]] gpu::Queue queue(gpu::StreamHandle stream) const {
    return {stream, sm_count_, nullptr};
  }

 private:
  [[nodiscard]] optimizer::OptimizerArgs optimizer_args() const;
  [[nodiscard]] optimizer::RankSums rank_sums() const;

  ModelConfig model_config_;
  TrainConfig train_config_;
  RankShare share_;
  int sm_count_;
  std::int64_t windows_;
  ParameterLayout layout_;
  gpu::Buffer<float> weights_, gradients_, moment1_, moment2_;
  gpu::Buffer<bf16> weights_bf16_;
  gpu::Buffer<double> partials_;
  gpu::Buffer<std::uint8_t> text_, held_out_;
  gpu::Buffer<optimizer::StepState> state_;
  gpu::Buffer<optimizer::StepReport> report_;
  Model model_;
  std::unique_ptr<GradientSums> sums_;  // of several ranks
};

}  // namespace rungs::training
