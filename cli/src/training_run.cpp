#include "training_run.hpp"

#include "interrupt.hpp"
#include "screen.hpp"

#include <fmt/format.h>
#include <rungs/core/progress.hpp>
#include <rungs/core/table.hpp>
#include <rungs/core/text.hpp>

#include <algorithm>
#include <chrono>
#include <deque>
#include <numeric>
#include <optional>
#include <vector>

namespace rungs::cli {
namespace {

constexpr std::size_t kRecentSteps = 10;  // a single batch's loss jitters

double mean(const std::deque<double>& values) {
  if (values.empty()) return 0;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

std::string grouped(std::size_t number) {
  const std::string digits = std::to_string(number);
  std::string result;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) result += ',';
    result += digits[i];
  }
  return result;
}

/// Steps, looks and savings of one run.
class Run {
 public:
  Run(training::Trainer& trainer, const training::TrainConfig& config, const TrainingPlan& plan,
      bootstrap::Group* group)
      : trainer_(trainer),
        config_(config),
        plan_(plan),
        group_(group),
        speaks_(group == nullptr || group->rank() == 0) {}

  TrainingOutcome run() {
    std::optional<InterruptGuard> interrupt;
    if (group_ == nullptr) interrupt.emplace();
    train();
    outcome_.steps_now = steps_;
    outcome_.steps_done = trainer_.steps_done();
    outcome_.train_loss = mean(recent_);
    outcome_.parameters = trainer_.parameter_count();
    outcome_.ranks = trainer_.ranks();
    if (group_ != nullptr) outcome_.nodes = static_cast<int>(group_->hosts().size());
    if (!plan_.checkpoint.empty()) trainer_.save(plan_.checkpoint);
    if (outcome_.signal == 0) read_held_out();
    if (speaks_ && looks_.rows() > 0) write_table(looks_, 4);
    return outcome_;
  }

 private:
  void train() {
    const int first = trainer_.steps_done();
    if (first >= plan_.steps) {
      outcome_.signal = signal();
      return;
    }
    std::optional<Progress> progress;
    if (speaks_) progress.emplace("train", static_cast<std::uint64_t>(plan_.steps - first));
    while (trainer_.steps_done() < plan_.steps && (outcome_.signal = signal()) == 0) {
      step();
      const int done = trainer_.steps_done();
      if (progress) progress->update(static_cast<std::uint64_t>(done - first), suffix());
      if (done < plan_.steps) between_steps(done);
    }
    if (progress) progress->finish(suffix());
  }

  /// What has arrived on any rank: all must stop after the same step.
  [[nodiscard]] int signal() const {
    const int mine = InterruptGuard::signal();
    if (group_ == nullptr) return mine;
    const std::vector<int> all = group_->all_gather(mine);
    return *std::max_element(all.begin(), all.end());
  }

  void step() {
    const auto start = std::chrono::steady_clock::now();
    last_ = trainer_.step(plan_.mode);
    seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    ++steps_;
    recent_.push_back(last_.loss);
    if (recent_.size() > kRecentSteps) recent_.pop_front();
    outcome_.bytes_per_second = static_cast<double>(steps_) * config_.batch *
                                trainer_.model().context / std::max(seconds_, 1e-9);
  }

  void between_steps(int done) {
    if (plan_.evaluate_every > 0 && done % plan_.evaluate_every == 0) {
      held_out_ = trainer_.evaluate(plan_.evaluate_batches);
      add_look(fmt::format("{:.3f}", held_out_));
    }
    if (!plan_.checkpoint.empty() && plan_.checkpoint_every > 0 &&
        done % plan_.checkpoint_every == 0) {
      trainer_.save(plan_.checkpoint);
    }
  }

  /// All of the held-out text, unless a signal arrives.
  void read_held_out() {
    std::optional<Progress> progress;
    bool whole = false;
    outcome_.held_out_loss = trainer_.evaluate(0, [&](int done, int total) {
      if (speaks_) {
        if (!progress) progress.emplace("held-out text", static_cast<std::uint64_t>(total));
        progress->update(static_cast<std::uint64_t>(done));
      }
      whole = done == total;
      return InterruptGuard::signal() == 0;
    });
    if (!whole) outcome_.signal = signal();
    if (whole && steps_ > 0) add_look(fmt::format("{:.3f} (all)", outcome_.held_out_loss));
  }

  void add_look(const std::string& held_out) {
    looks_.add_row({std::to_string(trainer_.steps_done()), fmt::format("{:.3f}", mean(recent_)),
                    held_out, fmt::format("{:.3f}", last_.aux_loss),
                    fmt::format("{:.2f}", last_.grad_norm),
                    fmt::format("{:.0f}", outcome_.bytes_per_second)});
  }

  [[nodiscard]] std::string suffix() const {
    if (steps_ == 0) return "";
    std::string text = fmt::format("loss {:.2f} nats/byte  {}", mean(recent_),
                                   format_quantity(outcome_.bytes_per_second, "tok/s"));
    if (held_out_ > 0) text += fmt::format("  held out {:.2f}", held_out_);
    return text;
  }

  training::Trainer& trainer_;
  const training::TrainConfig& config_;
  const TrainingPlan& plan_;
  bootstrap::Group* group_;
  bool speaks_;
  TrainingOutcome outcome_;
  training::StepResult last_;
  std::deque<double> recent_;
  double held_out_ = 0;
  double seconds_ = 0;
  int steps_ = 0;
  Table looks_{
      {"step", "train loss", "held-out (sample)", "router balance", "gradient norm", "tokens/s"}};
};

}  // namespace

void introduce(const training::Corpus& corpus, const training::ModelConfig& model,
               const training::TrainConfig& config, int ranks, int nodes) {
  paragraph(fmt::format("text: {}, {} bytes to train on, {} held out. A token is a byte",
                        corpus.name, grouped(corpus.train.size()),
                        grouped(corpus.held_out.size())));
  paragraph(
      fmt::format("what frequencies alone predict: {:.3f} nats a byte from single bytes (unigram "
                  "entropy), {:.3f} from "
                  "pairs (bigram entropy)",
                  corpus.unigram_entropy, corpus.bigram_entropy));
  paragraph(
      fmt::format("model: {} parameters; {} layers, width {}, {} heads, {} experts of {}, top {}",
                  grouped(training::parameter_count(model)), model.layers, model.width, model.heads,
                  model.experts, model.hidden, model.top_k));
  paragraph(fmt::format("step: {} sequences of {} bytes; AdamW, learning rate {:g}, clip {:g}",
                        config.batch, model.context, config.lr, config.clip));
  if (ranks == 1) return;
  paragraph(
      fmt::format("ranks: {}, {}; each has {} of the experts of a layer and {} of a step's "
                  "sequences",
                  ranks,
                  nodes == 1 ? std::string("which reach each other's memory")
                             : fmt::format("on {} nodes that talk through an HCA", nodes),
                  model.experts / ranks, config.batch / ranks));
}

void introduce(const training::Trainer& trainer, const training::TrainConfig& config) {
  introduce(trainer.corpus(), trainer.model(), config);
}

TrainingOutcome run_training(training::Trainer& trainer, const training::TrainConfig& config,
                             const TrainingPlan& plan, bootstrap::Group* group) {
  return Run(trainer, config, plan, group).run();
}

void add_training_rows(Report& report, const training::Trainer& trainer,
                       const training::TrainConfig& config, const TrainingPlan& plan,
                       const TrainingOutcome& outcome, bool checked) {
  add_training_rows(report, trainer.corpus(), trainer.model(), config, plan, outcome, checked);
}

void add_training_rows(Report& report, const training::Corpus& corpus,
                       const training::ModelConfig& model, const training::TrainConfig& config,
                       const TrainingPlan& plan, const TrainingOutcome& outcome, bool checked) {
  const auto add = [&](const char* metric, double value, const char* unit, bool verified) {
    ladder::Row row = ladder::make_row("10_cuda_graph_training", "train");
    row.rung = plan.mode == training::Mode::kGraph ? "graph" : "eager";
    row.case_name = fmt::format("{}, {} x {} bytes, {} steps", corpus.name, config.batch,
                                model.context, outcome.steps_done);
    if (outcome.ranks > 1)
      row.case_name += fmt::format(", {} ranks on {} nodes", outcome.ranks, outcome.nodes);
    row.metric = metric;
    row.value = value;
    row.unit = unit;
    row.checked = verified;
    report.add(std::move(row));
  };
  if (outcome.steps_now > 0) add("loss", outcome.train_loss, "nats/byte", checked);
  if (outcome.signal == 0) add("held_out_loss", outcome.held_out_loss, "nats/byte", checked);
  add("unigram_entropy", corpus.unigram_entropy, "nats/byte", false);
  add("bigram_entropy", corpus.bigram_entropy, "nats/byte", false);
  if (outcome.steps_now > 0) add("tokens_per_second", outcome.bytes_per_second, "1/s", false);
  add("parameters", static_cast<double>(outcome.parameters), "", false);
}

}  // namespace rungs::cli
