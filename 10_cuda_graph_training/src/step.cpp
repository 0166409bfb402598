#include "step.hpp"

#include "data/batch.hpp"

namespace rungs::training {

using optimizer::StepReport;
using optimizer::StepState;

namespace {

std::size_t elements(std::int64_t count) { return static_cast<std::size_t>(count); }

std::size_t shares_of(const RankShare& share) {
  return share.ranks > 1 ? elements(shares_behind(share.ranks)) : 0;
}

}  // namespace

TrainingStep::TrainingStep(const ModelConfig& model, const TrainConfig& train, const Corpus& corpus,
                           const gpu::Device& device, gpu::StreamHandle stream, RankLinks* links)
    : model_config_(model),
      train_config_(train),
      share_(links != nullptr ? links->share() : RankShare{}),
      sm_count_(device.info().sm_count),
      windows_((static_cast<std::int64_t>(corpus.held_out.size()) - 1) / model.context),
      layout_(model, share_.rank, share_.ranks),
      weights_(device, elements(layout_.count())),
      gradients_(device, elements(layout_.count()) + shares_of(share_)),
      moment1_(device, elements(layout_.count())),
      moment2_(device, elements(layout_.count())),
      weights_bf16_(device, elements(layout_.count())),
      partials_(device, elements(optimizer::norm_partials(layout_.count(), 2 * model.layers + 2))),
      text_(device, corpus.train.size()),
      held_out_(device, corpus.held_out.size()),
      state_(device, 1),
      report_(device, 1, gpu::Space::kHostMapped),
      model_(model, train.batch / share_.ranks, train.aux_weight,
             {weights_.data(), weights_bf16_.data(), gradients_.data()}, device, share_) {
  text_.upload(corpus.train, stream);
  held_out_.upload(corpus.held_out, stream);
  // Nobody writes the gradients of the padding between tensors: zero once, zero for ever.
  gpu::fill_async(gradients_.data(), 0, gradients_.size_bytes(), stream);
  load(initial(), queue(stream));
  if (links == nullptr) return;
  sums_ = std::make_unique<GradientSums>(gradient_buckets(layout_, shares_behind(share_.ranks)),
                                         gradients_.data(), links->gradients(), links->all_reduce(),
                                         device);
}

optimizer::RankSums TrainingStep::rank_sums() const {
  if (share_.ranks == 1) return {};
  const std::int64_t layers = model_config_.layers;
  const auto of_layers = [&](const Range& first) {
    return optimizer::Ranges{first.begin, layout_.layer_stride(), first.count, layers};
  };
  const Range head = layout_.head_range();
  return {
      .rank = share_.rank,
      .ranks = share_.ranks,
      .shares = gradients_.data() + layout_.count(),
      .experts = of_layers(layout_.experts(0)),
      .dense = {
          of_layers(layout_.dense(0)),
          {.begin = head.begin, .stride = 0, .length = layout_.count() - head.begin, .number = 1}}};
}

optimizer::OptimizerArgs TrainingStep::optimizer_args() const {
  return {.weights = weights_.data(),
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
          .clip = train_config_.clip,
          .over = rank_sums()};
}

void TrainingStep::enqueue(const gpu::Queue& queue) const {
  queue.part("batch", [&] {
    data::choose_batch({.text = text_.data(),
                        .text_bytes = static_cast<std::int64_t>(text_.size()),
                        .state = state_.data(),
                        .tokens = model_.tokens(),
                        .targets = model_.targets(),
                        .seed = train_config_.data_seed,
                        .first_sequence = share_.rank * local_batch(),
                        .first_window = 0,
                        .window_stride = 0,
                        .windows = 1,
                        .batch = local_batch(),
                        .context = model_config_.context},
                       queue);
  });
  model_.forward(queue, true);
  const optimizer::OptimizerArgs args = optimizer_args();
  if (sums_ == nullptr) {
    model_.backward(queue);
  } else {
    model_.backward(queue, [&](std::size_t bucket) {
      // The last bucket carries the shares, and by now the experts' gradients are there.
      if (bucket + 1 == sums_->buckets()) optimizer::fill_shares(args, queue);
      sums_->ready(bucket, queue);
    });
    sums_->finish(queue);
  }
  optimizer::update(args, queue);
}

void TrainingStep::enqueue_evaluation(const gpu::Queue& queue, std::int64_t first,
                                      std::int64_t stride) const {
  data::choose_batch({.text = held_out_.data(),
                      .text_bytes = static_cast<std::int64_t>(held_out_.size()),
                      .state = nullptr,
                      .tokens = model_.tokens(),
                      .targets = model_.targets(),
                      .seed = 0,
                      .first_sequence = 0,
                      .first_window = first,
                      .window_stride = stride,
                      .windows = windows_,
                      .batch = local_batch(),
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

void TrainingStep::load(const Checkpoint& checkpoint, const gpu::Queue& queue) {
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
