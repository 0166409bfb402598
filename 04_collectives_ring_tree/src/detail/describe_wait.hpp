#pragma once
/// @file describe_wait.hpp
/// A collective's fault record in words.

#include <rungs/gpu/fault.hpp>

#include <string>

namespace rungs::collectives::detail {

std::string describe_wait(const gpu::Fault& fault);

}  // namespace rungs::collectives::detail
