#include "model/parameters.hpp"

#include <cmath>
#include <numbers>
#include <utility>

#include "detail/philox.hpp"
#include "layers/embedding.hpp"

namespace rungs::training {
namespace {

// Wider than the customary 0.02: a byte's row must stand out of the position's from the first step,
// or hundreds of steps go by at the bigram entropy before attention finds what to match. README.md
// has the figures.
constexpr float kEmbeddingDeviation = 0.2f;
// A router starts near indifference.
constexpr float kRouterShare = 0.2f;

// Standard normal value i of parameter p: Box-Muller on Philox words, in double so that libm's last
// bit hardly ever shows.
float normal_value(std::uint64_t seed, std::uint64_t parameter, std::uint64_t index) {
  const Philox random = philox(seed, index, parameter);
  const double u = (random.word[0] + 0.5) / 4294967296.0;
  const double v = (random.word[1] + 0.5) / 4294967296.0;
  return static_cast<float>(std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v));
}

}  // namespace

std::int64_t Parameter::count() const {
  std::int64_t product = 1;
  for (const std::int64_t extent : shape) product *= extent;
  return product;
}

ParameterLayout::ParameterLayout(const ModelConfig& model, int rank, int ranks)
    : rank_(rank),
      ranks_(ranks) {
  const std::int64_t d = model.width;
  const std::int64_t h = model.hidden;
  const std::int64_t e = model.experts;
  const float by_width = 1.0f / std::sqrt(static_cast<float>(d));
  const float by_hidden = 1.0f / std::sqrt(static_cast<float>(h));
  // 2·layers branches add to the residual stream; scaled like this their sum starts as large as one
  // of them (GPT-2).
  const float branch = 1.0f / std::sqrt(2.0f * static_cast<float>(model.layers));

  layers.resize(static_cast<std::size_t>(model.layers));
  for (std::size_t l = 0; l < layers.size(); ++l) {
    const std::string layer = "layer" + std::to_string(l) + ".";
    layers[l].qkv = add(layer + "attention.qkv", {3 * d, d}, by_width);
    layers[l].projection = add(layer + "attention.projection", {d, d}, by_width * branch);
    layers[l].router = add(layer + "router", {e, d}, by_width * kRouterShare);
    layers[l].up = add_experts(layer + "experts.up", {e, h, d}, by_width);
    layers[l].down = add_experts(layer + "experts.down", {e, d, h}, by_hidden * branch);
  }
  head = add("head", {layers::kVocabulary, d}, by_width);
  decayed_ = count_;
  for (std::size_t l = 0; l < layers.size(); ++l) {
    const std::string layer = "layer" + std::to_string(l) + ".";
    layers[l].norm1_gain = add(layer + "norm1.gain", {d}, 0, 1);
    layers[l].norm1_bias = add(layer + "norm1.bias", {d}, 0);
    layers[l].norm2_gain = add(layer + "norm2.gain", {d}, 0, 1);
    layers[l].norm2_bias = add(layer + "norm2.bias", {d}, 0);
  }
  final_gain = add("final_norm.gain", {d}, 0, 1);
  final_bias = add("final_norm.bias", {d}, 0);
  token = add("embedding.token", {layers::kVocabulary, d}, kEmbeddingDeviation);
  position = add("embedding.position", {model.context, d}, kEmbeddingDeviation);
}

std::int64_t ParameterLayout::add(std::string name, std::vector<std::int64_t> shape,
                                  float deviation, float value) {
  const std::int64_t offset = count_;
  parameters_.push_back({std::move(name), std::move(shape), offset, deviation, value});
  count_ += (parameters_.back().count() + kParameterAlign - 1) / kParameterAlign * kParameterAlign;
  return offset;
}

// This rank's share of a tensor whose first extent is that of all experts.
std::int64_t ParameterLayout::add_experts(std::string name, std::vector<std::int64_t> shape,
                                          float deviation) {
  shape.front() /= ranks_;
  const std::int64_t offset = add(std::move(name), std::move(shape), deviation);
  parameters_.back().first = rank_ * parameters_.back().count();
  return offset;
}

std::int64_t ParameterLayout::trained() const {
  std::int64_t sum = 0;
  for (const Parameter& parameter : parameters_) sum += parameter.count();
  for (std::size_t l = 0; l < layers.size(); ++l) sum += (ranks_ - 1) * experts(l).count;
  return sum;
}

std::int64_t ParameterLayout::layer_stride() const noexcept {
  return layers.size() > 1 ? layers[1].qkv - layers[0].qkv : head - layers[0].qkv;
}

Range ParameterLayout::dense(std::size_t l) const {
  return {layers.at(l).qkv, layers.at(l).up - layers.at(l).qkv};
}

Range ParameterLayout::experts(std::size_t l) const {
  return {layers.at(l).up, layers.at(l).qkv + layer_stride() - layers.at(l).up};
}

Range ParameterLayout::head_range() const { return {head, decayed_ - head}; }

std::vector<float> ParameterLayout::initial_values(std::uint64_t seed) const {
  std::vector<float> values(static_cast<std::size_t>(count_), 0.0f);
  for (std::size_t p = 0; p < parameters_.size(); ++p) {
    const Parameter& parameter = parameters_[p];
    for (std::int64_t i = 0; i < parameter.count(); ++i) {
      float value = parameter.init_value;
      if (parameter.init_deviation > 0) {
        const auto index = static_cast<std::uint64_t>(parameter.first + i);
        value = parameter.init_deviation * normal_value(seed, p, index);
      }
      values[static_cast<std::size_t>(parameter.offset + i)] = value;
    }
  }
  return values;
}

}  // namespace rungs::training
