#include "config.hpp"

#include <rungs/core/error.hpp>
#include <rungs/moe/layer.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>

#include "detail/fnv.hpp"

namespace rungs::training {
namespace {

std::string exact(float value) {
  char text[64];
  std::snprintf(text, sizeof(text), "%a", static_cast<double>(value));
  return text;
}
template <class Integer>
std::string exact(Integer value) {
  return std::to_string(value);
}

// @return whether all of the text was the number
bool read_exact(const std::string& text, float& value) {
  char* end = nullptr;
  value = std::strtof(text.c_str(), &end);
  return !text.empty() && *end == '\0';
}
template <class Integer>
bool read_exact(const std::string& text, Integer& value) {
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stopped == end;
}

// Every field but the text's, in the order of the file.
template <class Model, class Train, class Visit>
void each_field(Model& model, Train& train, Visit&& visit) {
  visit("model.layers", model.layers);
  visit("model.width", model.width);
  visit("model.heads", model.heads);
  visit("model.experts", model.experts);
  visit("model.top_k", model.top_k);
  visit("model.hidden", model.hidden);
  visit("model.context", model.context);
  visit("model.seed", model.seed);
  visit("train.batch", train.batch);
  visit("train.steps", train.steps);
  visit("train.warmup_steps", train.warmup_steps);
  visit("train.lr", train.lr);
  visit("train.weight_decay", train.weight_decay);
  visit("train.clip", train.clip);
  visit("train.aux_weight", train.aux_weight);
  visit("train.data_seed", train.data_seed);
}

std::string fingerprint(const std::vector<std::uint8_t>& bytes) {
  char text[32];
  std::snprintf(text, sizeof(text), "%016llx",
                static_cast<unsigned long long>(fnv1a64(bytes.data(), bytes.size())));
  return text;
}

void require_range(const char* field, int value, int least, int most) {
  RUNGS_REQUIRE(value >= least && value <= most, field, " must be ", least, " to ", most, ", got ",
                value);
}

// Also refuses NaN, which no comparison holds for.
void require_float(const char* field, float value, float least, bool least_allowed) {
  RUNGS_REQUIRE(std::isfinite(value) && (value > least || (least_allowed && value == least)), field,
                " must be finite and ", least_allowed ? "at least " : "above ", least, ", got ",
                value);
}

}  // namespace

TrainConfig TrainConfig::quick() {
  TrainConfig config;
  config.batch = 8;
  config.steps = 160;
  return config;
}

void validate(const ModelConfig& model, const TrainConfig& train) {
  require_range("model.layers", model.layers, 1, 128);
  require_range("model.width", model.width, 64, 16384);
  RUNGS_REQUIRE(model.width % 64 == 0, "model.width must be a multiple of 64, got ", model.width);
  require_range("model.heads", model.heads, 1, model.width);
  RUNGS_REQUIRE(model.width % model.heads == 0,
                "model.heads must divide model.width = ", model.width, ", got ", model.heads);
  RUNGS_REQUIRE(
      model.width / model.heads % 8 == 0,
      "model.width / model.heads, the head dimension, must be a multiple of 8 (16-byte rows), got ",
      model.width, " / ", model.heads, " = ", model.width / model.heads);
  require_range("model.experts", model.experts, 1, moe::kMaxExperts);
  require_range("model.top_k", model.top_k, 1, model.experts);
  require_range("model.hidden", model.hidden, 64, 65536);
  RUNGS_REQUIRE(model.hidden % 64 == 0, "model.hidden must be a multiple of 64, got ",
                model.hidden);
  require_range("model.context", model.context, 1, 65536);
  require_range("train.batch", train.batch, 1, 65536);
  require_range("train.steps", train.steps, 1, std::numeric_limits<int>::max());
  require_range("train.warmup_steps", train.warmup_steps, 0, train.steps);
  require_float("train.lr", train.lr, 0.0f, false);
  require_float("train.weight_decay", train.weight_decay, 0.0f, true);
  require_float("train.clip", train.clip, 0.0f, false);
  require_float("train.aux_weight", train.aux_weight, 0.0f, true);
  // Kernels index rows, not elements, in 32 bits; the widest array of rows is [experts, capacity].
  const long long tokens = 1ll * train.batch * model.context;
  RUNGS_REQUIRE((tokens + 63) / 64 * 64 * model.experts <= std::numeric_limits<int>::max() / 4,
                "train.batch * model.context * model.experts must stay below 2^29, got ",
                train.batch, " * ", model.context, " * ", model.experts);
}

void validate(const ModelConfig& model, const TrainConfig& train, int ranks) {
  RUNGS_REQUIRE(model.experts % ranks == 0, "model.experts must be a multiple of the ", ranks,
                " ranks, which hold equally many, got ", model.experts);
  RUNGS_REQUIRE(train.batch % ranks == 0,
                "train.batch, the sequences of all ranks together, must "
                "be a multiple of the ",
                ranks, " ranks, got ", train.batch);
}

void validate(const Corpus& corpus, int context) {
  const std::size_t least = static_cast<std::size_t>(context) + 1;
  RUNGS_REQUIRE(corpus.train.size() >= least, "corpus ", corpus.name, ": the training part has ",
                corpus.train.size(), " bytes, a sequence of ", context,
                " and its last target need ", least);
  RUNGS_REQUIRE(corpus.held_out.size() >= least, "corpus ", corpus.name, ": the held-out part has ",
                corpus.held_out.size(), " bytes, a sequence of ", context,
                " and its last target need ", least);
}

Fields fields_of(const ModelConfig& model, const TrainConfig& train, const Corpus& corpus) {
  Fields fields;
  each_field(model, train, [&fields](const char* name, const auto& value) {
    fields.emplace_back(name, exact(value));
  });
  fields.emplace_back("text.bytes", std::to_string(corpus.train.size()));
  fields.emplace_back("text.fnv1a64", fingerprint(corpus.train));
  return fields;
}

void read_fields(const Fields& fields, const std::string& path, ModelConfig& model,
                 TrainConfig& train) {
  each_field(model, train, [&](const char* name, auto& value) {
    const auto found = std::find_if(fields.begin(), fields.end(),
                                    [name](const auto& field) { return field.first == name; });
    RUNGS_REQUIRE(found != fields.end() && read_exact(found->second, value), path,
                  ": no readable field ", name);
  });
}

}  // namespace rungs::training
