#include <rungs/bench/compare_rows.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace rungs::bench {
namespace {

ladder::Row row(const std::string& rung, const std::string& metric, double value,
                const std::string& machine = "m") {
  ladder::Row result;
  result.stage = "stage";
  result.operation = "op";
  result.rung = rung;
  result.case_name = "case";
  result.metric = metric;
  result.value = value;
  result.checked = true;
  result.machine = machine;
  return result;
}

ladder::Row with_peer(ladder::Row row, const std::string& peer, double ratio) {
  row.peer = peer;
  row.ratio = ratio;
  return row;
}

Comparison one(const std::vector<ladder::Row>& old, const std::vector<ladder::Row>& now) {
  const std::vector<Comparison> all = compare_rows(old, now);
  EXPECT_EQ(all.size(), 1u);
  return all.at(0);
}

TEST(CompareRows, FasterSlowerSame) {
  const Comparison faster = one({row("a", "time", 2.0)}, {row("a", "time", 1.0)});
  EXPECT_EQ(faster.change, Change::kFaster);
  EXPECT_EQ(faster.verdict, "2.00x faster");
  EXPECT_EQ(faster.gain, 2);
  const Comparison slower = one({row("a", "time", 1.0)}, {row("a", "time", 1.5)});
  EXPECT_EQ(slower.change, Change::kSlower);
  EXPECT_EQ(slower.verdict, "1.50x slower");
  const Comparison same = one({row("a", "time", 1.0)}, {row("a", "time", 1.03)});
  EXPECT_EQ(same.change, Change::kSame);
  EXPECT_EQ(same.verdict, "within noise (0.97x, noise 5 %)");
}

TEST(CompareRows, SpreadWidensTheNoise) {
  const std::vector<ladder::Row> old{row("a", "time", 1.0), row("a", "time_spread", 0.2)};
  const std::vector<ladder::Row> now{row("a", "time", 1.25), row("a", "time_spread", 0.1)};
  const Comparison c = one(old, now);
  EXPECT_EQ(c.change, Change::kSame);
  EXPECT_DOUBLE_EQ(c.noise, 0.3);
}

TEST(CompareRows, ACommonPeerCancelsTheMachine) {
  const Comparison c = one({with_peer(row("a", "time", 1.0, "old GPU"), "cublas", 0.5)},
                           {with_peer(row("a", "time", 3.0, "new GPU"), "cublas", 0.8)});
  EXPECT_TRUE(c.by_peer);
  EXPECT_DOUBLE_EQ(c.gain, 1.6);
  EXPECT_EQ(c.change, Change::kFaster);
}

TEST(CompareRows, OtherMachinesAndMetricsAreNotComparable) {
  EXPECT_EQ(one({row("a", "time", 1.0, "x")}, {row("a", "time", 9.0, "y")}).verdict,
            "not comparable: timed on x before");
  EXPECT_EQ(one({row("a", "emulation_time", 1.0)}, {row("a", "time", 1.0)}).change,
            Change::kUnlike);
  EXPECT_EQ(one({row("a", "time", 0)}, {row("a", "time", 1.0)}).change, Change::kUnlike);
  EXPECT_EQ(one({row("a", "time", std::nan(""))}, {row("a", "time", 1.0)}).change, Change::kUnlike);
}

TEST(CompareRows, AddedRemovedBroken) {
  ladder::Row failed = row("b", "error", 7);
  failed.checked = false;
  const std::vector<Comparison> all =
      compare_rows({row("gone", "time", 1), row("b", "time", 1), row("b", "error", 0)},
                   {row("fresh", "time", 1), failed});
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].rung, "fresh");
  EXPECT_EQ(all[0].change, Change::kAdded);
  EXPECT_EQ(all[1].change, Change::kBroken);
  EXPECT_EQ(all[1].verdict, "broken: its output is no longer verified");
  EXPECT_EQ(all[2].rung, "gone");
  EXPECT_EQ(all[2].change, Change::kRemoved);
  EXPECT_TRUE(any_worse(all));
}

TEST(CompareRows, RepairedAndStillBroken) {
  ladder::Row failed = row("a", "error", 7);
  failed.checked = false;
  EXPECT_EQ(one({failed}, {row("a", "time", 1)}).verdict, "verified now, was not before");
  EXPECT_EQ(one({failed}, {failed}).verdict, "not verified, as before");
  EXPECT_FALSE(any_worse(compare_rows({failed}, {failed})));
}

TEST(CompareRows, OtherMetricsAreIgnored) {
  EXPECT_TRUE(compare_rows({row("a", "loss", 1)}, {row("a", "loss", 2)}).empty());
  EXPECT_TRUE(compare_rows({row("a", "time_spread", 1)}, {}).empty());
  EXPECT_FALSE(any_worse({}));
}

}  // namespace
}  // namespace rungs::bench
