#pragma once
/// @file backward_tiled.hpp
/// The two launches of the tiled backward pass.

#include "../detail/params.hpp"

#include <rungs/gpu/device.hpp>

namespace rungs::attention::detail {

/// Writes dQ, and delta = rowsum(dO ∘ O), which launch_backward_dkdv() reads.
void launch_backward_dq(const BackwardParams& params, gpu::StreamHandle stream);
/// Writes dK and dV.
void launch_backward_dkdv(const BackwardParams& params, gpu::StreamHandle stream);

}  // namespace rungs::attention::detail
