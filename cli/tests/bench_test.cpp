// `rungs bench` on the smallest case: rows, comparison with an earlier run, and words that name
// nothing.
#include "program.hpp"

#include <gtest/gtest.h>
#include <rungs/core/text.hpp>
#include <rungs/ladder/results.hpp>

#include <algorithm>
#include <sstream>

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
  // The bar is no part of the result, but it must not stop short of it.
  EXPECT_TRUE(contains(first.err, {"bench: 100 %"}));
  const Ended second =
      run({"bench", "07", "--cases", "quick", "--repetitions", "1", "--compare", json});
  EXPECT_TRUE(second.status == 0 || second.status == 1) << second.err;  // 1: this run was slower
  EXPECT_TRUE(contains(second.out, {"Compared with " + json, "verdict"}));
  EXPECT_TRUE(lacks(second.out, "are not in this run"));

  // An earlier run with a rung that is gone by now, and with a time that nothing can differ from.
  std::vector<ladder::Row> changed = rows;
  const auto time = std::find_if(changed.begin(), changed.end(), [](const ladder::Row& row) {
    return row.metric == "emulation_time";
  });
  if (time == changed.end()) GTEST_SKIP() << "times of a GPU: nothing here is emulated";
  ladder::Row gone = *time;
  gone.rung = "forgotten";
  ladder::Row spread = *time;
  spread.metric = "emulation_time_spread";
  spread.value = 1000;
  changed.push_back(gone);
  changed.push_back(spread);
  ladder::write_rows(json, changed);
  const Ended third =
      run({"bench", "07", "--cases", "quick", "--repetitions", "1", "--compare", json});
  EXPECT_TRUE(contains(third.out, {"1 of the timings in " + json + " are not in this run",
                                   gone.case_name + ": forgotten", "within noise (", "x, noise "}));
}

TEST(Bench, AFileThatHoldsNoRowsIsNamed) {
  const Folder folder;
  const std::string json = folder.file("rows.json");
  for (const char* text : {"", "{\"rows\": [", "{\"rows\": [{\"stage\": 1}]}", "[]"}) {
    write_file(json, text);
    const Ended ended = run({"bench", "07", "--compare", json});
    EXPECT_EQ(ended.status, 1) << text;
    EXPECT_TRUE(contains(ended.err, {"--compare cannot use " + json, "rungs bench --json"}));
    EXPECT_EQ(ended.out, "") << text;
  }
}

TEST(Bench, TablesFitTheScreen) {
  const Ended ended =
      run({"bench", "07", "--cases", "quick", "--repetitions", "1"}, {"COLUMNS=80"});
  ASSERT_EQ(ended.status, 0) << ended.err;
  std::istringstream lines(ended.out);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(display_width(line), 80u) << line;
}

TEST(Bench, WordsThatNameNothing) {
  const Ended stage = run({"bench", "gem"});
  EXPECT_EQ(stage.status, 2);
  EXPECT_TRUE(contains(stage.err, {"'gem'", "rungs list"}));
  const Ended filter = run({"bench", "07", "--filter", "no such case"});
  EXPECT_EQ(filter.status, 2);
  EXPECT_TRUE(contains(filter.err, {"no such case", "--filter"}));
  const Ended peer = run({"bench", "07", "--peer", "nobody"});
  EXPECT_EQ(peer.status, 2);
  EXPECT_TRUE(contains(peer.err, {"'nobody'"}));
  const Ended compare = run({"bench", "07", "--compare", "missing.json"});
  EXPECT_EQ(compare.status, 1);
  EXPECT_TRUE(contains(compare.err, {"missing.json"}));
}

}  // namespace
}  // namespace rungs::cli
