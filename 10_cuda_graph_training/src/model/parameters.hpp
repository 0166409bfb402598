#pragma once
// Every parameter's place in one array. The same offsets hold for weights, bf16 copies, gradients
// and moments, and for the checkpoint.

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
  [[nodiscard]] std::int64_t count() const;
};

/// TMA wants 16-byte addresses: 8 bf16. 64 elements are a whole line of either copy.
inline constexpr std::int64_t kParameterAlign = 64;

struct LayerOffsets {
  std::int64_t qkv, projection, router, up, down;               // matrices: decay
  std::int64_t norm1_gain, norm1_bias, norm2_gain, norm2_bias;  // do not decay
};

/// Matrices first, then norms and embeddings: what decays is a prefix. Embeddings do not decay: a
/// rare byte's row gets a gradient seldom, and decay would shrink it at every step.
class ParameterLayout {
 public:
  explicit ParameterLayout(const ModelConfig& model);
  [[nodiscard]] const std::vector<Parameter>& parameters() const noexcept { return parameters_; }
  /// Elements of the array, padding included; a multiple of kParameterAlign.
  [[nodiscard]] std::int64_t count() const noexcept { return count_; }
  [[nodiscard]] std::int64_t decayed() const noexcept { return decayed_; }
  /// Without padding: what "parameters" means to a reader.
  [[nodiscard]] std::int64_t trained() const;
  /// The same for the same seed (two math libraries may differ in a last bit). Padding is 0.
  [[nodiscard]] std::vector<float> initial_values(std::uint64_t seed) const;

  std::vector<LayerOffsets> layers;
  std::int64_t head = 0, final_gain = 0, final_bias = 0, token = 0, position = 0;

 private:
  std::int64_t add(std::string name, std::vector<std::int64_t> shape, float deviation,
                   float value = 0);
  std::vector<Parameter> parameters_;
  std::int64_t count_ = 0;
  std::int64_t decayed_ = 0;
};

}  // namespace rungs::training
