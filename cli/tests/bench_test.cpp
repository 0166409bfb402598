// `rungs bench` on the smallest case: rows, comparison with an earlier run, and words that name
// nothing.
#include "program.hpp"

#include <gtest/gtest.h>
#include <rungs/ladder/results.hpp>

namespace rungs::cli {
namespace {

TEST(Bench, WritesRowsThatALaterRunComparesWith) {
  const Folder folder;
  const std::string json = folder.file("rows.json");
  const Ended first =
      run({"bench", "07", "--cases", "quick", "--repetitions", "1", "--json", json});
  ASSERT_EQ(first.status, 0) << first.out << first.err;
  EXPECT_TRUE(contains(first.out, {"tma_wgmma", "0 failed"}));
  const auto rows = ladder::from_json(read_file(json));
  ASSERT_FALSE(rows.empty());
  for (const ladder::Row& row : rows) {
    EXPECT_EQ(row.stage, "07_gemm_hopper_blackwell");
    EXPECT_TRUE(row.checked) << row.rung << " " << row.case_name << " " << row.metric;
  }
  const Ended second =
      run({"bench", "07", "--cases", "quick", "--repetitions", "1", "--compare", json});
  EXPECT_TRUE(second.status == 0 || second.status == 1) << second.err;  // 1: this run was slower
  EXPECT_TRUE(contains(second.out, {"Compared with " + json, "verdict"}));
}

TEST(Bench, WordsThatNameNothing) {
  const Ended stage = run({"bench", "gem"});
  EXPECT_EQ(stage.status, 1);
  EXPECT_TRUE(contains(stage.err, {"'gem'", "rungs list"}));
  const Ended filter = run({"bench", "07", "--filter", "no such case"});
  EXPECT_EQ(filter.status, 1);
  EXPECT_TRUE(contains(filter.err, {"no such case", "--filter"}));
  const Ended peer = run({"bench", "07", "--peer", "nobody"});
  EXPECT_EQ(peer.status, 1);
  EXPECT_TRUE(contains(peer.err, {"'nobody'"}));
  const Ended compare = run({"bench", "07", "--compare", "missing.json"});
  EXPECT_EQ(compare.status, 1);
  EXPECT_TRUE(contains(compare.err, {"missing.json"}));
}

}  // namespace
}  // namespace rungs::cli
