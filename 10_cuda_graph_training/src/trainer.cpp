#include <rungs/training/trainer.hpp>

#include <rungs/core/error.hpp>
#include <rungs/gpu/graph.hpp>
#include <rungs/gpu/stream.hpp>

#include <algorithm>
#include <exception>
#include <limits>
#include <optional>
#include <utility>

#include "checkpoint.hpp"
#include "config.hpp"
#include "rank_links.hpp"
#include "step.hpp"

namespace rungs::training {

struct Trainer::State {
  State(const ModelConfig& model_settings, const TrainConfig& train_settings, Corpus text,
        const gpu::Device& device, bootstrap::Group* group, const RanksOptions& options)
      : model_config(model_settings),
        train_config(train_settings),
        corpus(std::move(text)),
        stream(device),
        links(
            group == nullptr || group->size() == 1
                ? nullptr
                : std::make_unique<RankLinks>(*group, device, options, model_config, train_config)),
        step(model_config, train_config, corpus, device, stream.get(), links.get()) {
    if (links != nullptr) links->seal();
  }
  ~State() {
    // The step's buffers must outlive what is enqueued. A failed kernel was reported by the call
    // that waited for it. After an error peers may never come: nothing waits for them then.
    if (links != nullptr && std::uncaught_exceptions() > exceptions_before)
      links->abort("its trainer was destroyed while an exception was thrown");
    try {
      stream.synchronize();
    } catch (const Error&) {
    }
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  [[nodiscard]] gpu::Queue queue() const { return step.queue(stream.get()); }
  void synchronize() const {
    if (links != nullptr) {
      links->synchronize(stream);
    } else {
      stream.synchronize();
    }
  }
  /// Waits, and turns the report into a result or an error.
  StepResult finish_step();
  /// What the ranks' values add up to, in the order of ranks.
  [[nodiscard]] double sum_over_ranks(double mine) const;
  /// Whether every rank says so.
  [[nodiscard]] bool all_ranks(bool mine) const;

  ModelConfig model_config;
  TrainConfig train_config;
  Corpus corpus;
  int exceptions_before = std::uncaught_exceptions();
  gpu::Stream stream;
  std::unique_ptr<RankLinks> links;  // null: alone
  TrainingStep step;
  std::optional<gpu::Graph> graph;
  std::uint64_t steps_done = 0;
};

double Trainer::State::sum_over_ranks(double mine) const {
  if (links == nullptr) return mine;
  double sum = 0;
  for (const double value : links->group().all_gather(mine)) sum += value;
  return sum;
}

bool Trainer::State::all_ranks(bool mine) const {
  if (links == nullptr) return mine;
  const std::vector<char> all = links->group().all_gather(static_cast<char>(mine));
  return std::all_of(all.begin(), all.end(), [](char yes) { return yes != 0; });
}

StepResult Trainer::State::finish_step() {
  synchronize();
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

void check(const ModelConfig& model, const TrainConfig& train, int ranks) {
  validate(model, train);
  if (ranks > 1) validate(model, train, ranks);
}

std::size_t parameter_count(const ModelConfig& model) {
  return static_cast<std::size_t>(ParameterLayout(model).trained());
}

Trainer::Trainer(const ModelConfig& model, const TrainConfig& train, Corpus corpus,
                 const gpu::Device& device) {
  check(model, train);
  validate(corpus, model.context);
  state_ =
      std::make_unique<State>(model, train, std::move(corpus), device, nullptr, RanksOptions{});
}

Trainer::Trainer(const ModelConfig& model, const TrainConfig& train, Corpus corpus,
                 const gpu::Device& device, bootstrap::Group& group, const RanksOptions& options) {
  check(model, train, group.size());
  validate(corpus, model.context);
  require_agreement(group, fields_of(model, train, corpus), options);
  state_ = std::make_unique<State>(model, train, std::move(corpus), device, &group, options);
  group.barrier();  // nobody allocates while a peer's kernels wait
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
    // Nobody's graph is made while a peer's kernels wait: on a shared GPU that may wait for them.
    if (s.links != nullptr) s.links->group().barrier();
  }
  s.graph->replay(s.stream);
  return s.finish_step();
}

std::vector<PartTime> Trainer::profile_step() {
  State& s = *state_;
  gpu::Profile profile;
  gpu::Queue queue = s.queue();
  queue.profile = &profile;
  s.step.enqueue(queue);
  s.finish_step();
  std::vector<PartTime> times;
  for (const gpu::Profile::Part& part : profile.parts)
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
  const std::int64_t mine = s.step.local_batch();
  double sum = 0;
  for (std::int64_t first = 0; first < used; first += batch) {
    if (!s.all_ranks(!go_on || go_on(static_cast<int>(first / batch), passes)))
      return std::numeric_limits<double>::quiet_NaN();
    const std::int64_t own = first + rank() * mine;
    s.step.enqueue_evaluation(s.queue(), own * stride, stride);
    s.synchronize();
    const std::vector<float> rows = s.step.loss_rows().download(s.stream);
    // The last batch may reach beyond the windows: those sequences are repetitions and do not
    // count.
    const std::int64_t counted =
        std::clamp<std::int64_t>(used - own, 0, mine) * s.model_config.context;
    for (std::int64_t i = 0; i < counted; ++i)
      sum += static_cast<double>(rows[static_cast<std::size_t>(i)]);
  }
  if (go_on) go_on(passes, passes);
  return s.sum_over_ranks(sum) / static_cast<double>(used * s.model_config.context);
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
int Trainer::rank() const noexcept {
  return state_->links == nullptr ? 0 : state_->links->share().rank;
}
int Trainer::ranks() const noexcept {
  return state_->links == nullptr ? 1 : state_->links->share().ranks;
}

void Trainer::save(const std::string& directory) const {
  const State& s = *state_;
  const Fields fields = fields_of(s.model_config, s.train_config, s.corpus);
  const Checkpoint mine = s.step.download(s.stream);
  if (s.links != nullptr) {
    s.links->checkpoints().save(directory, fields, mine);
  } else {
    write_checkpoint(directory, fields, mine);
  }
}

void Trainer::resume(const std::string& directory, Resume rule) {
  State& s = *state_;
  const Fields fields = fields_of(s.model_config, s.train_config, s.corpus);
  const auto count = static_cast<std::size_t>(s.step.layout().count());
  const Checkpoint checkpoint = s.links != nullptr
                                    ? s.links->checkpoints().load(directory, fields, rule, count)
                                    : read_checkpoint(directory, fields, rule, count);
  s.step.load(checkpoint, s.queue());
  s.steps_done = checkpoint.step;
}

std::vector<float> Trainer::parameters() const { return state_->step.parameters(state_->stream); }

}  // namespace rungs::training
