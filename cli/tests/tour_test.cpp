// `rungs tour` in the smallest form: it must say honestly what it did not decide.
#include "program.hpp"

#include <gtest/gtest.h>
#include <rungs/ladder/results.hpp>

#include <chrono>
#include <csignal>
#include <map>
#include <set>
#include <thread>

namespace rungs::cli {
namespace {

constexpr std::size_t kStages = 10;

TEST(Tour, FewStepsChecksEverythingButLeavesTheLossUndecided) {
  const Folder folder;
  const std::string json = folder.file("rows.json");
  const Ended ended = run({"tour", "--quick", "--steps", "2", "--json", json});
  ASSERT_EQ(ended.status, 0) << ended.out << ended.err;
  EXPECT_TRUE(contains(ended.out, {"This machine", "over 4 ranks, 2 nodes of 2",
                                   "checks passed, 0 failed", "1 not decided", "is judged after"}));
  EXPECT_TRUE(lacks(ended.out, "\x1b"));

  std::map<std::string, std::map<std::string, std::set<std::string>>> rungs;  // stage, operation
  bool equal = false;
  bool held_out = false;
  for (const ladder::Row& row : ladder::from_json(read_file(json))) {
    if (row.metric == "checked") {
      rungs[row.stage][row.operation].insert(row.rung);
      EXPECT_TRUE(row.checked) << row.operation << " " << row.rung << " " << row.case_name;
    }
    if (row.metric == "equal_to_eager") equal = row.checked && row.value == 1;
    if (row.metric == "held_out_loss") {
      held_out = true;
      EXPECT_FALSE(row.checked) << "two steps cannot have met the criterion";
    }
  }
  EXPECT_EQ(rungs.size(), kStages);
  for (const auto& [stage, operations] : rungs) {
    for (const auto& [operation, checked] : operations)
      EXPECT_GE(checked.size(), 2u)
          << stage << ": " << operation << " has a naive rung and another";
  }
  EXPECT_TRUE(equal);
  EXPECT_TRUE(held_out);
}

/// Ends a tour as soon as `seen` stands in one of its outputs.
Ended interrupted_tour(const std::vector<std::string>& words, const std::string& seen) {
  Program program(words);
  while (program.running() &&
         (program.out_so_far() + program.err_so_far()).find(seen) == std::string::npos)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  program.send(SIGINT);
  return program.wait();
}

TEST(Tour, InterruptIsNoFailure) {
  for (const char* seen : {"gemm_bf16\n", "train:"}) {
    const Ended ended = interrupted_tour({"tour", "--quick", "--steps", "1000000"}, seen);
    EXPECT_EQ(ended.status, 130) << ended.out << ended.err;
    EXPECT_TRUE(contains(ended.out, {"stopped (Interrupt) in the ", "0 failed, then stopped"}));
    EXPECT_TRUE(lacks(ended.out, "FAILED"));
  }
}

TEST(Tour, MissingBookIsNamedWithTheWayOut) {
  const Folder folder;
  const Ended ended = run({"tour", "--quick", "--steps", "1"}, {"RUNGS_DATA=" + folder.file("")});
  EXPECT_EQ(ended.status, 1);
  EXPECT_TRUE(contains(ended.err, {"pride_and_prejudice.txt", "RUNGS_DATA"}));
}

TEST(Tour, UnwritableJsonIsFoundFirst) {
  const Folder folder;
  const Ended ended = run({"tour", "--json", folder.file("no/rows.json")});
  EXPECT_EQ(ended.status, 1);
  EXPECT_TRUE(contains(ended.err, {"no/rows.json"}));
  EXPECT_EQ(ended.out, "");
}

}  // namespace
}  // namespace rungs::cli
