#pragma once
// The transformer: embedding, layers of attention and experts on a residual stream, head. Forward
// and backward as sequences of launches that read nothing from the host.

#include <rungs/gemm/linear.hpp>
#include <rungs/moe/layer.hpp>

#include <cstddef>
#include <functional>
#include <vector>

#include "layers/attention.hpp"
#include "model/buffers.hpp"
#include "model/parameters.hpp"

namespace rungs::training {

/// Weights and gradients in the places that ParameterLayout gives.
struct ParameterPointers {
  const float* weights;
  const bf16* weights_bf16;
  float* gradients;
};

/// Which part of the work this rank does.
struct RankShare {
  int rank = 0;
  int ranks = 1;
  symmetric::Context* context = nullptr;  // of several ranks, for the experts' exchange
};

class Model {
 public:
  /// @param batch sequences of this rank; all ranks have as many
  /// @param share its context must outlive the model
  Model(const ModelConfig& model, int batch, float aux_weight, const ParameterPointers& parameters,
        const gpu::Device& device, const RankShare& share = {});

  /// tokens() to logits and loss_rows(); with `for_training` also d_logits.
  void forward(const gpu::Queue& queue, bool for_training) const;
  /// d_logits to the gradients of this rank's parameters, each overwritten. They are of the mean
  /// loss over all ranks; dense ones are this rank's part of it, to be summed over ranks.
  /// @param ready called with 0 when the head's gradients are enqueued, then with 1, 2, … after
  ///        each layer from the last down, then with layers + 1: nothing is missing
  void backward(const gpu::Queue& queue, const std::function<void(std::size_t)>& ready = {}) const;

  [[nodiscard]] std::int32_t* tokens() const noexcept { return shared_.tokens.data(); }
  [[nodiscard]] std::int32_t* targets() const noexcept { return shared_.targets.data(); }
  [[nodiscard]] const gpu::Buffer<float>& loss_rows() const noexcept { return shared_.loss_rows; }
  [[nodiscard]] const float* balance() const noexcept { return shared_.balance.data(); }
  [[nodiscard]] const ParameterLayout& layout() const noexcept { return layout_; }
  [[nodiscard]] const Extents& extents() const noexcept { return n_; }
  /// What the last forward pass of layer `index` left of its routing.
  [[nodiscard]] const moe::Layer& experts(std::size_t index) const {
    return layers_.at(index).experts;
  }

 private:
  // One layer's buffers and the plans over them.
  struct Layer {
    Layer(const Model& model, std::size_t index, const gpu::Device& device);
    LayerBuffers kept;
    LayerOffsets at;
    const float* input;  // residual stream before the layer
    gemm::Linear qkv;
    layers::SelfAttention attention;
    gemm::Linear projection;
    moe::Layer experts;
  };

  void layer_forward(const Layer& layer, const gpu::Queue& queue) const;
  void layer_backward(const Layer& layer, const gpu::Queue& queue) const;

  Extents n_;
  RankShare share_;
  ParameterLayout layout_;
  ParameterPointers at_;
  float aux_weight_;
  SharedBuffers shared_;
  std::vector<Layer> layers_;
  gemm::Linear head_;
};

}  // namespace rungs::training
