#pragma once
/// @file gpu_test.hpp
/// Tests that need a device: a skip always says why, and RUNGS_REQUIRE_GPU=1 turns it into a
/// failure.

#include <rungs/core/env.hpp>
#include <rungs/core/error.hpp>
#include <rungs/gpu/device.hpp>

#include <gtest/gtest.h>

#include <string>

namespace rungs::testing {

/// Empty when device 0 answers (the emulator always does); otherwise why it does not.
inline std::string why_no_device() {
  try {
    if (gpu::Device::count() == 0) return "this machine has no GPU that CUDA can use";
    (void)gpu::Device::open(0).info();
    return {};
  } catch (const Error& error) {
    return error.message();
  }
}

/// Whether a test that cannot run here must fail: RUNGS_REQUIRE_GPU=1.
inline bool gpu_is_required() { return env::flag("RUNGS_REQUIRE_GPU", false); }

}  // namespace rungs::testing

/// First line of a test (or SetUp) that uses a device.
#define RUNGS_NEEDS_DEVICE()                                                                 \
  do {                                                                                       \
    const std::string rungs_why = ::rungs::testing::why_no_device();                         \
    if (rungs_why.empty()) break;                                                            \
    if (::rungs::testing::gpu_is_required()) FAIL() << "RUNGS_REQUIRE_GPU=1: " << rungs_why; \
    GTEST_SKIP() << rungs_why;                                                               \
  } while (false)
