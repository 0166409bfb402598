#include <rungs/core/deadline.hpp>
#include <rungs/core/error.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <string>
#include <thread>

namespace rungs {
namespace {

using std::chrono::duration;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(Deadline, ZeroHasPassedAndLongHasNot) {
  EXPECT_TRUE(Deadline::after(seconds(0)).passed());
  EXPECT_TRUE(Deadline::after(seconds(-5)).passed());
  const Deadline later = Deadline::after(seconds(1000));
  EXPECT_FALSE(later.passed());
  EXPECT_GT(later.remaining().count(), 0);
  EXPECT_GE(later.waited().count(), 0);
}

TEST(Deadline, InfinityDoesNotOverflow) {
  const Deadline never = Deadline::after(duration<double>(std::numeric_limits<double>::infinity()));
  EXPECT_FALSE(never.passed());
  EXPECT_GT(never.remaining().count(), 1e8);
}

TEST(Deadline, NotANumberIsRefused) {
  EXPECT_THROW(Deadline::after(duration<double>(std::numeric_limits<double>::quiet_NaN())), Error);
}

TEST(Wait, ReturnsWhenTheConditionComesTrue) {
  int polls = 0;
  wait_until([&] { return ++polls == 200; }, Deadline::after(seconds(60)), [] { return "never"; });
  EXPECT_EQ(polls, 200);
}

TEST(Wait, TimeoutSaysWhatWasAwaited) {
  try {
    wait_until([] { return false; }, Deadline::after(milliseconds(5)),
               [] { return "credit of rank 2"; });
    FAIL() << "the wait ended without an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kTimeout);
    EXPECT_EQ(error.message().find("credit of rank 2: waited "), 0u) << error.message();
  }
}

TEST(Wait, APassedDeadlineStillGetsOneLastLook) {
  int polls = 0;
  wait_until([&] { return ++polls == 2; }, Deadline::after(seconds(0)),
             [] { return "second look"; });
  EXPECT_EQ(polls, 2);
}

TEST(Backoff, LetsTheAwaitedThreadFinish) {
  constexpr int kMany = 100000;  // 20 s of pauses at their longest
  for (int round = 0; round < 3; ++round) {
    std::atomic<bool> done{false};
    Backoff backoff;
    std::thread awaited([&done] { done = true; });
    int polls = 0;
    for (; !done && polls < kMany; ++polls) backoff.pause();
    awaited.join();
    EXPECT_LT(polls, kMany);
  }
}

// The scale is read once a process, so the child of a death test reads it anew.
TEST(TimeoutScaleDeathTest, BadValueIsAnErrorThatNamesIt) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        ::setenv("RUNGS_TIMEOUT_SCALE", "fast", 1);
        try {
          (void)timeout_scale();
        } catch (const Error& error) {
          std::fprintf(stderr, "%s\n", error.what());
          std::_Exit(7);
        }
        std::_Exit(0);
      },
      ::testing::ExitedWithCode(7), "RUNGS_TIMEOUT_SCALE is 'fast'");
}

TEST(TimeoutScaleDeathTest, StretchesDeadlines) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        ::setenv("RUNGS_TIMEOUT_SCALE", "50", 1);
        const double left = Deadline::after(std::chrono::seconds(100)).remaining().count();
        std::_Exit(left > 4000 && left <= 5000 ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace rungs
