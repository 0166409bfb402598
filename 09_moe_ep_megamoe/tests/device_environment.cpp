// Skips this program's tests with a reason where no device answers (RUNGS_REQUIRE_GPU=1: fails
// them). An environment, because fixtures here own device memory, which is allocated before a
// test's first line.
#include <rungs/testing/gpu_test.hpp>

#include <gtest/gtest.h>

namespace {

class NeedsDevice : public ::testing::Environment {
  void SetUp() override { RUNGS_NEEDS_DEVICE(); }
};

const ::testing::Environment* const kEnvironment =
    ::testing::AddGlobalTestEnvironment(new NeedsDevice);

}  // namespace
