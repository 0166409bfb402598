#pragma once
// The whole model in double precision, one token after the other, written from the formulas of
// README.md alone.

#include <rungs/training/trainer.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace rungs::training::reference {

using Weights = std::map<std::string, std::vector<double>>;  // by the name of ParameterLayout

struct Input {
  std::vector<std::int32_t> tokens, targets;  // [batch · context]
  /// A layer: [batch · context, top_k] experts that somebody else chose, so that the result is
  /// smooth in every parameter. Empty: the most probable ones.
  std::vector<std::vector<std::int32_t>> expert;
};

struct Result {
  double cross_entropy = 0;                        // mean, nats
  double balance = 0;                              // load-balance loss, summed over the layers
  std::vector<std::vector<double>> probabilities;  // a layer: [batch · context, experts]
};

Result run(const ModelConfig& model, const Weights& weights, const Input& input);

}  // namespace rungs::training::reference
