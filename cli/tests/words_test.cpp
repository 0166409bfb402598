// What the program answers to right and wrong words. Nothing here runs a kernel for long.
#include "program.hpp"

#include <gtest/gtest.h>
#include <unistd.h>
#include <rungs/core/text.hpp>

#include <sstream>

namespace rungs::cli {
namespace {

TEST(Words, HelpNamesEveryCommandAndShowsExamples) {
  for (const std::vector<std::string>& words : {std::vector<std::string>{}, {"--help"}, {"-h"}}) {
    const Ended help = run(words);
    EXPECT_EQ(help.status, 0);
    for (const char* command : {"tour", "train", "bench", "list", "doctor", "test", "Examples"}) {
      EXPECT_TRUE(contains(help.out, {command}));
    }
    EXPECT_TRUE(contains(help.out, {"Exit status: 0", "1 a check failed", "2 the command line"}));
    EXPECT_EQ(help.err, "");
  }
}

TEST(Words, OutputThatCannotBeWrittenIsAnError) {
  if (::access("/dev/full", W_OK) != 0) GTEST_SKIP() << "no /dev/full here";
  for (const std::vector<std::string>& words : {std::vector<std::string>{},
                                                {"--help"},
                                                {"--version"},
                                                {"list"},
                                                {"list", "--help"},
                                                {"doctor"},
                                                {"bench", "07", "--cases", "quick"},
                                                {"tour", "--quick"}}) {
    const Ended ended = Program(words, {}, "/dev/full").wait();
    EXPECT_EQ(ended.status, 1) << ::testing::PrintToString(words);
    EXPECT_TRUE(contains(ended.err, {"rungs: cannot write to standard output: No space left"}))
        << ::testing::PrintToString(words);
  }
}

TEST(Words, NarrowScreensBreakBetweenWords) {
  for (const char* columns : {"80", "60"}) {
    for (const std::vector<std::string>& words : {std::vector<std::string>{"--help"},
                                                  {"list"},
                                                  {"doctor"},
                                                  {"bench", "--help"},
                                                  {"tour", "--help"}}) {
      const Ended ended = run(words, {std::string("COLUMNS=") + columns});
      ASSERT_EQ(ended.status, 0) << ended.err;
      std::istringstream lines(ended.out);
      for (std::string line; std::getline(lines, line);)
        EXPECT_LE(display_width(line), std::stoul(columns)) << line;
    }
  }
}

TEST(Words, EveryCommandHasHelp) {
  for (const char* command :
       {"tour", "train", "bench", "list", "doctor", "topo", "results", "trace"}) {
    const Ended help = run({command, "--help"});
    EXPECT_EQ(help.status, 0) << command;
    EXPECT_TRUE(contains(help.out, {"--help"})) << command;
    EXPECT_EQ(help.err, "") << command;
  }
}

TEST(Words, VersionNamesTheBackEnd) {
  const Ended version = run({"--version"});
  EXPECT_EQ(version.status, 0);
  EXPECT_EQ(version.out.rfind("rungs ", 0), 0u) << version.out;
  EXPECT_TRUE(contains(version.out, {"back end"}));
}

TEST(Words, UnknownCommandGetsTheNearest) {
  const Ended ended = run({"tuor"});
  EXPECT_EQ(ended.status, 2);
  EXPECT_EQ(ended.err.rfind("rungs: ", 0), 0u) << ended.err;
  EXPECT_TRUE(contains(ended.err, {"'tuor'", "did you mean 'tour'"}));
  EXPECT_EQ(ended.out, "");
}

TEST(Words, NonsenseGetsNoSuggestion) {
  const Ended ended = run({"xylophone"});
  EXPECT_EQ(ended.status, 2);
  EXPECT_TRUE(contains(ended.err, {"xylophone", "--help"}));
  EXPECT_TRUE(lacks(ended.err, "did you mean"));
}

TEST(Words, CommandOfALaterStageIsCalledSo) {
  const Ended ended = run({"generate"});
  EXPECT_EQ(ended.status, 2);
  EXPECT_TRUE(contains(ended.err, {"later stage"}));
}

TEST(Words, UnknownOptionGetsTheNearest) {
  const Ended ended = run({"tour", "--qick"});
  EXPECT_EQ(ended.status, 2);
  EXPECT_TRUE(contains(ended.err, {"--qick", "did you mean '--quick'", "rungs tour --help"}));
}

TEST(Words, BadValuesAreUsageErrors) {
  for (const std::vector<std::string>& words : {std::vector<std::string>{"tour", "--steps", "0"},
                                                {"tour", "--steps", "many"},
                                                {"tour", "--json"},
                                                {"train", "--data", "x", "--mode", "fast"},
                                                {"train", "--data", "x", "--lr", "-1"},
                                                {"train"}}) {
    const Ended ended = run(words);
    EXPECT_EQ(ended.status, 2) << ended.err;
    EXPECT_EQ(ended.err.rfind("rungs: ", 0), 0u) << ended.err;
    EXPECT_TRUE(contains(ended.err, {"--help"}));
    EXPECT_EQ(ended.out, "");
  }
}

TEST(Words, TestBelongsToTheScript) {
  const Ended ended = run({"test", "-R", "gemm"});
  EXPECT_EQ(ended.status, 2);
  EXPECT_TRUE(contains(ended.err, {"./rungs test"}));
}

TEST(Words, ListShowsStagesAndRungs) {
  const Ended all = run({"list"});
  EXPECT_EQ(all.status, 0) << all.err;
  EXPECT_TRUE(contains(all.out, {"01_rdma_verbs", "09_moe_ep_megamoe", "tma_wgmma", "tiled"}));
  const Ended gemm = run({"list", "07"});
  EXPECT_EQ(gemm.status, 0) << gemm.err;
  EXPECT_TRUE(contains(gemm.out, {"tma_wgmma"}));
  EXPECT_TRUE(lacks(gemm.out, "materialised"));
}

TEST(Words, ListOfWhatIsNotThere) {
  const Ended unknown = run({"list", "11"});
  EXPECT_EQ(unknown.status, 2);
  EXPECT_TRUE(contains(unknown.err, {"no stage or operation is called '11'"}));
  const Ended mistyped = run({"list", "08_flash_atention"});
  EXPECT_EQ(mistyped.status, 2);
  EXPECT_TRUE(contains(mistyped.err, {"did you mean '08_flash_attention'"}));
}

TEST(Words, DoctorSaysWhatFollows) {
  const Ended ended = run({"doctor"});
  EXPECT_EQ(ended.status, 0) << ended.err;
  for (const char* word :
       {"GPU", "RDMA NIC", "CPU", "memory", "CUDA toolkit", "/dev/shm", "memfd", "locked memory"}) {
    EXPECT_TRUE(contains(ended.out, {word}));
  }
}

TEST(Words, ABadTimeoutScaleIsSaidBeforeAnyWork) {
  for (const char* value : {"abc", "0", "-1", "inf", "nan"}) {
    const Ended ended =
        run({"bench", "07", "--cases", "quick"}, {std::string("RUNGS_TIMEOUT_SCALE=") + value});
    EXPECT_EQ(ended.status, 2) << value;
    EXPECT_TRUE(contains(ended.err, {"RUNGS_TIMEOUT_SCALE", value, "a number above 0"}));
    EXPECT_EQ(ended.out, "") << value;
  }
}

TEST(Words, OutputWithoutATerminalHasNoEscapes) {
  const Ended ended = run({"doctor"}, {"COLUMNS=60"});
  EXPECT_EQ(ended.status, 0);
  EXPECT_TRUE(lacks(ended.out, "\x1b"));
}

}  // namespace
}  // namespace rungs::cli
