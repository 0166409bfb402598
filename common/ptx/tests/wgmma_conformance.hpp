#pragma once
/// @file wgmma_conformance.hpp
/// Kernels of the conformance suite for wgmma.

#include <rungs/config.hpp>

#include <vector>

namespace rungs::ptx::test {

/// wgmma_widths_sm90.cu: kernels that hold every form of the instruction; not for launching.
std::vector<const void*> every_wgmma();

}  // namespace rungs::ptx::test
