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
  // Asking would start the emulator's workers: a child that a test forks would inherit the locks
  // that they hold at that moment (of AddressSanitizer's allocator, for one).
  if (RUNGS_GPU_CUDA == 0) return {};
  try {
    if (gpu::Device::count() == 0) return "this machine has no GPU that CUDA can use";
    (void)gpu::Device::open(0).info();
    return {};
  } catch (const Error& error) {
    return error.message();
  }
}

/// Whether a test that needs a GPU must fail without one: RUNGS_REQUIRE_GPU=1.
inline bool gpu_is_required() { return env::flag("RUNGS_REQUIRE_GPU", false); }

/// What a test that cannot run here lacks.
enum class Lack {
  kGpu,         ///< a GPU, or one that runs this rung: RUNGS_REQUIRE_GPU=1 makes that a failure
  kSecondGpu,   ///< two GPUs that reach each other
  kEmulator,    ///< it is about what only the emulated device does
  kPlainBuild,  ///< a build without this sanitizer
  kOwnProcess,  ///< a process in which no other test ran; ctest gives it one
};

/// Skips the running test, or fails it where `lack` is a GPU and RUNGS_REQUIRE_GPU=1. The only way
/// a test that uses a device is skipped; leave the test with it: `return skip(...);`
inline void skip(Lack lack, const std::string& why) {
  if (lack == Lack::kGpu && gpu_is_required()) {
    FAIL() << "RUNGS_REQUIRE_GPU=1: " << why;
  }
  GTEST_SKIP() << why;
}

}  // namespace rungs::testing

/// First line of a test (or SetUp) that uses a device.
#define RUNGS_NEEDS_DEVICE()                                                \
  do {                                                                      \
    const std::string rungs_why = ::rungs::testing::why_no_device();        \
    if (rungs_why.empty()) break;                                           \
    return ::rungs::testing::skip(::rungs::testing::Lack::kGpu, rungs_why); \
  } while (false)
