// `rungs train`: the user's own text.
#include "commands.hpp"
#include "interrupt.hpp"
#include "ranks_run.hpp"
#include "report.hpp"
#include "screen.hpp"
#include "train_settings.hpp"
#include "training_run.hpp"
#include "usage.hpp"

#include <fmt/format.h>
#include <rungs/core/env.hpp>
#include <rungs/core/error.hpp>
#include <rungs/core/file.hpp>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace rungs::cli {
namespace {

struct TrainOptions {
  std::string data;
  bool any_bytes = false;
  TrainSettings settings;
  std::string mode = "graph";
  int ranks = 0;  // 0: as the checkpoint says, else one
  int nodes = 0;
  std::string gradients = "overlapped";
  std::string checkpoint = "rungs-out/train";
  bool keep_nothing = false;
  bool overwrite = false;
  std::string resume;
  int checkpoint_every = 100;
  int evaluate_every = 50;
  std::string json;
};

/// Zero bytes do not occur in text; a file that holds one was probably named by mistake.
void require_text(const training::Corpus& corpus, const std::string& path) {
  std::size_t offset = 0;
  for (const auto* part : {&corpus.train, &corpus.held_out}) {
    const auto zero = std::find(part->begin(), part->end(), std::uint8_t{0});
    RUNGS_REQUIRE(zero == part->end(), "'", path, "' is no text: byte ",
                  offset + static_cast<std::size_t>(zero - part->begin()),
                  " is zero. Convert UTF-16 to UTF-8, or add --any-bytes to train on it as it is");
    offset += part->size();
  }
}

/// The path as a shell reads it back.
std::string shell_word(const std::string& path) {
  const bool plain = std::all_of(path.begin(), path.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || std::strchr("/._-+:@,", c) != nullptr;
  });
  if (plain && !path.empty()) return path;
  std::string quoted = "'";
  for (const char c : path) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

/// The command that goes on where this one stopped; its settings lie in the checkpoint.
std::string resume_command(const TrainOptions& options) {
  return fmt::format("./rungs train --data {} --resume {}{}", shell_word(options.data),
                     shell_word(options.checkpoint), options.any_bytes ? " --any-bytes" : "");
}

bool has_checkpoint(const std::string& folder) {
  std::error_code ignored;
  return std::filesystem::exists(training::checkpoint_path(folder), ignored);
}

/// Nobody loses a run by starting another.
void require_free(const TrainOptions& options) {
  std::error_code ignored;
  const bool its_own = !options.resume.empty() &&
                       std::filesystem::equivalent(options.resume, options.checkpoint, ignored);
  if (its_own || options.overwrite || !has_checkpoint(options.checkpoint)) return;
  RUNGS_THROW(kSystem, training::checkpoint_path(options.checkpoint),
              " holds an earlier run. To go on with that one: --resume ",
              shell_word(options.checkpoint),
              "; to keep it and save this one elsewhere: --checkpoint FOLDER; to replace it: "
              "--overwrite");
}

/// The settings of the run to go on with.
training::CheckpointInfo adopt_checkpoint(TrainOptions& options) {
  if (!has_checkpoint(options.resume)) {
    RUNGS_THROW(kSystem, "there is no checkpoint in '", options.resume,
                "': ", training::checkpoint_path(options.resume),
                " does not exist. --resume takes the folder that an earlier run saved in");
  }
  const training::CheckpointInfo saved = training::inspect_checkpoint(options.resume);
  options.settings.adopt(saved, options.resume);
  return saved;
}

/// How many ranks, and where, the saved run had; the command line may only repeat it.
void adopt_ranks(TrainOptions& options, const training::CheckpointInfo& saved) {
  const auto ranks = static_cast<int>(saved.nodes.size());
  const int nodes = 1 + *std::max_element(saved.nodes.begin(), saved.nodes.end());
  const auto follow = [&](const char* name, int& ours, int theirs) {
    RUNGS_REQUIRE(ours == 0 || ours == theirs, "the run saved in ", options.resume, " has ", name,
                  " ", theirs, ", the command line says ", name, " ", ours,
                  ". It goes on with as many ranks on as many nodes, or its sums would have other "
                  "bits: leave the option out");
    ours = theirs;
  };
  follow("--ranks", options.ranks, ranks);
  follow("--nodes", options.nodes, nodes);
}

/// A model or schedule that cannot be is a matter of the command line.
void require_possible(const TrainSettings& settings, int ranks) {
  try {
    training::check(settings.model, settings.train, ranks);
  } catch (const Error& error) {
    throw UsageError(in_options(error.message()) + ". See 'rungs train --help'");
  }
}

/// What is decided before the first rank starts to train.
struct Prepared {
  training::Corpus corpus;
  std::optional<training::CheckpointInfo> saved;
};

/// @param launched ranks that a launcher has started, or 0: then the options say how many
Prepared prepare(TrainOptions& options, int launched) {
  Prepared prepared;
  if (options.resume.empty()) {
    options.settings.complete();
  } else {
    prepared.saved = adopt_checkpoint(options);
    if (launched == 0) adopt_ranks(options, *prepared.saved);
  }
  options.ranks = std::max(options.ranks, 1);
  options.nodes = std::max(options.nodes, 1);
  if (options.ranks % options.nodes != 0) {
    throw UsageError(fmt::format("--ranks must be a multiple of the {} --nodes, got {}",
                                 options.nodes, options.ranks));
  }
  require_possible(options.settings, launched > 0 ? launched : options.ranks);
  if (!options.checkpoint.empty()) require_free(options);
  prepared.corpus = training::Corpus::load(options.data, options.settings.model.context);
  if (!options.any_bytes) require_text(prepared.corpus, options.data);
  return prepared;
}

void say_resumed(const TrainOptions& options, const training::CheckpointInfo& saved) {
  const int steps = options.settings.train.steps;
  paragraph(fmt::format("continued from {}: {} of {} steps are done", options.resume,
                        saved.steps_done, steps));
  if (steps <= saved.train.steps) return;
  paragraph(fmt::format(
      "longer than the {} steps it was begun with: the learning rate, which falls along a cosine "
      "over all steps, goes on as in a run of {}. So the result will not be bit for bit that of {} "
      "steps in one run",
      saved.train.steps, steps, steps));
}

int say_interrupted(const TrainOptions& options, const TrainingPlan& plan,
                    const TrainingOutcome& outcome) {
  const bool all_steps = outcome.steps_done >= plan.steps;
  paragraph(fmt::format("interrupted ({}) after step {} of {}{}", strsignal(outcome.signal),
                        outcome.steps_done, plan.steps,
                        all_steps ? ", before all of the held-out text was read" : ""));
  if (plan.checkpoint.empty()) {
    paragraph("nothing was saved, as --no-checkpoint asked");
  } else {
    paragraph(
        fmt::format("saved in {}. {}:", plan.checkpoint, all_steps ? "For its loss" : "To go on"));
    write(fmt::format("  {}\n", resume_command(options)));
  }
  return 128 + outcome.signal;
}

int say_result(const TrainOptions& options, const TrainingPlan& plan,
               const TrainingOutcome& outcome, const training::Corpus& corpus) {
  const std::string losses =
      fmt::format("held-out loss {:.3f}; unigram entropy {:.3f}, bigram entropy {:.3f} nats a byte",
                  outcome.held_out_loss, corpus.unigram_entropy, corpus.bigram_entropy);
  if (outcome.steps_now == 0) {
    paragraph(fmt::format("nothing was left to do: all {} steps were done before; {}",
                          outcome.steps_done, losses));
    paragraph("To train on:");
    write(fmt::format("  {} --steps {}\n", resume_command(options), 2 * plan.steps));
  } else {
    paragraph(fmt::format("{} steps at {:.0f} tokens/s: loss {:.3f}, {}", outcome.steps_now,
                          outcome.bytes_per_second, outcome.train_loss, losses));
  }
  if (!plan.checkpoint.empty() && (outcome.steps_now > 0 || plan.checkpoint != options.resume))
    paragraph(fmt::format("saved in {}", plan.checkpoint));
  return 0;
}

training::Trainer make_trainer(const TrainOptions& options, const training::Corpus& corpus,
                               const gpu::Device& device, bootstrap::Group* group) {
  const TrainSettings& settings = options.settings;
  if (group == nullptr) return {settings.model, settings.train, corpus, device};
  training::RanksOptions ranks;
  ranks.gradients = options.gradients == "after" ? training::Gradients::kAfterBackward
                                                 : training::Gradients::kOverlapped;
  return {settings.model, settings.train, corpus, device, *group, ranks};
}

/// Trains as one rank of `group`, or alone. @return the exit status
int train(const TrainOptions& options, const Prepared& prepared, const gpu::Device& device,
          bootstrap::Group* group, Report& report) {
  const training::TrainConfig& config = options.settings.train;
  const bool speaks = group == nullptr || group->rank() == 0;
  training::Trainer trainer = make_trainer(options, prepared.corpus, device, group);
  if (prepared.saved) trainer.resume(options.resume, training::Resume::kMoreSteps);
  // After everything that can refuse, so that a refusal leaves no empty folder; before the work.
  if (!options.checkpoint.empty()) file::make_directories(options.checkpoint);
  if (speaks) {
    heading(fmt::format("Training on {}", device.info().name));
    introduce(trainer.corpus(), trainer.model(), config, trainer.ranks(),
              group == nullptr ? 1 : static_cast<int>(group->hosts().size()));
    if (prepared.saved) say_resumed(options, *prepared.saved);
  }
  TrainingPlan plan;
  plan.steps = config.steps;
  plan.mode = options.mode == "eager" ? training::Mode::kEager : training::Mode::kGraph;
  plan.evaluate_every = options.evaluate_every;
  plan.checkpoint = options.checkpoint;
  plan.checkpoint_every = options.checkpoint_every;
  const TrainingOutcome outcome = run_training(trainer, config, plan, group);
  if (!speaks) return outcome.signal != 0 ? 128 + outcome.signal : 0;
  add_training_rows(report, trainer, config, plan, outcome, false);
  report.write_rows();
  return outcome.signal != 0 ? say_interrupted(options, plan, outcome)
                             : say_result(options, plan, outcome, trainer.corpus());
}

/// Runs `mine` on this rank; if it throws on any, the first of those throws, and the others return
/// false without a word: one complaint is enough.
bool well_on_all_ranks(bootstrap::Group& group, const std::function<void()>& mine) {
  std::exception_ptr problem;
  try {
    mine();
  } catch (...) {
    problem = std::current_exception();
  }
  const std::vector<char> all = group.all_gather(static_cast<char>(problem == nullptr));
  const auto first = std::find(all.begin(), all.end(), char{0});
  if (first - all.begin() == group.rank()) std::rethrow_exception(problem);
  return first == all.end();
}

/// As the one rank that a launcher has made of this process.
int run_launched(TrainOptions& options, const RankEnvironment& environment) {
  if (options.ranks != 0 || options.nodes != 0) {
    throw UsageError(
        fmt::format("a launcher has started {} ranks, a process each; --ranks and --nodes are for "
                    "ranks that are threads of one process. Leave them out",
                    environment.world_size));
  }
  bootstrap::Group group = bootstrap::Group::from_environment();
  std::optional<Report> report;
  Prepared prepared;
  const bool well = well_on_all_ranks(group, [&] {
    report.emplace(group.rank() == 0 ? options.json : std::string());
    prepared = prepare(options, group.size());
  });
  if (!well) return 1;
  const InterruptGuard interrupt;
  const gpu::Device device = gpu::Device::open(environment.local_rank % gpu::Device::count());
  device.make_current();
  return train(options, prepared, device, &group, *report);
}

int run_train(TrainOptions& options) {
  if (options.keep_nothing) options.checkpoint.clear();
  const RankEnvironment environment = RankEnvironment::read();
  if (environment.world_size > 1) return run_launched(options, environment);
  Report report(options.json);
  const Prepared prepared = prepare(options, 0);
  if (options.ranks == 1) {
    const gpu::Device device = gpu::Device::open(0);
    device.make_current();
    return train(options, prepared, device, nullptr, report);
  }
  const InterruptGuard interrupt;
  int status = 0;
  as_threads({options.nodes, options.ranks / options.nodes},
             [&](bootstrap::Group& group, const gpu::Device& device) {
               const int mine = train(options, prepared, device, &group, report);
               if (group.rank() == 0) status = mine;
             });
  return status;
}

}  // namespace

void add_train(CLI::App& program, Action& chosen) {
  auto options = std::make_shared<TrainOptions>();
  CLI::App* command =
      program.add_subcommand("train", "Train a small transformer on a text of yours");
  command->add_option("--data", options->data, "The text; a token is a byte")->required();
  command->add_flag("--any-bytes", options->any_bytes, "Train on a file that is no text, too");
  options->settings.declare(*command);
  command
      ->add_option("--mode", options->mode,
                   "graph: the step captured and replayed; eager: kernel by kernel")
      ->check(CLI::IsMember({"graph", "eager"}));
  command
      ->add_option("--ranks", options->ranks,
                   "Train as so many ranks, threads of this process (1); under a launcher each "
                   "process is a rank")
      ->check(between(1, 64));
  command
      ->add_option("--nodes", options->nodes,
                   "Spread them over so many pretend nodes, which talk through an HCA (1)")
      ->check(between(1, 64));
  command
      ->add_option("--gradients", options->gradients,
                   "Of several ranks: summed in buckets while the backward pass goes on "
                   "(overlapped), or after it (after)")
      ->check(CLI::IsMember({"overlapped", "after"}));
  CLI::Option* checkpoint = command->add_option(
      "--checkpoint", options->checkpoint,
      "Folder to save in (rungs-out/train); one that holds an earlier run is refused");
  command->add_flag("--overwrite", options->overwrite,
                    "Replace the earlier run in the folder of --checkpoint");
  command->add_flag("--no-checkpoint", options->keep_nothing, "Save nothing")->excludes(checkpoint);
  command
      ->add_option("--checkpoint-every", options->checkpoint_every,
                   "Steps between savings; 0: at the end (100)")
      ->check(between(0, 10000000));
  command->add_option("--resume", options->resume,
                      "Go on with the run in this folder, with its settings, and save there unless "
                      "--checkpoint says else. More --steps make it longer");
  command
      ->add_option("--evaluate-every", options->evaluate_every,
                   "Steps between looks at the held-out text; 0: end (50)")
      ->check(between(0, 10000000));
  command->add_option("--json", options->json, "Write the result rows to this file");
  command->footer(
      "The last tenth of the text is held out. Ctrl-C finishes the step, saves and exits with "
      "130.\n"
      "A resumed run ends in the bits of an uninterrupted one. Made longer by --steps it does "
      "not: the learning rate falls along a cosine over all steps.\n"
      "Examples:\n"
      "  rungs train --data book.txt --steps 500 --checkpoint rungs-out/book\n"
      "  rungs train --data book.txt --resume rungs-out/book\n"
      "  rungs train --data book.txt --resume rungs-out/book --steps 1000\n"
      "  rungs train --data book.txt --ranks 4 --nodes 2\n"
      "  rungs launch -n 4 -- rungs train --data book.txt");
  command->callback([options, checkpoint, &chosen] {
    if (!options->resume.empty() && checkpoint->empty()) options->checkpoint = options->resume;
    chosen = [options] {
      try {
        return run_train(*options);
      } catch (const Error& error) {
        throw Error(error.code(), in_options(error.message()), __FILE__, __LINE__);
      }
    };
  });
}

}  // namespace rungs::cli
