#pragma once
/// @file terms.hpp
/// What ranks must agree on before they may write into each other's heaps.

#include <rungs/bootstrap/group.hpp>
#include <rungs/gpu/device.hpp>
#include <rungs/symmetric/context.hpp>

#include <vector>

namespace rungs::symmetric::detail {

/// @throws Error kInvalidArgument naming the option, its value and what is allowed
void check_options(const ContextOptions& options, int ranks);

/// Collective. @return each rank's device in its process
/// @throws Error kInvalidArgument, on every rank, naming the first rank that differs from rank 0,
///         in what, and both values
std::vector<int> agree(bootstrap::Group& group, const gpu::Device& device,
                       const ContextOptions& options);

}  // namespace rungs::symmetric::detail
