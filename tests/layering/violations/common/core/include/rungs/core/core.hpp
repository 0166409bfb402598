#pragma once
// Breaks three rules on purpose: tests/layering/expect.cmake.
#include <fmt/format.h>
#include <rungs/gpu/device.hpp>
#ifdef __CUDACC__
#endif
