#include "catalog/moe_case.hpp"

#include <rungs/testing/random.hpp>

#include <algorithm>
#include <functional>

namespace rungs::moe {
namespace {

// Whether the experts are chosen by a clear margin, in clear order.
bool is_clear(const bf16* x, const MoeInputs& inputs) {
  const auto width = static_cast<std::size_t>(inputs.spec.width);
  std::vector<double> logits(static_cast<std::size_t>(inputs.spec.experts), 0.0);
  for (std::size_t e = 0; e < logits.size(); ++e)
    for (std::size_t c = 0; c < width; ++c)
      logits[e] +=
          static_cast<double>(to_float(x[c])) * static_cast<double>(inputs.router[e * width + c]);
  std::sort(logits.begin(), logits.end(), std::greater<>());
  const auto last = std::min(static_cast<std::size_t>(inputs.spec.top_k), logits.size() - 1);
  for (std::size_t i = 0; i < last; ++i)
    if (logits[i] - logits[i + 1] < 1e-3) return false;
  return true;
}

}  // namespace

int MoeCase::max_tokens() const {
  return std::max(1, *std::max_element(tokens.begin(), tokens.end()));
}

Shape MoeCase::shape() const {
  return {.width = width,
          .hidden = hidden,
          .experts = experts,
          .top_k = top_k,
          .max_tokens = max_tokens()};
}

float MoeCase::factor() const {
  return capacity_factor > 0 ? capacity_factor
                             : static_cast<float>(experts) / static_cast<float>(top_k);
}

std::vector<float> falling(int experts, float step) {
  std::vector<float> bias;
  for (int e = 0; e < experts; ++e) bias.push_back(-step * static_cast<float>(e));
  return bias;
}

std::vector<float> favouring(int experts, int first, int count, float value) {
  std::vector<float> bias(static_cast<std::size_t>(experts), 0.0f);
  std::fill_n(bias.begin() + first, count, value);
  return bias;
}

MoeInputs make_inputs(const MoeCase& spec, std::uint64_t seed) {
  MoeInputs inputs;
  inputs.spec = spec;
  const auto width = static_cast<std::size_t>(spec.width);
  const auto experts = static_cast<std::size_t>(spec.experts);
  const auto weights = experts * static_cast<std::size_t>(spec.hidden) * width;
  // Channel 0 of every token is 1, so that the router's weight there is the bias.
  inputs.router = testing::normal_f32(experts * width, seed, 0.15);
  for (std::size_t e = 0; e < experts; ++e)
    inputs.router[e * width] = spec.bias.empty() ? 0.0f : spec.bias[e];
  inputs.up = testing::normal_bf16(weights, seed + 1, 0.125);
  inputs.down = testing::normal_bf16(weights, seed + 2, 0.09);
  testing::Random random(seed + 3);
  for (std::size_t rank = 0; rank < spec.tokens.size(); ++rank) {
    const std::size_t values = static_cast<std::size_t>(spec.tokens[rank]) * width;
    std::vector<bf16>& x = inputs.x.emplace_back(values);
    for (std::size_t token = 0; token < values; token += width) {
      do {
        x[token] = to_bf16(1.0f);
        for (std::size_t c = 1; c < width; ++c)
          x[token + c] = to_bf16(static_cast<float>(random.normal()));
      } while (!is_clear(x.data() + token, inputs));
    }
    inputs.residual.push_back(testing::normal_f32(values, seed + 10 + 2 * rank));
    inputs.d_residual.push_back(testing::normal_f32(values, seed + 11 + 2 * rank));
  }
  return inputs;
}

}  // namespace rungs::moe
