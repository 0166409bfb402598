#include "model/buffers.hpp"

#include "layers/embedding.hpp"
#include "layers/layer_norm.hpp"

namespace rungs::training {
namespace {

std::size_t product(std::initializer_list<int> extents) {
  std::size_t result = 1;
  for (const int extent : extents) result *= static_cast<std::size_t>(extent);
  return result;
}

}  // namespace

Extents::Extents(const ModelConfig& model, int batch_size)
    : batch(batch_size),
      context(model.context),
      tokens(batch_size * model.context),
      width(model.width),
      heads(model.heads),
      head_dim(model.width / model.heads),
      hidden(model.hidden),
      experts(model.experts),
      top_k(model.top_k),
      layers(model.layers) {}

LayerBuffers::LayerBuffers(const Extents& n, const gpu::Device& device)
    : normed1(device, product({n.tokens, n.width})),
      normed2(device, product({n.tokens, n.width})),
      mean1(device, product({n.tokens})),
      rstd1(device, product({n.tokens})),
      mean2(device, product({n.tokens})),
      rstd2(device, product({n.tokens})),
      qkv(device, product({n.tokens, 3, n.width})),
      attended(device, product({n.tokens, n.width})),
      lse(device, product({n.tokens, n.heads})),
      middle(device, product({n.tokens, n.width})),
      out(device, product({n.tokens, n.width})) {}

SharedBuffers::SharedBuffers(const Extents& n, const gpu::Device& device)
    : tokens(device, product({n.tokens})),
      targets(device, product({n.tokens})),
      embedded(device, product({n.tokens, n.width})),
      normed(device, product({n.tokens, n.width})),
      mean(device, product({n.tokens})),
      rstd(device, product({n.tokens})),
      logits(device, product({n.tokens, layers::kVocabulary})),
      loss_rows(device, product({n.tokens})),
      balance(device, product({n.layers, n.experts})),
      d_logits(device, product({n.tokens, layers::kVocabulary})),
      d_residual(device, product({n.tokens, n.width})),
      d_residual_bf16(device, product({n.tokens, n.width})),
      d_normed(device, product({n.tokens, n.width})),
      d_attended(device, product({n.tokens, n.width})),
      d_qkv(device, product({n.tokens, 3, n.width})),
      norm_partials(device,
                    static_cast<std::size_t>(layers::layer_norm_partials(n.tokens, n.width))) {}

}  // namespace rungs::training
