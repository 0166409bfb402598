#include <rungs/training/trainer.hpp>

#include <rungs/core/error.hpp>
#include <rungs/gpu/graph.hpp>
#include <rungs/gpu/stream.hpp>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "checkpoint.hpp"
#include "config.hpp"
#include "step.hpp"

namespace rungs::training {

struct Trainer::State {
  State(const ModelConfig& model_settings, const TrainConfig& train_settings, Corpus text,
        const gpu::Device& device)
      : model_config(model_settings),
        train_config(train_settings),
        corpus(std::move(text)),
        stream(device),
        step(model_settings, train_settings, corpus, device, stream.get()) {}
  ~State() {
    // The step's buffers must outlive what is enqueued. A failed kernel was reported by the call
    // that waited for it.
    try {
      stream.synchronize();
    } catch (const Error&) {
    }
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  [[nodiscard]] Queue queue() const { return step.queue(stream.get()); }
  /// Waits, and turns the report into a result or an error.
  StepResult finish_step();

  ModelConfig model_config;
  TrainConfig train_config;
  Corpus corpus;
  gpu::Stream stream;
  TrainingStep step;
  std::optional<gpu::Graph> graph;
  std::uint64_t steps_done = 0;
};

StepResult Trainer::State::finish_step() {
  stream.synchronize();
  const optimizer::StepReport& result = step.report();
  if (result.finite == 0) {
    RUNGS_THROW(kInternal, "loss is not finite at step ", steps_done + 1, ": loss ", result.loss,
                ", gradient norm ", result.grad_norm, "; weights and moments are those of step ",
                steps_done, ". A lower train.lr (now ", train_config.lr,
                ") or more train.warmup_steps usually cure this");
  }
  steps_done = result.step;
  return {.loss = result.loss, .aux_loss = result.aux_loss, .grad_norm = result.grad_norm};
}

Trainer::Trainer(const ModelConfig& model, const TrainConfig& train, Corpus corpus,
                 const gpu::Device& device) {
  validate(model, train);
  validate(corpus, model.context);
  state_ = std::make_unique<State>(model, train, std::move(corpus), device);
}

Trainer::~Trainer() = default;
Trainer::Trainer(Trainer&&) noexcept = default;
Trainer& Trainer::operator=(Trainer&&) noexcept = default;

StepResult Trainer::step(Mode mode) {
  State& s = *state_;
  if (mode == Mode::kEager) {
    s.step.enqueue(s.queue());
    return s.finish_step();
  }
  if (!s.graph.has_value()) {
    s.graph.emplace(gpu::Graph::capture(s.stream, [&s] { s.step.enqueue(s.queue()); }));
  }
  s.graph->replay(s.stream);
  return s.finish_step();
}

std::vector<PartTime> Trainer::profile_step() {
  State& s = *state_;
  Profile profile;
  Queue queue = s.queue();
  queue.profile = &profile;
  s.step.enqueue(queue);
  s.finish_step();
  std::vector<PartTime> times;
  for (const Profile::Part& part : profile.parts)
    times.push_back({part.name, part.seconds, part.calls});
  return times;
}

double Trainer::evaluate(int batches, const std::function<bool(int, int)>& go_on) {
  State& s = *state_;
  RUNGS_REQUIRE(batches >= 0, "evaluate: batches must be at least 0, got ", batches);
  const std::int64_t batch = s.train_config.batch;
  const std::int64_t windows = s.step.held_out_windows();
  // All windows in order, or as many as asked for, spread evenly over the text.
  const std::int64_t asked = batches * batch;
  const bool all = batches == 0 || asked >= windows;
  const std::int64_t used = all ? windows : asked;
  const std::int64_t stride = all ? 1 : windows / asked;
  const auto passes = static_cast<int>((used + batch - 1) / batch);
  double sum = 0;
  for (std::int64_t first = 0; first < used; first += batch) {
    if (go_on && !go_on(static_cast<int>(first / batch), passes))
      return std::numeric_limits<double>::quiet_NaN();
    s.step.enqueue_evaluation(s.queue(), first * stride, stride);
    const std::vector<float> rows = s.step.loss_rows().download(s.stream);
    // The last batch may reach beyond the windows: those sequences are repetitions and do not
    // count.
    const std::int64_t counted = std::min(batch, used - first) * s.model_config.context;
    for (std::int64_t i = 0; i < counted; ++i)
      sum += static_cast<double>(rows[static_cast<std::size_t>(i)]);
  }
  if (go_on) go_on(passes, passes);
  return sum / static_cast<double>(used * s.model_config.context);
}

int Trainer::steps_done() const noexcept { return static_cast<int>(state_->steps_done); }
std::size_t Trainer::parameter_count() const noexcept {
  return static_cast<std::size_t>(state_->step.layout().trained());
}
std::size_t Trainer::graph_nodes() const noexcept {
  return state_->graph.has_value() ? state_->graph->node_count() : 0;
}
const Corpus& Trainer::corpus() const noexcept { return state_->corpus; }
const ModelConfig& Trainer::model() const noexcept { return state_->model_config; }

void Trainer::save(const std::string& directory) const {
  const State& s = *state_;
  write_checkpoint(directory, fields_of(s.model_config, s.train_config, s.corpus),
                   s.step.download(s.stream));
}

void Trainer::resume(const std::string& directory, Resume rule) {
  State& s = *state_;
  const Fields fields = fields_of(s.model_config, s.train_config, s.corpus);
  const Checkpoint checkpoint =
      read_checkpoint(directory, fields, rule, static_cast<std::size_t>(s.step.layout().count()));
  s.step.load(checkpoint, s.queue());
  s.steps_done = checkpoint.step;
}

std::vector<float> Trainer::parameters() const { return state_->step.parameters(state_->stream); }

}  // namespace rungs::training
