#pragma once
// Every parameter's place in one array. The same offsets hold for weights, bf16 copies, gradients
// and moments, and for the checkpoint.
//
//     | layer 0: qkv projection router | up down | layer 1: … | head | norms | token | position |
//       dense: the same on every rank    experts   dense        dense
//
// Experts are split over the ranks, everything else is on all of them. So the dense parameters of a
// layer are one range, and those behind the layers another: what an all-reduce takes whole.

#include <rungs/training/trainer.hpp>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace rungs::training {

/// One tensor of the model.
struct Parameter {
  std::string name;  ///< "layer1.experts.up"
  std::vector<std::int64_t> shape;
  std::int64_t offset = 0;   ///< elements, a multiple of kParameterAlign
  float init_deviation = 0;  ///< of normal initial values; 0: constant
  float init_value = 0;
  /// Element 0 is this element of the tensor that one rank alone would have.
  std::int64_t first = 0;
  [[nodiscard]] std::int64_t count() const;
};

/// TMA wants 16-byte addresses: 8 bf16. 64 elements are a whole line of either copy.
inline constexpr std::int64_t kParameterAlign = 64;

struct LayerOffsets {
  std::int64_t qkv, projection, router, up, down;               // matrices: decay
  std::int64_t norm1_gain, norm1_bias, norm2_gain, norm2_bias;  // do not decay
};

/// `count` elements that begin at `begin`.
struct Range {
  std::int64_t begin = 0;
  std::int64_t count = 0;
  bool operator==(const Range&) const = default;
};

/// Matrices first, then norms and embeddings: what decays is a prefix. Embeddings do not decay: a
/// rare byte's row gets a gradient seldom, and decay would shrink it at every step.
class ParameterLayout {
 public:
  /// What rank `rank` of `ranks` holds: all dense parameters, and experts / ranks experts of each
  /// layer.
  explicit ParameterLayout(const ModelConfig& model, int rank = 0, int ranks = 1);
  [[nodiscard]] const std::vector<Parameter>& parameters() const noexcept { return parameters_; }
  /// Elements of the array, padding included; a multiple of kParameterAlign.
  [[nodiscard]] std::int64_t count() const noexcept { return count_; }
  [[nodiscard]] std::int64_t decayed() const noexcept { return decayed_; }
  /// Of the whole model, without padding: what "parameters" means to a reader.
  [[nodiscard]] std::int64_t trained() const;
  /// The dense matrices of layer l, and its experts behind them. All layers have the same extents:
  /// layer l begins l · layer_stride() elements behind layer 0.
  [[nodiscard]] Range dense(std::size_t l) const;
  [[nodiscard]] Range experts(std::size_t l) const;
  [[nodiscard]] std::int64_t layer_stride() const noexcept;
  /// Head, and what does not decay: dense, too.
  [[nodiscard]] Range head_range() const;
  [[nodiscard]] Range undecayed() const noexcept { return {decayed_, count_ - decayed_}; }
  /// The same for the same seed (two math libraries may differ in a last bit), and the same as one
  /// rank alone would draw. Padding is 0.
  [[nodiscard]] std::vector<float> initial_values(std::uint64_t seed) const;

  std::vector<LayerOffsets> layers;
  std::int64_t head = 0, final_gain = 0, final_bias = 0, token = 0, position = 0;

 private:
  std::int64_t add(std::string name, std::vector<std::int64_t> shape, float deviation,
                   float value = 0);
  std::int64_t add_experts(std::string name, std::vector<std::int64_t> shape, float deviation);
  int rank_;
  int ranks_;
  std::vector<Parameter> parameters_;
  std::int64_t count_ = 0;
  std::int64_t decayed_ = 0;
};

}  // namespace rungs::training
