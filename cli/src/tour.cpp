// `rungs tour`: what this machine is, the ladders of all ten stages, then a training run over four
// ranks whose loss must fall below what the text's own frequencies predict.
#include "book.hpp"
#include "commands.hpp"
#include "facts.hpp"
#include "interrupt.hpp"
#include "ladder_view.hpp"
#include "ranks_run.hpp"
#include "report.hpp"
#include "screen.hpp"
#include "stages.hpp"
#include "training_run.hpp"

#include <fmt/format.h>
#include <rungs/core/text.hpp>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>

namespace rungs::cli {
namespace {

struct TourOptions {
  bool quick = false;
  std::string json;
  int steps = 0;  // 0: the preset's
  std::uint64_t seed = 1;
};

/// Four ranks as two pretend nodes of two: threads of this process. Inside a node they map each
/// other's memory, between nodes they talk through the software HCA.
constexpr RanksRun kRanks{2, 2};

/// Steps that are run twice, launched and replayed, to compare their bits.
constexpr int kComparedSteps = 5;
constexpr int kComparedStepsQuick = 2;
constexpr double kQuickLoss =
    2.5;  // nats a byte; the full tour's criterion is the text's bigram entropy

training::TrainConfig preset(const TourOptions& options) {
  return options.quick ? training::TrainConfig::quick() : training::TrainConfig::tour();
}

void show_machine(const gpu::Device& device) {
  heading("This machine");
  for (const Fact& fact : main_facts(device)) {
    const std::string mark = fact.verdict == Verdict::kReal       ? good("real    ")
                             : fact.verdict == Verdict::kEmulated ? warn("emulated")
                                                                  : faint("        ");
    write(fmt::format("  {}  {}  {}\n", mark, pad_right(fact.what, 8), wrap(fact.found, 22)));
    write(fmt::format("{:22}{}\n", "", faint(wrap(fact.follows, 22))));
  }
  if (const std::string missing = stages_to_come(); !missing.empty())
    paragraph(fmt::format("Stages {} are still to come: nothing below stands for them.", missing));
}

void stop(Report& report, int signal, const std::string& where) {
  report.stopped(fmt::format("({}) {}", strsignal(signal), where));
}

/// Two new sets of trainers, one stepped kernel by kernel, one by a captured graph on every rank:
/// every number and every weight must be equal.
/// @return the signal that ended it early, or 0
int compare_modes(const training::ModelConfig& model, const training::TrainConfig& config,
                  const training::Corpus& corpus, bool emulated, int steps, Report& report) {
  double seconds[2] = {0, 0};
  int signal = 0;
  const bool equal = same_bits_over_ranks(model, config, corpus, steps, kRanks, seconds, signal);
  if (signal != 0) {
    stop(report, signal, "in the comparison of eager and graph, before they were judged");
    return signal;
  }
  std::string line = fmt::format(
      "{} steps launched kernel by kernel and {} replayed from one graph a rank: {}", steps, steps,
      equal ? "the same bits in loss, gradient norm and every parameter of every rank"
            : "DIFFERENT BITS");
  if (!emulated && steps > 1) {
    line += fmt::format("; {} and {} a step", format_seconds(seconds[0] / (steps - 1)),
                        format_seconds(seconds[1] / (steps - 1)));
  }
  paragraph(equal ? line : bad(line));
  report.check(equal, "training: eager and graph differ in their bits");
  ladder::Row row = ladder::make_row("10_cuda_graph_training", "train");
  row.rung = "graph";
  row.case_name = fmt::format("{} steps, {} ranks", steps, kRanks.ranks());
  row.metric = "equal_to_eager";
  row.value = equal ? 1 : 0;
  row.checked = equal;
  report.add(std::move(row));
  return 0;
}

void judge(const TourOptions& options, const training::Corpus& corpus,
           const training::ModelConfig& model, const training::TrainConfig& config,
           const TrainingPlan& plan, const TrainingOutcome& outcome, Report& report) {
  const double limit = options.quick ? kQuickLoss : corpus.bigram_entropy;
  const std::string limit_text = options.quick
                                     ? fmt::format("{:.1f}, the criterion of --quick", limit)
                                     : fmt::format("{:.3f}, the text's bigram entropy", limit);
  const std::string measured =
      fmt::format("held-out loss {:.3f} nats a byte", outcome.held_out_loss);
  const bool met = outcome.held_out_loss < limit;  // false for NaN
  const bool decided = plan.steps >= preset(options).steps;
  if (decided) {
    paragraph(met ? good(fmt::format("{}: below {}", measured, limit_text))
                  : bad(fmt::format("{}: NOT below {}", measured, limit_text)));
    report.check(met, fmt::format("training: {} is not below {}", measured, limit_text));
  } else {
    const std::string text = fmt::format(
        "training: {} after {} steps; whether it falls below {} is judged after {} steps "
        "or more",
        measured, plan.steps, limit_text, preset(options).steps);
    report.undecided(text);
  }
  add_training_rows(report, corpus, model, config, plan, outcome, decided && met);
}

/// @return the signal that ended the training early, or 0
int train(const TourOptions& options, const std::string& book, const gpu::Device& device,
          Report& report) {
  heading(fmt::format("10 · training on a book over {} ranks, {} nodes of {}", kRanks.ranks(),
                      kRanks.nodes, kRanks.ranks_per_node));
  training::ModelConfig model;
  model.seed = options.seed;
  training::TrainConfig config = preset(options);
  if (options.steps > 0) {
    config.steps = options.steps;
    config.warmup_steps = std::min(config.warmup_steps, config.steps);
  }
  config.data_seed = options.seed;
  const training::Corpus corpus = training::Corpus::load(book, model.context);

  introduce(corpus, model, config, kRanks.ranks(), kRanks.nodes);
  const int compared = std::min(options.quick ? kComparedStepsQuick : kComparedSteps, config.steps);
  const int signal = compare_modes(model, config, corpus, device.info().emulated, compared, report);
  if (signal != 0) return signal;
  TrainingPlan plan;
  plan.steps = config.steps;
  plan.evaluate_every = 50;
  const TrainingOutcome outcome = run_training_over_ranks(model, config, corpus, plan, kRanks);
  if (outcome.signal != 0) {
    stop(report, outcome.signal,
         fmt::format("in the training, after step {} of {}{}: its loss was not judged",
                     outcome.steps_done, plan.steps,
                     outcome.steps_done < plan.steps ? "" : ", while the held-out text was read"));
    return outcome.signal;
  }
  paragraph(fmt::format(
      "trained at {:.0f} tokens/s ({}): loss {:.3f}, held-out loss {:.3f}; unigram entropy {:.3f}, "
      "bigram "
      "entropy {:.3f} "
      "nats a byte",
      outcome.bytes_per_second, device.info().emulated ? "in the emulator" : device.info().name,
      outcome.train_loss, outcome.held_out_loss, corpus.unigram_entropy, corpus.bigram_entropy));
  judge(options, corpus, model, config, plan, outcome, report);
  return 0;
}

int run_tour(const TourOptions& options) {
  Report report(options.json);
  const std::string book = book_path();  // before the climb: what is missing is said at once
  const auto start = std::chrono::steady_clock::now();
  const gpu::Device device = gpu::Device::open(0);
  device.make_current();
  show_machine(device);

  const ladder::Machine machine{&device, 1};
  ClimbOptions climb_options;
  climb_options.quick = options.quick;
  int signal = 0;
  {
    const InterruptGuard interrupt;
    for (const ladder::Operation& operation : all_operations()) {
      if (InterruptGuard::signal() == 0) climb(operation, machine, climb_options, report);
    }
    signal = InterruptGuard::signal();
  }
  if (signal != 0) {
    stop(report, signal, "in the ladders: what stands above was checked, the rest was not");
  } else {
    signal = train(options, book, device, report);
  }

  report.write_rows();
  const int status = report.summarize();
  if (signal != 0) return 128 + signal;
  const std::chrono::duration<double> used = std::chrono::steady_clock::now() - start;
  paragraph(
      fmt::format("in {}. Next: ./rungs train --data FILE takes your own text; the chapters are "
                  "the folders 01 to 10.",
                  format_clock(used.count())));
  return status;
}

}  // namespace

void add_tour(CLI::App& program, Action& chosen) {
  auto options = std::make_shared<TourOptions>();
  CLI::App* command = program.add_subcommand(
      "tour", "Climb the ladders of all stages, then train on a book over four ranks");
  command->add_flag("--quick", options->quick,
                    "A shorter climb: fewer cases, smaller batches, fewer steps");
  command
      ->add_option(
          "--steps", options->steps,
          fmt::format("Training steps instead of {}; with --quick instead of {}",
                      training::TrainConfig::tour().steps, training::TrainConfig::quick().steps))
      ->check(between(1, 1000000));
  command->add_option("--seed", options->seed, "Of the first weights and of the batches (1)");
  command->add_option("--json", options->json, "Write the result rows to this file");
  command->footer(
      "Ctrl-C ends the tour after the rung or step it is at; a second one ends it at once.\n"
      "Exit status: 0 if every check passed, 1 if one failed, 130 after Ctrl-C.\n"
      "Example: rungs tour --quick --json rows.json");
  command->callback([options, &chosen] { chosen = [options] { return run_tour(*options); }; });
}

}  // namespace rungs::cli
