#include "model/model.hpp"

#include "layers/cross_entropy.hpp"
#include "layers/embedding.hpp"
#include "layers/layer_norm.hpp"

namespace rungs::training {
namespace {

using layers::kVocabulary;

gemm::LinearArgs head_args(const Extents& n, const ParameterLayout& layout,
                           const ParameterPointers& at, const SharedBuffers& shared) {
  return {.x = shared.normed.data(),
          .weight = at.weights_bf16 + layout.head,
          .y = tensor(shared.logits.data(), n.tokens, kVocabulary),
          .dy = shared.d_logits.data(),
          .dx = tensor(shared.d_normed.data(), n.tokens, n.width),
          .d_weight = at.gradients + layout.head,
          .rows = n.tokens,
          .in = n.width,
          .out = kVocabulary};
}

gemm::LinearArgs qkv_args(const Extents& n, const LayerOffsets& offsets,
                          const ParameterPointers& at, const LayerBuffers& kept,
                          const SharedBuffers& shared) {
  return {.x = kept.normed1.data(),
          .weight = at.weights_bf16 + offsets.qkv,
          .y = tensor(kept.qkv.data(), n.tokens, 3 * n.width),
          .dy = shared.d_qkv.data(),
          .dx = tensor(shared.d_normed.data(), n.tokens, n.width),
          .d_weight = at.gradients + offsets.qkv,
          .rows = n.tokens,
          .in = n.width,
          .out = 3 * n.width};
}

gemm::LinearArgs projection_args(const Extents& n, const LayerOffsets& offsets,
                                 const ParameterPointers& at, const LayerBuffers& kept,
                                 const SharedBuffers& shared) {
  return {.x = kept.attended.data(),
          .weight = at.weights_bf16 + offsets.projection,
          .y = tensor(kept.middle.data(), n.tokens, n.width),
          .accumulate = true,  // onto the copy of the residual stream that the norm made
          .dy = shared.d_residual_bf16.data(),
          .dx = tensor(shared.d_attended.data(), n.tokens, n.width),
          .d_weight = at.gradients + offsets.projection,
          .rows = n.tokens,
          .in = n.width,
          .out = n.width};
}

layers::SelfAttentionArgs attention_args(const Extents& n, const LayerBuffers& kept,
                                         const SharedBuffers& shared) {
  return {.qkv = kept.qkv.data(),
          .out = kept.attended.data(),
          .lse = kept.lse.data(),
          .d_out = shared.d_attended.data(),
          .d_qkv = shared.d_qkv.data(),
          .batch = n.batch,
          .context = n.context,
          .heads = n.heads,
          .head_dim = n.head_dim};
}

moe::LayerArgs experts_args(const Extents& n, const LayerOffsets& offsets,
                            const ParameterPointers& at, float aux_weight, float* balance,
                            const LayerBuffers& kept, const SharedBuffers& shared) {
  return {.shape = {.width = n.width,
                    .hidden = n.hidden,
                    .experts = n.experts,
                    .top_k = n.top_k,
                    .max_tokens = n.tokens},
          .tokens = n.tokens,
          .x = kept.normed2.data(),
          .router = at.weights + offsets.router,
          .up = at.weights_bf16 + offsets.up,
          .down = at.weights_bf16 + offsets.down,
          .residual = kept.out.data(),
          .balance = balance,
          .d_residual = shared.d_residual.data(),
          .dx = shared.d_normed.data(),
          .d_router = at.gradients + offsets.router,
          .d_up = at.gradients + offsets.up,
          .d_down = at.gradients + offsets.down,
          .aux_weight = aux_weight};
}

}  // namespace

Model::Layer::Layer(const Model& model, std::size_t index, const gpu::Device& device)
    : kept(model.n_, device),
      at(model.layout_.layers[index]),
      input(index == 0 ? model.shared_.embedded.data() : model.layers_[index - 1].kept.out.data()),
      qkv(qkv_args(model.n_, at, model.at_, kept, model.shared_), device),
      attention(attention_args(model.n_, kept, model.shared_), device),
      projection(projection_args(model.n_, at, model.at_, kept, model.shared_), device),
      experts(experts_args(model.n_, at, model.at_, model.aux_weight_,
                           model.shared_.balance.data() + index * model.n_.experts, kept,
                           model.shared_),
              model.share_.ranks > 1 ? moe::Exchange::kCounted : moe::Exchange::kLocal, device,
              model.share_.context) {}

Model::Model(const ModelConfig& model, int batch, float aux_weight,
             const ParameterPointers& parameters, const gpu::Device& device, const RankShare& share)
    : n_(model, batch),
      share_(share),
      layout_(model, share.rank, share.ranks),
      at_(parameters),
      aux_weight_(aux_weight),
      shared_(n_, device),
      head_(head_args(n_, layout_, at_, shared_), device) {
  layers_.reserve(static_cast<std::size_t>(n_.layers));
  for (std::size_t l = 0; l < static_cast<std::size_t>(n_.layers); ++l)
    layers_.emplace_back(*this, l, device);
}

void Model::forward(const gpu::Queue& queue, bool for_training) const {
  queue.part("embedding", [&] {
    layers::embedding_forward({.tokens = shared_.tokens.data(),
                               .token_table = at_.weights + layout_.token,
                               .position_table = at_.weights + layout_.position,
                               .x = shared_.embedded.data(),
                               .rows = n_.tokens,
                               .width = n_.width,
                               .context = n_.context},
                              queue);
  });
  for (const Layer& layer : layers_) layer_forward(layer, queue);
  queue.part("layer norm", [&] {
    layers::layer_norm_forward({.x = layers_.back().kept.out.data(),
                                .gain = at_.weights + layout_.final_gain,
                                .bias = at_.weights + layout_.final_bias,
                                .y = shared_.normed.data(),
                                .residual = nullptr,
                                .mean = shared_.mean.data(),
                                .rstd = shared_.rstd.data(),
                                .rows = n_.tokens,
                                .width = n_.width},
                               queue);
  });
  queue.part("linear forward", [&] { head_.forward(queue.stream); });
  queue.part("cross entropy", [&] {
    layers::cross_entropy({.logits = shared_.logits.data(),
                           .targets = shared_.targets.data(),
                           .loss = shared_.loss_rows.data(),
                           .d_logits = for_training ? shared_.d_logits.data() : nullptr,
                           .rows = n_.tokens,
                           .mean_rows = n_.tokens * share_.ranks,
                           .classes = kVocabulary},
                          queue);
  });
}

void Model::layer_forward(const Layer& layer, const gpu::Queue& queue) const {
  const LayerBuffers& kept = layer.kept;
  // 1. middle = input + projection(attention(norm1(input))).
  queue.part("layer norm", [&] {
    layers::layer_norm_forward({.x = layer.input,
                                .gain = at_.weights + layer.at.norm1_gain,
                                .bias = at_.weights + layer.at.norm1_bias,
                                .y = kept.normed1.data(),
                                .residual = kept.middle.data(),
                                .mean = kept.mean1.data(),
                                .rstd = kept.rstd1.data(),
                                .rows = n_.tokens,
                                .width = n_.width},
                               queue);
  });
  queue.part("linear forward", [&] { layer.qkv.forward(queue.stream); });
  queue.part("attention forward", [&] { layer.attention.forward(queue.stream); });
  queue.part("linear forward", [&] { layer.projection.forward(queue.stream); });
  // 2. out = middle + experts(norm2(middle)).
  queue.part("layer norm", [&] {
    layers::layer_norm_forward({.x = kept.middle.data(),
                                .gain = at_.weights + layer.at.norm2_gain,
                                .bias = at_.weights + layer.at.norm2_bias,
                                .y = kept.normed2.data(),
                                .residual = kept.out.data(),
                                .mean = kept.mean2.data(),
                                .rstd = kept.rstd2.data(),
                                .rows = n_.tokens,
                                .width = n_.width},
                               queue);
  });
  layer.experts.forward(queue);
}

void Model::backward(const gpu::Queue& queue, const std::function<void(std::size_t)>& ready) const {
  const auto tell = [&ready](std::size_t part) {
    if (ready) ready(part);
  };
  queue.part("linear VJP", [&] {
    head_.input_vjp(queue.stream);
    head_.weight_vjp(queue.stream);
  });
  queue.part("layer norm VJP", [&] {
    layers::layer_norm_vjp({.x = layers_.back().kept.out.data(),
                            .gain = at_.weights + layout_.final_gain,
                            .mean = shared_.mean.data(),
                            .rstd = shared_.rstd.data(),
                            .dy = shared_.d_normed.data(),
                            .d_residual = nullptr,
                            .dx = shared_.d_residual.data(),
                            .dx_bf16 = nullptr,
                            .d_gain = at_.gradients + layout_.final_gain,
                            .d_bias = at_.gradients + layout_.final_bias,
                            .partials = shared_.norm_partials.data(),
                            .rows = n_.tokens,
                            .width = n_.width},
                           queue);
  });
  tell(0);
  for (std::size_t l = layers_.size(); l-- > 0;) {
    layer_backward(layers_[l], queue);
    tell(layers_.size() - l);
  }
  queue.part("embedding VJP", [&] {
    layers::embedding_vjp({.tokens = shared_.tokens.data(),
                           .dx = shared_.d_residual.data(),
                           .d_token_table = at_.gradients + layout_.token,
                           .d_position_table = at_.gradients + layout_.position,
                           .rows = n_.tokens,
                           .width = n_.width,
                           .context = n_.context},
                          queue);
  });
  tell(layers_.size() + 1);
}

void Model::layer_backward(const Layer& layer, const gpu::Queue& queue) const {
  const LayerBuffers& kept = layer.kept;
  // 2. Through the experts, the router and norm2: d_residual becomes the gradient of `middle`.
  layer.experts.vjp(queue);
  queue.part("layer norm VJP", [&] {
    layers::layer_norm_vjp({.x = kept.middle.data(),
                            .gain = at_.weights + layer.at.norm2_gain,
                            .mean = kept.mean2.data(),
                            .rstd = kept.rstd2.data(),
                            .dy = shared_.d_normed.data(),
                            .d_residual = shared_.d_residual.data(),
                            .dx = shared_.d_residual.data(),
                            .dx_bf16 = shared_.d_residual_bf16.data(),
                            .d_gain = at_.gradients + layer.at.norm2_gain,
                            .d_bias = at_.gradients + layer.at.norm2_bias,
                            .partials = shared_.norm_partials.data(),
                            .rows = n_.tokens,
                            .width = n_.width},
                           queue);
  });
  // 1. Through the projection, attention, qkv and norm1: d_residual becomes the gradient of the
  // layer's input.
  queue.part("linear VJP", [&] {
    layer.projection.input_vjp(queue.stream);
    layer.projection.weight_vjp(queue.stream);
  });
  queue.part("attention VJP", [&] { layer.attention.vjp(queue.stream); });
  queue.part("linear VJP", [&] {
    layer.qkv.input_vjp(queue.stream);
    layer.qkv.weight_vjp(queue.stream);
  });
  queue.part("layer norm VJP", [&] {
    layers::layer_norm_vjp({.x = layer.input,
                            .gain = at_.weights + layer.at.norm1_gain,
                            .mean = kept.mean1.data(),
                            .rstd = kept.rstd1.data(),
                            .dy = shared_.d_normed.data(),
                            .d_residual = shared_.d_residual.data(),
                            .dx = shared_.d_residual.data(),
                            .dx_bf16 = nullptr,
                            .d_gain = at_.gradients + layer.at.norm1_gain,
                            .d_bias = at_.gradients + layer.at.norm1_bias,
                            .partials = shared_.norm_partials.data(),
                            .rows = n_.tokens,
                            .width = n_.width},
                           queue);
  });
}

}  // namespace rungs::training
