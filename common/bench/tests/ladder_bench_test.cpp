#include <rungs/bench/ladder_bench.hpp>

#include <rungs/core/error.hpp>
#include <rungs/testing/gpu_test.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace rungs::bench {
namespace {

// What one contender of the fake operation does.
struct Script {
  std::vector<double> seconds{1};  // returned in turn
  bool checked = true;
  std::string note;
  std::string throws;  // text of what time_once() throws
  double check_seconds = 0;
};

class FakeTrial final : public ladder::Trial {
 public:
  FakeTrial(Script script, std::vector<std::string>* order, std::string name)
      : script_(std::move(script)),
        order_(order),
        name_(std::move(name)) {
    outcome_.checked = script_.checked;
    outcome_.note = script_.note;
    outcome_.error = script_.checked ? 0.25 : 8;
    outcome_.bound = 1;
    outcome_.check_seconds = script_.check_seconds;
  }
  const ladder::Outcome& outcome() const noexcept override { return outcome_; }
  double time_once() override {
    order_->push_back(name_);
    RUNGS_REQUIRE(outcome_.checked, "timed although its check failed");
    if (!script_.throws.empty()) throw std::runtime_error(script_.throws);
    return script_.seconds[next_++ % script_.seconds.size()];
  }

 private:
  Script script_;
  std::vector<std::string>* order_;
  std::string name_;
  ladder::Outcome outcome_;
  std::size_t next_ = 0;
};

class LadderBench : public ::testing::Test {
 protected:
  // An operation of two cases on the host whose contenders follow `scripts_`.
  ladder::Operation operation() {
    ladder::Operation result;
    result.stage = "99_test";
    result.name = "op";
    result.on_host = true;
    result.rungs = {{"naive", ""}, {"fast", ""}, {"wrong", ""}, {"absent", ""}};
    result.cases = {{"small", {4e9, 2e6, 0, 0}, true, true, false},
                    {"large", {8e9, 0, 0, 0}, true, false, false},
                    {"gpu", {}, false, false, true}};
    result.supports = [](std::size_t rung, std::size_t, const ladder::Machine&) {
      return rung == 3 ? ladder::Support{false, "no such machine"} : ladder::Support{};
    };
    result.trial = [this](std::size_t rung, std::size_t, const ladder::Machine&) {
      static const std::vector<std::string> names{"naive", "fast", "wrong", "absent"};
      return trial(names[rung]);
    };
    for (const char* name : {"slow_library", "library"}) {
      ladder::Peer peer;
      peer.name = name;
      peer.trial = [this, peer_name = std::string(name)](std::size_t, const ladder::Machine&) {
        return trial(peer_name);
      };
      result.peers.push_back(peer);
    }
    ladder::Peer missing;
    missing.name = "missing";
    missing.unavailable = [](const ladder::Machine&) { return std::string("not installed"); };
    result.peers.push_back(missing);
    return result;
  }

  std::unique_ptr<ladder::Trial> trial(const std::string& name) {
    return std::make_unique<FakeTrial>(scripts_[name], &order_, name);
  }

  Report run(Options options) { return run_ladders({operation()}, ladder::Machine{}, options); }

  static Options quick(int repetitions) {
    Options options;
    options.cases = Cases::kQuick;
    options.repetitions = repetitions;
    return options;
  }

  static const Line& line(const Report& report, std::string_view contender) {
    for (const Line& line : report.lines) {
      if (line.contender == contender) return line;
    }
    throw std::runtime_error("no line of " + std::string(contender));
  }
  static const ladder::Row* row(const Report& report, const std::string& rung,
                                const std::string& metric) {
    for (const ladder::Row& row : report.rows) {
      if (row.rung == rung && row.metric == metric) return &row;
    }
    return nullptr;
  }

  std::vector<std::string> order_;
  std::map<std::string, Script> scripts_{
      {"naive", {{4e-3}, true, {}, {}, 0}},
      {"fast", {{1e-3, 2e-3, 1e-3, 5e-3, 1e-3}, true, {}, {}, 0}},
      {"wrong", {{1e-9}, false, "element 3 is off", {}, 0}},
      {"slow_library", {{3e-3}, true, {}, {}, 0}},
      {"library", {{5e-4}, true, {}, {}, 0}}};
};

TEST_F(LadderBench, MediansGainsAndRatiosToTheFastestPeer) {
  const Report report = run(quick(5));
  const Line& fast = line(report, "fast");
  EXPECT_TRUE(fast.checked);
  EXPECT_DOUBLE_EQ(fast.seconds, 1e-3);
  EXPECT_DOUBLE_EQ(fast.spread, 1.0) << "quartiles 1 ms and 2 ms, median 1 ms";
  EXPECT_DOUBLE_EQ(fast.gain_over_naive, 4);
  EXPECT_DOUBLE_EQ(fast.ratio, 0.5);
  EXPECT_EQ(fast.peer, "library");
  EXPECT_DOUBLE_EQ(line(report, "naive").gain_over_naive, 1);
  EXPECT_TRUE(line(report, "library").is_peer);
  EXPECT_TRUE(std::isnan(line(report, "library").ratio));
}

TEST_F(LadderBench, RowsHoldWhatLinesSay) {
  Options options = quick(5);
  options.roof_flops = 8e12;
  options.roof_bytes = 4e9;
  const Report report = run(options);
  const ladder::Row* time = row(report, "fast", "time");
  ASSERT_NE(time, nullptr);
  EXPECT_DOUBLE_EQ(time->value, 1e-3);
  EXPECT_EQ(time->unit, "s");
  EXPECT_EQ(time->stage, "99_test");
  EXPECT_EQ(time->case_name, "small");
  EXPECT_EQ(time->peer, "library");
  EXPECT_DOUBLE_EQ(time->ratio.value_or(0), 0.5);
  EXPECT_TRUE(time->checked);
  EXPECT_DOUBLE_EQ(row(report, "fast", "flops")->value, 4e12);
  EXPECT_DOUBLE_EQ(row(report, "fast", "share_of_flops")->value, 0.5);
  EXPECT_DOUBLE_EQ(row(report, "fast", "bandwidth")->value, 2e9);
  EXPECT_DOUBLE_EQ(row(report, "fast", "share_of_bandwidth")->value, 0.5);
  EXPECT_DOUBLE_EQ(row(report, "fast", "gain_over_naive")->value, 4);
  EXPECT_DOUBLE_EQ(row(report, "fast", "error")->value, 0.25);
  EXPECT_FALSE(row(report, "naive", "time")->machine.empty());
  EXPECT_NE(row(report, "library", "time"), nullptr);
}

TEST_F(LadderBench, WrongContendersAreNeverTimed) {
  const Report report = run(quick(5));
  EXPECT_EQ(std::count(order_.begin(), order_.end(), "wrong"), 0);
  EXPECT_EQ(report.failed, 1);
  const Line& wrong = line(report, "wrong");
  EXPECT_FALSE(wrong.checked);
  EXPECT_EQ(wrong.note, "element 3 is off");
  EXPECT_TRUE(std::isnan(wrong.seconds));
  EXPECT_EQ(row(report, "wrong", "time"), nullptr);
  ASSERT_NE(row(report, "wrong", "error"), nullptr);
  EXPECT_FALSE(row(report, "wrong", "error")->checked);
}

TEST_F(LadderBench, WhatIsNotSupportedIsNoFailure) {
  scripts_["wrong"].checked = true;
  const Report report = run(quick(1));
  EXPECT_EQ(report.failed, 0);
  EXPECT_TRUE(line(report, "absent").skipped);
  EXPECT_EQ(line(report, "absent").note, "no such machine");
  EXPECT_EQ(line(report, "missing").note, "not installed");
  EXPECT_EQ(row(report, "absent", "error"), nullptr);
}

TEST_F(LadderBench, AThrowWhileTimingIsAFailure) {
  scripts_["fast"].throws = "device lost";
  const Report report = run(quick(3));
  EXPECT_EQ(report.failed, 2);
  EXPECT_EQ(line(report, "fast").note, "checked, but failed while being timed: device lost");
  EXPECT_EQ(row(report, "fast", "time"), nullptr);
  EXPECT_DOUBLE_EQ(line(report, "naive").seconds, 4e-3);
}

// 4 contenders × 30 repetitions one after the other would change 3 times; a shuffle of them changes
// about 90 times and fewer than 20 with a probability far below 1e-20.
TEST_F(LadderBench, ContendersAreInterleaved) {
  run(quick(30));
  EXPECT_EQ(order_.size(), 120u);
  for (const char* name : {"naive", "fast", "library", "slow_library"}) {
    EXPECT_EQ(std::count(order_.begin(), order_.end(), name), 30) << name;
  }
  int changes = 0;
  for (std::size_t i = 1; i < order_.size(); ++i) changes += order_[i] != order_[i - 1] ? 1 : 0;
  EXPECT_GE(changes, 20);
}

TEST_F(LadderBench, SlowContendersAreTimedLessOften) {
  scripts_["naive"].check_seconds = 2;
  scripts_["fast"].check_seconds = 60;
  Options options = quick(10);
  options.seconds_each = 8;
  const Report report = run(options);
  EXPECT_EQ(std::count(order_.begin(), order_.end(), "naive"), 4);
  EXPECT_EQ(std::count(order_.begin(), order_.end(), "fast"), 1);
  EXPECT_EQ(std::count(order_.begin(), order_.end(), "library"), 10);
  EXPECT_DOUBLE_EQ(line(report, "fast").seconds, 1e-3);
}

TEST_F(LadderBench, CasesPeersAndProgress) {
  Options options;
  options.repetitions = 1;
  options.cases = Cases::kTour;
  options.only_peer = "slow_library";
  std::vector<std::string> seen;
  options.progress = [&](const std::string& what, std::size_t done, std::size_t total) {
    seen.push_back(what + " " + std::to_string(done) + "/" + std::to_string(total));
  };
  const Report report = run(options);
  EXPECT_EQ(seen, (std::vector<std::string>{"op small 0/2", "op large 1/2", " 2/2"}));
  EXPECT_EQ(line(report, "fast").peer, "slow_library");
  EXPECT_THROW(line(report, "library"), std::runtime_error);
  options.peers = false;
  EXPECT_TRUE(std::isnan(line(run(options), "fast").ratio));
  options.cases = Cases::kAll;
  seen.clear();
  run(options);
  EXPECT_EQ(seen.size(), 3u) << "the case for GPUs is left out on this machine";
}

TEST_F(LadderBench, EmulatedTimesAreCalledThatAndCompareNothing) {
  RUNGS_NEEDS_DEVICE();
  const gpu::Device device = gpu::Device::open(0);
  if (!device.info().emulated)
    return testing::skip(testing::Lack::kEmulator, "this build's device is real");
  ladder::Operation on_device = operation();
  on_device.on_host = false;
  const Report report = run_ladders({on_device}, ladder::Machine{&device, 1}, quick(3));
  ASSERT_NE(row(report, "fast", "emulation_time"), nullptr);
  EXPECT_FALSE(row(report, "fast", "emulation_time")->ratio.has_value());
  EXPECT_DOUBLE_EQ(row(report, "fast", "launches")->value, 0);
  for (const char* metric : {"time", "flops", "bandwidth", "gain_over_naive"}) {
    EXPECT_EQ(row(report, "fast", metric), nullptr) << metric;
  }
  EXPECT_TRUE(std::isnan(line(report, "fast").ratio));
  ASSERT_TRUE(line(report, "fast").counts.has_value());
  EXPECT_EQ(line(report, "fast").counts->mma_flops, 0u);
}

TEST_F(LadderBench, NoRepetitionsOnlyChecks) {
  const Report report = run(quick(0));
  EXPECT_TRUE(order_.empty());
  EXPECT_TRUE(line(report, "fast").checked);
  EXPECT_EQ(row(report, "fast", "time"), nullptr);
  Options negative = quick(-1);
  EXPECT_THROW(run(negative), Error);
}

}  // namespace
}  // namespace rungs::bench
