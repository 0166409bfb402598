#include "step.hpp"

#include "data/batch.hpp"

namespace rungs::training {

using optimizer::StepReport;
using optimizer::StepState;

TrainingStep::TrainingStep(const ModelConfig& model, const TrainConfig& train, const Corpus& corpus,
                           const gpu::Device& device, gpu::StreamHandle stream)
    : model_config_(model),
      train_config_(train),
      sm_count_(device.info().sm_count),
      windows_((static_cast<std::int64_t>(corpus.held_out.size()) - 1) / model.context),
      layout_(model),
      weights_(device, static_cast<std::size_t>(layout_.count())),
      gradients_(device, static_cast<std::size_t>(layout_.count())),
      moment1_(device, static_cast<std::size_t>(layout_.count())),
      moment2_(device, static_cast<std::size_t>(layout_.count())),
      weights_bf16_(device, static_cast<std::size_t>(layout_.count())),
      partials_(device, static_cast<std::size_t>(optimizer::norm_partials(layout_.count()))),
      text_(device, corpus.train.size()),
      held_out_(device, corpus.held_out.size()),
      state_(device, 1),
      report_(device, 1, gpu::Space::kHostMapped),
      model_(model, train.batch, train.aux_weight,
             {weights_.data(), weights_bf16_.data(), gradients_.data()}, device) {
  text_.upload(corpus.train, stream);
  held_out_.upload(corpus.held_out, stream);
  // Nobody writes the gradients of the padding between tensors: zero once, zero for ever.
  gpu::fill_async(gradients_.data(), 0, gradients_.size_bytes(), stream);
  load(initial(), queue(stream));
}

void TrainingStep::enqueue(const Queue& queue) const {
  queue.part("batch", [&] {
    data::choose_batch({.text = text_.data(),
                        .text_bytes = static_cast<std::int64_t>(text_.size()),
                        .state = state_.data(),
                        .tokens = model_.tokens(),
                        .targets = model_.targets(),
                        .seed = train_config_.data_seed,
                        .first_window = 0,
                        .window_stride = 0,
                        .windows = 1,
                        .batch = train_config_.batch,
                        .context = model_config_.context},
                       queue);
  });
  model_.forward(queue, true);
  model_.backward(queue);
  optimizer::update({.weights = weights_.data(),
                     .weights_bf16 = weights_bf16_.data(),
                     .moment1 = moment1_.data(),
                     .moment2 = moment2_.data(),
                     .gradients = gradients_.data(),
                     .partials = partials_.data(),
                     .loss_rows = model_.loss_rows().data(),
                     .balance = model_.balance(),
                     .state = state_.data(),
                     .report = report_.data(),
                     .count = layout_.count(),
                     .decayed = layout_.decayed(),
                     .rows = model_.extents().tokens,
                     .layers = model_config_.layers,
                     .experts = model_config_.experts,
                     .steps = train_config_.steps,
                     .warmup_steps = train_config_.warmup_steps,
                     .lr = train_config_.lr,
                     .weight_decay = train_config_.weight_decay,
                     .clip = train_config_.clip},
                    queue);
}

void TrainingStep::enqueue_evaluation(const Queue& queue, std::int64_t first,
                                      std::int64_t stride) const {
  data::choose_batch({.text = held_out_.data(),
                      .text_bytes = static_cast<std::int64_t>(held_out_.size()),
                      .state = nullptr,
                      .tokens = model_.tokens(),
                      .targets = model_.targets(),
                      .seed = 0,
                      .first_window = first,
                      .window_stride = stride,
                      .windows = windows_,
                      .batch = train_config_.batch,
                      .context = model_config_.context},
                     queue);
  model_.forward(queue, false);
}

Checkpoint TrainingStep::download(gpu::StreamHandle stream) const {
  return {.step = state_.download(stream).front().step,
          .weights = weights_.download(stream),
          .moment1 = moment1_.download(stream),
          .moment2 = moment2_.download(stream)};
}

void TrainingStep::load(const Checkpoint& checkpoint, const Queue& queue) {
  weights_.upload(checkpoint.weights, queue.stream);
  moment1_.upload(checkpoint.moment1, queue.stream);
  moment2_.upload(checkpoint.moment2, queue.stream);
  StepState state{};
  state.step = checkpoint.step;
  state_.upload({&state, 1}, queue.stream);
  optimizer::refresh_bf16(weights_.data(), weights_bf16_.data(), layout_.count(), queue);
  gpu::synchronize(queue.stream);
}

Checkpoint TrainingStep::initial() const {
  const auto count = static_cast<std::size_t>(layout_.count());
  return {.step = 0,
          .weights = layout_.initial_values(model_config_.seed),
          .moment1 = std::vector<float>(count, 0.0f),
          .moment2 = std::vector<float>(count, 0.0f)};
}

}  // namespace rungs::training
