#include <rungs/core/log.hpp>

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace rungs {
namespace {

// Collects lines instead of writing them.
class Log : public ::testing::Test {
 protected:
  void SetUp() override {
    log::set_sink([this](log::Level level, const std::string& line) {
      lines_.push_back(std::string(log::to_string(level)) + "|" + line);
    });
  }
  void TearDown() override {
    log::set_sink({});
    log::set_level(log::Level::kWarn);
    log::set_rank(-1);
  }
  std::vector<std::string> lines_;
};

TEST_F(Log, LevelDecides) {
  log::set_level(log::Level::kWarn);
  log::error("e ", 1);
  log::warn("w ", 2);
  log::info("i");
  log::debug("d");
  EXPECT_EQ(lines_, (std::vector<std::string>{"error|e 1", "warn|w 2"}));
  EXPECT_TRUE(log::enabled(log::Level::kError));
  EXPECT_FALSE(log::enabled(log::Level::kInfo));
  log::set_level(log::Level::kDebug);
  log::debug("d");
  EXPECT_EQ(lines_.back(), "debug|d");
}

TEST_F(Log, RankOfTheThreadIsNamed) {
  log::set_rank(3);
  log::warn("mine");
  std::thread([] {
    log::set_rank(1);
    log::warn("theirs");
  }).join();
  log::set_rank(-1);
  log::warn("none");
  EXPECT_EQ(lines_,
            (std::vector<std::string>{"warn|[rank 3] mine", "warn|[rank 1] theirs", "warn|none"}));
}

// RUNGS_LOG is read once a process: a death test's child reads it anew.
TEST(LogDeathTest, VariableSetsLevelAndBadOnesAreSaid) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        ::setenv("RUNGS_LOG", "debug", 1);
        log::debug("fine ", "detail");
        std::_Exit(0);
      },
      ::testing::ExitedWithCode(0), "debug fine detail");
  EXPECT_EXIT(
      {
        ::setenv("RUNGS_LOG", "loud", 1);
        log::warn("text");
        std::_Exit(0);
      },
      ::testing::ExitedWithCode(0),
      "RUNGS_LOG is 'loud': use error, warn, info or debug.*\n.*warn text");
}

TEST(LogDeathTest, ProcessRankComesFromTheLauncher) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        ::setenv("RANK", "2", 1);
        ::setenv("WORLD_SIZE", "4", 1);
        log::error("text");
        std::_Exit(0);
      },
      ::testing::ExitedWithCode(0), "error \\[rank 2\\] text");
}

}  // namespace
}  // namespace rungs
