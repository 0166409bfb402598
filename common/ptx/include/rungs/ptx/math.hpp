#pragma once
/// @file math.hpp
/// Arithmetic whose rounding must be the same on both machines.

#include <rungs/ptx/where.hpp>

#include <cmath>

namespace rungs::ptx {

/// a * b + c, rounded once. Neither compiler may contract or split it. PTX: fma.rn.f32.
RUNGS_HD float fma(float a, float b, float c) {
#if RUNGS_GPU_CUDA
  return ::fmaf(a, b, c);
#else
  return __builtin_fmaf(a, b, c);
#endif
}

}  // namespace rungs::ptx
