#pragma once
/// @file planted.hpp
/// Running a right kernel and a wrong one in every schedule of the emulator, and saying in which of
/// them the wrong one was caught.

#include "launch_kernel.hpp"

#include <rungs/testing/conforms.hpp>
#include <rungs/testing/gpu_test.hpp>
#include <rungs/testing/rerun.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <limits>
#include <string>
#include <vector>

// Under ThreadSanitizer and AddressSanitizer the planted errors may be reported by them, which ends
// the test program: what a plain build catches is tried in a plain build.
#if defined(RUNGS_SANITIZE_THREAD) || defined(RUNGS_SANITIZE_ADDRESS)
#define RUNGS_PLANTED_NEEDS_PLAIN_BUILD() \
  return rungs::testing::skip(            \
      rungs::testing::Lack::kPlainBuild,  \
      "a sanitizer itself may report what is planted, and end the program")
#else
#define RUNGS_PLANTED_NEEDS_PLAIN_BUILD() static_cast<void>(0)
#endif

namespace rungs::emulator::testing {

struct Outcome {
  std::string report;  ///< the emulator's; empty if the launch went well
  bool right = false;  ///< no report, and the output is what it should be
};

/// Runs the kernel once under the options in force.
using Trial = std::function<Outcome()>;

/// In which schedules a trial was found wrong.
struct Seen {
  Outcome late;  ///< in program order, asynchronous work as late as possible: the default
  bool by_early = false;
  int by_random = 0;    ///< of five seeds
  std::string reports;  ///< of all schedules
};

/// Seconds of the watchdog: for a right kernel on a busy machine, and for one that may hang.
inline constexpr double kPatience = 45, kImpatience = 0.15;

inline Seen try_all(const Trial& trial, double watchdog_s = kImpatience) {
  Seen seen;
  const auto under = [&](Async async, std::uint64_t seed) {
    const ScopedOptions scope({async, seed, watchdog_s});
    Outcome outcome = trial();
    seen.reports += outcome.report;
    return outcome;
  };
  seen.late = under(Async::kLate, 0);
  seen.by_early = !under(Async::kEarly, 0).right;
  for (std::uint64_t seed = 1; seed <= 5; seed++)
    seen.by_random += under(Async::kRandom, seed).right ? 0 : 1;
  return seen;
}

/// The kernel without the bug.
inline void expect_right(const Trial& trial) {
  const Seen seen = try_all(trial, kPatience);
  EXPECT_TRUE(seen.late.right) << seen.late.report;
  EXPECT_FALSE(seen.by_early) << seen.reports;
  EXPECT_EQ(seen.by_random, 0) << seen.reports;
}

inline void expect_words(const std::string& report, const std::vector<const char*>& words) {
  for (const char* word : words) {
    EXPECT_NE(report.find(word), std::string::npos) << "no \"" << word << "\" in: " << report;
  }
  if (!words.empty()) {
    EXPECT_NE(report.find("kernel \"kernel_under_test\""), std::string::npos) << report;
  }
}

/// What planted() noted for the running test.
inline std::string noted_check() {
  const auto* const result = ::testing::UnitTest::GetInstance()->current_test_info()->result();
  for (int i = 0; i < result->test_property_count(); i++) {
    const ::testing::TestProperty& property = result->GetTestProperty(i);
    if (std::string(property.key()) == "caught_by") return property.value();
  }
  return "";
}

/// The bug shows in the default schedule, by a report that holds `words`, or, without words, by a
/// wrong result; and in a random one.
inline void expect_caught(const Trial& trial, const std::vector<const char*>& words) {
  const Seen seen = try_all(trial);
  EXPECT_FALSE(seen.late.right) << "the bug went unnoticed in the default schedule";
  EXPECT_GE(seen.by_random, 1) << "the bug went unnoticed in random schedules";
  EXPECT_EQ(noted_check().find("report") != std::string::npos, !seen.late.report.empty())
      << "what catches it is not \"" << noted_check() << "\": " << seen.late.report;
  expect_words(seen.late.report, words);
}

/// The bug hides in the default schedule: it shows in at least `seeds` of five random ones.
inline void expect_caught_at_random(const Trial& trial, int seeds,
                                    const std::vector<const char*>& words) {
  const Seen seen = try_all(trial);
  EXPECT_GE(seen.by_random, seeds);
  expect_words(seen.reports, words);
}

/// The bug hides where asynchronous work lands late: it shows where that lands at once.
inline void expect_caught_early(const Trial& trial) { EXPECT_TRUE(try_all(trial).by_early); }

/// A gap of the emulator, said so: the test fails when the gap is closed.
inline void expect_missed(const Trial& trial) {
  const Seen seen = try_all(trial, kPatience);
  EXPECT_TRUE(seen.late.right && !seen.by_early && seen.by_random == 0)
      << "this bug is caught by now: say so, and by what: " << seen.reports;
}

/// Which sanitizer this program is built with; empty: none.
inline std::string sanitizer_name() {
#if defined(RUNGS_SANITIZE_THREAD)
  return "ThreadSanitizer";
#elif defined(RUNGS_SANITIZE_ADDRESS)
  return "AddressSanitizer";
#else
  return "";
#endif
}

/// For what only a sanitizer sees. Without one the right kernel must be right, then the test is
/// skipped; with it this program runs the test's right kernel, then its wrong one, in processes of
/// their own, of which the latter must end with the sanitizer's report.
/// @param sanitizer "ThreadSanitizer" or "AddressSanitizer"
/// @param words of its report
inline void expect_sanitizer_sees(const std::string& sanitizer, const Trial& right,
                                  const Trial& wrong, const std::vector<const char*>& words) {
  constexpr const char* kVariable = "RUNGS_PLANTED";
  if (const char* which = std::getenv(kVariable)) {
    const Outcome outcome = std::string(which) == "wrong" ? wrong() : right();
    if (std::string(which) == "right") {
      EXPECT_TRUE(outcome.right) << outcome.report;
    }
    return;
  }
  if (sanitizer_name() != sanitizer) {
    if (sanitizer_name().empty()) expect_right(right);
    return rungs::testing::skip(rungs::testing::Lack::kPlainBuild,
                                "what is planted shows only under " + sanitizer);
  }
  const auto* const test = ::testing::UnitTest::GetInstance()->current_test_info();
  const std::string name = std::string(test->test_suite_name()) + "." + test->name();
  const std::string options =
      "TSAN_OPTIONS=halt_on_error=1:exitcode=66 ASAN_OPTIONS=detect_stack_use_after_return=0 "
      "UBSAN_OPTIONS=halt_on_error=1 ";
  const auto sound = rungs::testing::rerun_self(options + kVariable + "=right", name);
  EXPECT_EQ(sound.status, 0) << sound.command << "\n" << sound.output;
  const auto broken = rungs::testing::rerun_self(options + kVariable + "=wrong", name);
  EXPECT_NE(broken.status, 0) << "the bug went unnoticed: " << broken.command;
  for (const char* word : words) {
    EXPECT_NE(broken.output.find(word), std::string::npos)
        << "no \"" << word << "\" in: " << broken.output;
  }
}

inline float nan() { return std::numeric_limits<float>::quiet_NaN(); }

}  // namespace rungs::emulator::testing
