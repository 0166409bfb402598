#pragma once
/// @file train_settings.hpp
/// The options of `train` that decide the numbers, and how a resumed run takes them from its
/// checkpoint.

#include <CLI/CLI.hpp>
#include <rungs/training/trainer.hpp>

#include <functional>
#include <string>
#include <vector>

namespace rungs::cli {

class TrainSettings {
 public:
  training::ModelConfig model;
  training::TrainConfig train;

  TrainSettings() = default;
  TrainSettings(const TrainSettings&) = delete;  // the options point into it
  TrainSettings& operator=(const TrainSettings&) = delete;

  void declare(CLI::App& command);
  /// After parsing, for a run that resumes nothing: a warm-up that fits the steps, and the batches'
  /// seed.
  void complete();
  /// After parsing, for a run that resumes: what the command line leaves open is as saved. Only
  /// --steps may differ, and only upwards.
  /// @throws Error kInvalidArgument naming the option that contradicts the checkpoint, with both
  ///         values
  void adopt(const training::CheckpointInfo& saved, const std::string& folder);

 private:
  template <class Config, class Value>
  void add(CLI::App& command, const std::string& name, Config& config, Value Config::*field,
           const char* text, double least, double most, const char* group);
  template <class Config, class Value>
  void follow(CLI::Option* option, const std::string& name, Config& config, Value Config::*field);

  CLI::Option* steps_ = nullptr;
  CLI::Option* warmup_ = nullptr;
  std::vector<std::function<void(const training::CheckpointInfo&, const std::string&)>> adopt_;
};

/// The text with "--top-k" for "model.top_k": the trainer speaks of its fields.
std::string in_options(std::string text);

}  // namespace rungs::cli
