// A skip that RUNGS_REQUIRE_GPU=1 turns into a failure, and those that it does not.
#include <rungs/testing/gpu_test.hpp>
#include <rungs/testing/scoped_env.hpp>

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace rungs::testing {
namespace {

constexpr const char* kRequire = "RUNGS_REQUIRE_GPU";

// What a call of skip() makes of its test.
::testing::TestPartResult result_of(Lack lack) {
  ::testing::TestPartResultArray results;
  {
    const ::testing::ScopedFakeTestPartResultReporter reporter(
        ::testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &results);
    skip(lack, "it has none");
  }
  EXPECT_EQ(results.size(), 1);
  return results.GetTestPartResult(0);
}

constexpr Lack kOthers[] = {Lack::kSecondGpu, Lack::kEmulator, Lack::kPlainBuild,
                            Lack::kOwnProcess};

TEST(Skip, IsASkipWithItsReason) {
  const ScopedEnv required(kRequire, "0");
  EXPECT_TRUE(result_of(Lack::kGpu).skipped());
  // Newer versions of GoogleTest end the message with a line break.
  EXPECT_EQ(std::string(result_of(Lack::kGpu).message()).substr(0, 11), "it has none");
  for (const Lack lack : kOthers) EXPECT_TRUE(result_of(lack).skipped());
}

TEST(Skip, OfAGpuIsAFailureWhereOneIsRequired) {
  const ScopedEnv required(kRequire, "1");
  EXPECT_TRUE(result_of(Lack::kGpu).fatally_failed());
  EXPECT_NE(std::string(result_of(Lack::kGpu).message()).find("RUNGS_REQUIRE_GPU=1: it has none"),
            std::string::npos);
  for (const Lack lack : kOthers) EXPECT_TRUE(result_of(lack).skipped());
}

}  // namespace
}  // namespace rungs::testing
