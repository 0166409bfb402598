#pragma once
/// @file prepare.hpp
/// From a caller's arguments to kernel parameters: every check of the contract is made here, once.

#include "params.hpp"

#include <rungs/attention/attention.hpp>

namespace rungs::attention::detail {

/// @throws Error kInvalidArgument naming tensor, dimension, value and remedy
ForwardParams check_forward(const ForwardArgs& args);
/// As check_forward; `delta` is left null, the rung brings its workspace.
BackwardParams check_backward(const BackwardArgs& args);
/// @throws Error kUnsupported with the rung's reason
void require_support(const ladder::Support& support);

}  // namespace rungs::attention::detail
