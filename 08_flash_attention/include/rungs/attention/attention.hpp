#pragma once
/// @file attention.hpp
/// Softmax attention, forward and backward, and their ladders.

#include <rungs/config.hpp>
#include <rungs/core/tensor.hpp>
#include <rungs/gpu/device.hpp>
#include <rungs/ladder/rung.hpp>

#include <array>
#include <memory>
#include <string_view>

namespace rungs::attention {

/// O = softmax(scale·Q·Kᵀ + mask)·V for every batch and head.
/// All of q, k, v, o: device, bf16, [batch, sequence, heads, head_dim], last stride 1, other
/// strides free (q, k and v may be slices of one packed projection). Queries and keys have equal
/// heads here.
struct ForwardArgs {
  ConstTensor<4> q;  ///< [B, Tq, H, D]
  ConstTensor<4> k;  ///< [B, Tk, H, D]
  ConstTensor<4> v;  ///< [B, Tk, H, D]
  Tensor<4> o;       ///< [B, Tq, H, D]
  /// [B, H, Tq] f32, dense: log-sum-exp of the scaled scores (natural log), for the backward pass
  Tensor<3> lse;
  float scale = 0;      ///< 0: 1/sqrt(head_dim)
  bool causal = false;  ///< query i sees keys j <= i + Tk - Tq (bottom-right aligned)
};

/// Gradients of ForwardArgs given dO. dq, dk, dv may be slices of one packed gradient; they are
/// overwritten.
struct BackwardArgs {
  ConstTensor<4> q, k, v, o, d_o;
  ConstTensor<3> lse;    ///< as the forward pass wrote it
  Tensor<4> dq, dk, dv;  ///< bf16, shapes of q, k, v
  float scale = 0;
  bool causal = false;
};

/// A forward pass made ready for repeated runs, with the fastest rung that supports the call.
/// A row whose keys are all masked gives o = 0 and lse = -inf. Masked elements are not read: a NaN
/// among them reaches nothing. @note same bits every run for the same inputs
class ForwardPlan {
 public:
  /// @throws Error kInvalidArgument naming the tensor and the dimension, stride, dtype, address or
  ///         overlap that is wrong, with its value; kCuda if the workspace does not fit
  ForwardPlan(const ForwardArgs& args, const gpu::Device& device);
  /// Enqueues the pass. Capturable; the plan must outlive the work and every graph that holds it.
  void run(gpu::StreamHandle stream) const;
  [[nodiscard]] std::string_view rung() const noexcept { return rung_; }

 private:
  std::string_view rung_;
  std::unique_ptr<ladder::Prepared> prepared_;
};

/// The backward pass likewise. Rows that see no key have zero gradients.
class BackwardPlan {
 public:
  /// @throws Error as ForwardPlan
  BackwardPlan(const BackwardArgs& args, const gpu::Device& device);
  /// Enqueues the pass. Capturable; the plan must outlive the work and every graph that holds it.
  void run(gpu::StreamHandle stream) const;
  [[nodiscard]] std::string_view rung() const noexcept { return rung_; }

 private:
  std::string_view rung_;
  std::unique_ptr<ladder::Prepared> prepared_;
};

namespace detail {
ladder::Support forward_supports(const ForwardArgs&, const ladder::Machine&);
ladder::Support forward_tiled_supports(const ForwardArgs&, const ladder::Machine&);
ladder::Support backward_supports(const BackwardArgs&, const ladder::Machine&);
ladder::Support backward_tiled_supports(const BackwardArgs&, const ladder::Machine&);
std::unique_ptr<ladder::Prepared> prepare_forward_materialised(const ForwardArgs&,
                                                               const ladder::Machine&);
std::unique_ptr<ladder::Prepared> prepare_forward_tiled(const ForwardArgs&, const ladder::Machine&);
std::unique_ptr<ladder::Prepared> prepare_backward_materialised(const BackwardArgs&,
                                                                const ladder::Machine&);
std::unique_ptr<ladder::Prepared> prepare_backward_tiled(const BackwardArgs&,
                                                         const ladder::Machine&);
}  // namespace detail

inline constexpr std::array<ladder::Rung<ForwardArgs>, 2> kForwardLadder{{
    {"materialised", "S and P written to device memory", &detail::forward_supports,
     &detail::prepare_forward_materialised},
    {"tiled", "online softmax over tiles of K and V: S never leaves the SM",
     &detail::forward_tiled_supports, &detail::prepare_forward_tiled},
}};
inline constexpr std::array<ladder::Rung<BackwardArgs>, 2> kBackwardLadder{{
    {"materialised", "P, dP and dS written to device memory", &detail::backward_supports,
     &detail::prepare_backward_materialised},
    {"tiled", "P recomputed from the log-sum-exp, tile by tile", &detail::backward_tiled_supports,
     &detail::prepare_backward_tiled},
}};

}  // namespace rungs::attention
