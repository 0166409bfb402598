// `rungs train`: the user's own text.
#include "commands.hpp"
#include "report.hpp"
#include "screen.hpp"
#include "training_run.hpp"

#include <fmt/format.h>
#include <rungs/core/error.hpp>
#include <rungs/core/file.hpp>
#include <rungs/core/text.hpp>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <memory>

namespace rungs::cli {
namespace {

struct TrainOptions {
  std::string data;
  bool any_bytes = false;
  training::ModelConfig model;
  training::TrainConfig config;
  std::string mode = "graph";
  std::string checkpoint = "rungs-out/train";
  bool keep_nothing = false;
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

/// The command that goes on where this one stopped.
std::string resume_command(const TrainOptions& options) {
  std::string command =
      fmt::format("./rungs train --data {} --steps {} --resume {}", shell_word(options.data),
                  options.config.steps, shell_word(options.checkpoint));
  if (options.any_bytes) command += " --any-bytes";
  const training::ModelConfig model;
  const training::TrainConfig config;
  const auto add = [&](const char* name, auto value, auto usual) {
    if (value != usual) command += fmt::format(" {} {}", name, value);
  };
  add("--batch", options.config.batch, config.batch);
  add("--context", options.model.context, model.context);
  add("--lr", options.config.lr, config.lr);
  add("--warmup", options.config.warmup_steps, config.warmup_steps);
  add("--weight-decay", options.config.weight_decay, config.weight_decay);
  add("--clip", options.config.clip, config.clip);
  add("--layers", options.model.layers, model.layers);
  add("--width", options.model.width, model.width);
  add("--heads", options.model.heads, model.heads);
  add("--experts", options.model.experts, model.experts);
  add("--top-k", options.model.top_k, model.top_k);
  add("--hidden", options.model.hidden, model.hidden);
  add("--seed", options.model.seed, model.seed);
  return command;
}

int run_train(TrainOptions options) {
  Report report(options.json);
  if (options.keep_nothing) options.checkpoint.clear();
  options.config.data_seed = options.model.seed;
  training::Corpus corpus = training::Corpus::load(options.data, options.model.context);
  if (!options.any_bytes) require_text(corpus, options.data);
  if (!options.checkpoint.empty()) file::make_directories(options.checkpoint);

  const gpu::Device device = gpu::Device::open(0);
  device.make_current();
  heading(fmt::format("Training on {}", device.info().name));
  training::Trainer trainer(options.model, options.config, std::move(corpus), device);
  if (!options.resume.empty()) trainer.resume(options.resume);
  introduce(trainer, options.config);
  if (!options.resume.empty()) {
    paragraph(fmt::format("continued from {}: {} of {} steps are done", options.resume,
                          trainer.steps_done(), options.config.steps));
  }

  TrainingPlan plan;
  plan.steps = options.config.steps;
  plan.mode = options.mode == "eager" ? training::Mode::kEager : training::Mode::kGraph;
  plan.evaluate_every = options.evaluate_every;
  plan.checkpoint = options.checkpoint;
  plan.checkpoint_every = options.checkpoint_every;
  const TrainingOutcome outcome = run_training(trainer, options.config, plan);
  add_training_rows(report, trainer, options.config, plan, outcome, false);
  report.write_rows();

  if (outcome.signal != 0) {
    write(fmt::format("  interrupted ({}) after step {} of {}: ", strsignal(outcome.signal),
                      outcome.steps_done, plan.steps));
    if (plan.checkpoint.empty()) {
      write("nothing was saved, as --no-checkpoint asked\n");
    } else {
      write(
          fmt::format("saved in {}. To go on:\n  {}\n", plan.checkpoint, resume_command(options)));
    }
    return 128 + outcome.signal;
  }
  paragraph(fmt::format(
      "{} steps at {:.0f} tokens/s: loss {:.3f}, held-out loss {:.3f}; unigram entropy {:.3f}, "
      "bigram entropy "
      "{:.3f} nats a "
      "byte",
      outcome.steps_done, outcome.bytes_per_second, outcome.train_loss, outcome.held_out_loss,
      trainer.corpus().unigram_entropy, trainer.corpus().bigram_entropy));
  if (!plan.checkpoint.empty()) paragraph(fmt::format("saved in {}", plan.checkpoint));
  return 0;
}

void add_model_options(CLI::App& command, TrainOptions& options) {
  const char* group = "Model (a checkpoint continues only with the same one)";
  const auto add = [&](const char* name, int& value, const char* text, int least, int most) {
    command.add_option(name, value, fmt::format("{} ({})", text, value))
        ->check(between(least, most))
        ->group(group);
  };
  add("--layers", options.model.layers, "Layers", 1, 64);
  add("--width", options.model.width, "Width, a multiple of 64 and of the heads", 64, 4096);
  add("--heads", options.model.heads, "Attention heads", 1, 64);
  add("--experts", options.model.experts, "Experts a layer", 1, 64);
  add("--top-k", options.model.top_k, "Experts a token uses", 1, 64);
  add("--hidden", options.model.hidden, "Width of an expert", 64, 16384);
  add("--context", options.model.context, "Bytes of a sequence", 1, 4096);
  command.add_option("--seed", options.model.seed, "Of the first weights and of the batches (1)")
      ->group(group);
}

}  // namespace

void add_train(CLI::App& program, Action& chosen) {
  auto options = std::make_shared<TrainOptions>();
  CLI::App* command =
      program.add_subcommand("train", "Train a small transformer on a text of yours");
  command->add_option("--data", options->data, "The text; a token is a byte")->required();
  command->add_flag("--any-bytes", options->any_bytes, "Train on a file that is no text, too");
  const auto add = [command](const char* name, auto& value, const char* text, auto least,
                             auto most) {
    command->add_option(name, value, fmt::format("{} ({:g})", text, static_cast<double>(value)))
        ->check(between(least, most));
  };
  training::TrainConfig& config = options->config;
  add("--steps", config.steps, "Optimizer steps in all", 1, 10000000);
  add("--batch", config.batch, "Sequences a step", 1, 4096);
  add("--lr", config.lr, "Highest learning rate", 1e-8, 1.0);
  add("--warmup", config.warmup_steps, "Steps of linear warm-up", 0, 1000000);
  add("--weight-decay", config.weight_decay, "Of AdamW", 0.0, 1.0);
  add("--clip", config.clip, "Bound of the gradient's norm", 1e-6, 1e6);
  command
      ->add_option("--mode", options->mode,
                   "graph: the step captured and replayed; eager: kernel by kernel")
      ->check(CLI::IsMember({"graph", "eager"}));
  CLI::Option* checkpoint = command->add_option("--checkpoint", options->checkpoint,
                                                "Folder to save in (rungs-out/train)");
  command->add_flag("--no-checkpoint", options->keep_nothing, "Save nothing")->excludes(checkpoint);
  command
      ->add_option("--checkpoint-every", options->checkpoint_every,
                   "Steps between savings; 0: at the end (100)")
      ->check(between(0, 10000000));
  command->add_option("--resume", options->resume,
                      "Continue from this folder, and save there unless --checkpoint says else");
  command
      ->add_option("--evaluate-every", options->evaluate_every,
                   "Steps between looks at the held-out text; 0: end (50)")
      ->check(between(0, 10000000));
  command->add_option("--json", options->json, "Write the result rows to this file");
  add_model_options(*command, *options);
  command->footer(
      "The last tenth of the text is held out. Ctrl-C finishes the step, saves and exits with "
      "130.\n"
      "Examples:\n"
      "  rungs train --data book.txt --steps 500 --checkpoint rungs-out/book\n"
      "  rungs train --data book.txt --steps 500 --resume rungs-out/book");
  command->callback([options, checkpoint, warmup = command->get_option("--warmup"), &chosen] {
    // A run shorter than the usual warm-up; what the user asks for is left to the trainer to judge.
    training::TrainConfig& chosen_config = options->config;
    if (warmup->empty()) {
      chosen_config.warmup_steps = std::min(chosen_config.warmup_steps, chosen_config.steps);
    }
    if (!options->resume.empty() && checkpoint->empty()) options->checkpoint = options->resume;
    chosen = [options] { return run_train(*options); };
  });
}

}  // namespace rungs::cli
