#pragma once
// The transformer: embedding, layers of attention and experts on a residual stream, head. Forward
// and backward as sequences of launches that read nothing from the host.

#include <vector>

#include "layers/attention.hpp"
#include "layers/experts.hpp"
#include "layers/linear.hpp"
#include "model/buffers.hpp"
#include "model/parameters.hpp"

namespace rungs::training {

/// Weights and gradients in the places that ParameterLayout gives.
struct ParameterPointers {
  const float* weights;
  const bf16* weights_bf16;
  float* gradients;
};

class Model {
 public:
  Model(const ModelConfig& model, int batch, float aux_weight, const ParameterPointers& parameters,
        const gpu::Device& device);

  /// tokens() to logits and loss_rows(); with `for_training` also d_logits.
  void forward(const Queue& queue, bool for_training) const;
  /// d_logits to the gradients of all parameters, each overwritten.
  void backward(const Queue& queue) const;

  [[nodiscard]] std::int32_t* tokens() const noexcept { return shared_.tokens.data(); }
  [[nodiscard]] std::int32_t* targets() const noexcept { return shared_.targets.data(); }
  [[nodiscard]] const gpu::Buffer<float>& loss_rows() const noexcept { return shared_.loss_rows; }
  [[nodiscard]] const float* balance() const noexcept { return shared_.balance.data(); }
  [[nodiscard]] const ParameterLayout& layout() const noexcept { return layout_; }
  [[nodiscard]] const Extents& extents() const noexcept { return n_; }
  /// What the last forward pass of layer `index` left.
  [[nodiscard]] const LayerBuffers& kept(std::size_t index) const { return layers_.at(index).kept; }

 private:
  // One layer's buffers and the plans over them.
  struct Layer {
    Layer(const Model& model, std::size_t index, const gpu::Device& device);
    LayerBuffers kept;
    LayerOffsets at;
    const float* input;  // residual stream before the layer
    layers::Routing routing;
    layers::Linear qkv;
    layers::SelfAttention attention;
    layers::Linear projection;
    layers::Experts experts;
  };

  void layer_forward(const Layer& layer, const Queue& queue) const;
  void layer_backward(const Layer& layer, const Queue& queue) const;

  Extents n_;
  ParameterLayout layout_;
  ParameterPointers at_;
  float aux_weight_;
  SharedBuffers shared_;
  std::vector<Layer> layers_;
  layers::Linear head_;
};

}  // namespace rungs::training
