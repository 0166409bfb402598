#include "train_settings.hpp"

#include "commands.hpp"

#include <fmt/format.h>
#include <rungs/core/error.hpp>

#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>

namespace rungs::cli {
namespace {

const training::ModelConfig& part(const training::CheckpointInfo& saved,
                                  const training::ModelConfig&) {
  return saved.model;
}
const training::TrainConfig& part(const training::CheckpointInfo& saved,
                                  const training::TrainConfig&) {
  return saved.train;
}

constexpr const char* kModelGroup = "Model (a resumed run has that of its checkpoint)";

}  // namespace

template <class Config, class Value>
void TrainSettings::follow(CLI::Option* option, const std::string& name, Config& config,
                           Value Config::*field) {
  adopt_.emplace_back([option, name, &config, field](const training::CheckpointInfo& saved,
                                                     const std::string& folder) {
    const Value theirs = part(saved, config).*field;
    RUNGS_REQUIRE(option->empty() || config.*field == theirs, "the run saved in ", folder, " has ",
                  name, " ", theirs, ", the command line says ", name, " ", config.*field,
                  ". Leave the option out to go on with that run, or start another in a folder of "
                  "its own (--checkpoint)");
    config.*field = theirs;
  });
}

template <class Config, class Value>
void TrainSettings::add(CLI::App& command, const std::string& name, Config& config,
                        Value Config::*field, const char* text, double least, double most,
                        const char* group) {
  CLI::Option* option = command.add_option(
      name, config.*field, fmt::format("{} ({:g})", text, static_cast<double>(config.*field)));
  if constexpr (std::is_same_v<Value, int>) {
    option->check(between(static_cast<int>(least), static_cast<int>(most)));
  } else {
    option->check(between(least, most));
  }
  if (group != nullptr) option->group(group);
  if (name == "--steps") {
    steps_ = option;  // these two have rules of their own
  } else {
    follow(option, name, config, field);
  }
  if (name == "--warmup") warmup_ = option;
}

void TrainSettings::declare(CLI::App& command) {
  using training::ModelConfig;
  using training::TrainConfig;
  const auto step = [&](const char* name, auto field, const char* text, double least, double most) {
    add(command, name, train, field, text, least, most, nullptr);
  };
  step("--steps", &TrainConfig::steps, "Optimizer steps in all", 1, 10000000);
  step("--batch", &TrainConfig::batch, "Sequences a step", 1, 4096);
  step("--lr", &TrainConfig::lr, "Highest learning rate", 1e-8, 1.0);
  step("--warmup", &TrainConfig::warmup_steps, "Steps of linear warm-up", 0, 1000000);
  step("--weight-decay", &TrainConfig::weight_decay, "Of AdamW", 0.0, 1.0);
  step("--clip", &TrainConfig::clip, "Bound of the gradient's norm", 1e-6, 1e6);
  const auto shape = [&](const char* name, auto field, const char* text, int least, int most) {
    add(command, name, model, field, text, least, most, kModelGroup);
  };
  shape("--layers", &ModelConfig::layers, "Layers", 1, 64);
  shape("--width", &ModelConfig::width, "Width, a multiple of 64 and of the heads", 64, 4096);
  shape("--heads", &ModelConfig::heads, "Attention heads", 1, 64);
  shape("--experts", &ModelConfig::experts, "Experts a layer", 1, 64);
  shape("--top-k", &ModelConfig::top_k, "Experts a token uses", 1, 64);
  shape("--hidden", &ModelConfig::hidden, "Width of an expert", 64, 16384);
  shape("--context", &ModelConfig::context, "Bytes of a sequence", 1, 4096);
  CLI::Option* seed =
      command.add_option("--seed", model.seed, "Of the first weights and of the batches (1)")
          ->group(kModelGroup);
  follow(seed, "--seed", model, &ModelConfig::seed);
}

void TrainSettings::complete() {
  // A run shorter than the usual warm-up; what the user asks for is left to the trainer to judge.
  if (warmup_->empty()) train.warmup_steps = std::min(train.warmup_steps, train.steps);
  train.data_seed = model.seed;
}

void TrainSettings::adopt(const training::CheckpointInfo& saved, const std::string& folder) {
  for (const auto& follow_one : adopt_) follow_one(saved, folder);
  train.aux_weight = saved.train.aux_weight;
  train.data_seed = saved.train.data_seed;
  if (steps_->empty()) train.steps = saved.train.steps;
  RUNGS_REQUIRE(train.steps >= saved.train.steps, "the run saved in ", folder, " is one of ",
                saved.train.steps, " steps, of which ", saved.steps_done,
                " are done; it can go on with as many or more, not with --steps ", train.steps,
                ". Leave --steps out to do what is left of it");
}

std::string in_options(std::string text) {
  static constexpr std::array<std::pair<const char*, const char*>, 14> kNames{{
      {"model.layers", "--layers"},
      {"model.width", "--width"},
      {"model.heads", "--heads"},
      {"model.experts", "--experts"},
      {"model.top_k", "--top-k"},
      {"model.hidden", "--hidden"},
      {"model.context", "--context"},
      {"train.batch", "--batch"},
      {"train.steps", "--steps"},
      {"train.warmup_steps", "--warmup"},
      {"train.lr", "--lr"},
      {"train.weight_decay", "--weight-decay"},
      {"train.clip", "--clip"},
      {"train.data_seed", "--seed"},
  }};
  for (const auto& [field, option] : kNames) {
    const std::string name = field;
    for (std::size_t at = text.find(name); at != std::string::npos; at = text.find(name, at))
      text.replace(at, name.size(), option);
  }
  return text;
}

}  // namespace rungs::cli
