#pragma once
/// @file moe_case.hpp
/// One layer over several ranks: sizes, and inputs whose routing has a wanted shape.

#include <rungs/core/dtype.hpp>
#include <rungs/moe/layer.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace rungs::moe {

struct MoeCase {
  std::string name;
  int width = 64;
  int hidden = 128;
  int experts = 8;
  int top_k = 2;
  std::vector<int> tokens;  ///< by rank
  /// Added to the logits, by expert: who is popular. Empty: nobody is.
  std::vector<float> bias = {};
  float aux_weight = 0.5f;
  /// Of the padded exchange; 0: so large that nothing is dropped.
  float capacity_factor = 0;

  [[nodiscard]] int ranks() const { return static_cast<int>(tokens.size()); }
  [[nodiscard]] int max_tokens() const;
  [[nodiscard]] Shape shape() const;
  [[nodiscard]] float factor() const;
};

/// Bias of -`step` more for each further expert.
std::vector<float> falling(int experts, float step);
/// Bias of `value` for experts [first, first + count).
std::vector<float> favouring(int experts, int first, int count, float value);

/// What the ranks are given.
struct MoeInputs {
  MoeCase spec;
  std::vector<std::vector<bf16>> x;            ///< by rank, [tokens, width]
  std::vector<std::vector<float>> residual;    ///< by rank, [tokens, width]
  std::vector<std::vector<float>> d_residual;  ///< by rank, [tokens, width]
  std::vector<float> router;                   ///< [experts, width]
  std::vector<bf16> up;                        ///< [experts, hidden, width]
  std::vector<bf16> down;                      ///< [experts, width, hidden]
};

/// Values from a fixed seed. Tokens whose logits around the last chosen one are closer than 1/1000
/// are drawn again: their choice would hang on the rounding of fp32.
MoeInputs make_inputs(const MoeCase& spec, std::uint64_t seed);

}  // namespace rungs::moe
