#pragma once
// Checks of a configuration, and its text in a checkpoint.

#include <rungs/training/trainer.hpp>

#include <string>
#include <utility>
#include <vector>

namespace rungs::training {

/// @throws Error kInvalidArgument naming the field, its value and the rule
void validate(const ModelConfig& model, const TrainConfig& train);
/// What several ranks need beyond that: equal shares for all.
void validate(const ModelConfig& model, const TrainConfig& train, int ranks);
/// @throws Error kInvalidArgument if a part of the text is shorter than one sequence and its last
/// target
void validate(const Corpus& corpus, int context);

using Fields = std::vector<std::pair<std::string, std::string>>;
/// Every field that decides the bits of the next step, floats as hexadecimal so that they compare
/// exactly.
Fields fields_of(const ModelConfig& model, const TrainConfig& train, const Corpus& corpus);
/// The way back, but for the text.
/// @throws Error kInvalidArgument naming `path` and the field that is missing or unreadable
void read_fields(const Fields& fields, const std::string& path, ModelConfig& model,
                 TrainConfig& train);

}  // namespace rungs::training
