#pragma once
/// @file layer.hpp
/// A mixture-of-experts layer whose experts lie on several ranks: router, exchange, experts,
/// combination, and the VJP of all of it. Enqueues only; no launch depends on the host.

#include <rungs/core/dtype.hpp>
#include <rungs/gpu/device.hpp>
#include <rungs/gpu/queue.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace rungs::symmetric {
class Context;
}
namespace rungs::collectives {
class Communicator;
}

namespace rungs::moe {

/// Logits of one token live in registers or on the stack.
inline constexpr int kMaxExperts = 64;

/// The same on every rank.
struct Shape {
  int width = 0;       ///< of a token, a multiple of 64
  int hidden = 0;      ///< of one expert, a multiple of 64
  int experts = 0;     ///< of all ranks together, a multiple of the ranks; at most kMaxExperts
  int top_k = 0;       ///< distinct experts a token
  int max_tokens = 0;  ///< largest number of tokens of one rank
};

/// How tokens travel to their experts and back.
enum class Exchange {
  kLocal,    ///< one rank: nothing travels
  kPadded,   ///< naive (Tutel's way): equal blocks of `capacity` rows for each expert through
             ///< collectives::all_to_all; tokens beyond an expert's capacity are dropped
  kCounted,  ///< exact counts, which stay on the device, then exactly these rows into the symmetric
             ///< heap of the expert's rank; nothing is dropped
};

/// Where a layer's tensors lie; all device memory, row-major. E = experts of all ranks, L = experts
/// of this rank (expert e lies on rank e / L), T = tokens of this rank.
struct LayerArgs {
  Shape shape;
  int tokens = 0;           ///< T, at most shape.max_tokens; 0 is allowed, and ranks may differ
  const bf16* x = nullptr;  ///< [T, width]
  const float* router = nullptr;  ///< [E, width]
  const bf16* up = nullptr;       ///< [L, hidden, width]
  const bf16* down = nullptr;     ///< [L, width, hidden]
  float* residual = nullptr;      ///< [T, width]; forward adds the combined outputs
  /// [E]: f_e·P_e over all ranks' tokens (E times their sum is the loss)
  float* balance = nullptr;
  const float* d_residual = nullptr;  ///< [T, width]
  float* dx = nullptr;        ///< [T, width], overwritten: through the experts and the router
  float* d_router = nullptr;  ///< [E, width], overwritten: of this rank's tokens
  float* d_up = nullptr;      ///< [L, hidden, width], overwritten: of all ranks' tokens
  float* d_down = nullptr;    ///< [L, width, hidden], overwritten: of all ranks' tokens
  float aux_weight = 0;       ///< of the load-balance loss in the objective
  /// kPadded: rows an expert takes from one rank = capacity_factor × top_k × max_tokens / E,
  /// rounded up.
  float capacity_factor = 1.25f;
};

/// One layer's plans and what its forward pass keeps for its VJP.
/// @note deterministic: the same bits in every run. kLocal and kCounted give the same outputs and
///       dx for the same tokens, however they are spread over ranks, and the same d_up and d_down
///       if the ranks hold them in order; d_router is summed rank by rank and so is balance
/// @note synchronise before destroying it: its memory is in use until then
/// @note device memory for the worst case, every token of every rank at one expert
class Layer {
 public:
  /// Collective unless kLocal: allocates from the context's heap (kCounted). All ranks make the
  /// same layers in the same order, then call Context::seal(), then forward().
  /// @param context kCounted: must outlive the layer. Null otherwise
  /// @param ranks kPadded: must outlive the layer. Null otherwise
  /// @throws Error kInvalidArgument naming the field that is wrong
  Layer(const LayerArgs& args, Exchange exchange, const gpu::Device& device,
        symmetric::Context* context = nullptr, collectives::Communicator* ranks = nullptr);
  ~Layer();
  Layer(Layer&&) noexcept;
  Layer& operator=(Layer&&) noexcept;

  /// Every rank, in the same order of layers. Capturable, as long as the queue has no profile.
  void forward(const gpu::Queue& queue) const;
  /// Of the last forward pass, once. Gradients are of the sum of what all ranks' d_residual belong
  /// to and of aux_weight times the load-balance loss over all ranks' tokens.
  void vjp(const gpu::Queue& queue) const;

  /// Heap bytes that one layer takes (kCounted). ContextOptions::heap_bytes must hold those of all
  /// layers, and a few words of the context's own.
  static std::size_t heap_bytes(const Shape& shape, int ranks);
  /// [E] tokens of this rank that went to each expert, and [E] that were dropped (kPadded), of the
  /// last forward pass: device, for tests and tables.
  [[nodiscard]] const std::int32_t* counts() const noexcept;
  [[nodiscard]] const std::int32_t* dropped() const noexcept;
  /// [T, top_k] the experts of each token, most probable first, and [T, E] their probabilities, of
  /// the last forward pass: device, for tests and tables.
  [[nodiscard]] const std::int32_t* chosen() const noexcept;
  [[nodiscard]] const float* probabilities() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rungs::moe
