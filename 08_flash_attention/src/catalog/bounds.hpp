#pragma once
/// @file bounds.hpp
/// How far a rung's result may lie from the exact one, element by element: the chapter's section
/// "How wrong it may be" in code. Computed in double from the inputs; the bound knows nothing about
/// how a rung orders its work.

#include <rungs/config.hpp>
#include <rungs/testing/oracle.hpp>

#include <span>
#include <vector>

namespace rungs::attention {

struct ForwardBounds {
  std::vector<double> o;    ///< [B, Tq, H, D]
  std::vector<double> lse;  ///< [B, H, Tq]
};
ForwardBounds forward_bounds(const testing::AttentionShape& shape, std::span<const double> q,
                             std::span<const double> k, std::span<const double> v);

struct BackwardBounds {
  std::vector<double> dq, dk, dv;  ///< shapes of q, k, v
};
/// For a backward pass whose o and lse come from a forward pass within forward_bounds().
BackwardBounds backward_bounds(const testing::AttentionShape& shape, std::span<const double> q,
                               std::span<const double> k, std::span<const double> v,
                               std::span<const double> d_o);

}  // namespace rungs::attention
