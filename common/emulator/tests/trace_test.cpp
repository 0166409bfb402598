// The tracer: what it records of a small pipeline under every schedule.

#include "trace_kernels.hpp"

#include <rungs/testing/errors.hpp>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace rungs::emulator::testing {
namespace {

using Json = nlohmann::json;
using trace::Cta;
using trace::Slice;
using trace::Trace;
using trace::Track;
using trace::What;

const Track* find_track(const Cta& cta, const std::string& name) {
  for (const Track& track : cta.tracks) {
    if (track.name == name) return &track;
  }
  ADD_FAILURE() << "no track " << name;
  return nullptr;
}

std::vector<const Slice*> slices_of(const Cta& cta, What what) {
  std::vector<const Slice*> result;
  for (const Track& track : cta.tracks) {
    for (const Slice& slice : track.slices) {
      if (slice.what == what) result.push_back(&slice);
    }
  }
  return result;
}

std::string fact(const Slice& slice, const std::string& name) {
  for (const auto& [key, value] : slice.facts) {
    if (key == name) return value;
  }
  return "(none)";
}

int most_under_way(const Cta& cta, What what) {
  std::map<trace::Step, int> changes;
  for (const Slice* slice : slices_of(cta, what)) {
    changes[slice->begin]++;
    changes[slice->end]--;
  }
  int now = 0;
  int most = 0;
  for (const auto& [at, change] : changes) most = std::max(most, now += change);
  return most;
}

std::uint64_t warps_of(const Trace& traced, const std::string& name) {
  for (const auto& count : traced.totals.instructions) {
    if (count.name == name) return count.warps;
  }
  return 0;
}

std::uint64_t threads_of(const Trace& traced, const std::string& name) {
  for (const auto& count : traced.totals.instructions) {
    if (count.name == name) return count.threads;
  }
  return 0;
}

/// Slices in order and disjoint; arrows forward, from a slice to the end of a slice.
void expect_sound(const Cta& cta) {
  for (const Track& track : cta.tracks) {
    trace::Step at = 0;
    for (const Slice& slice : track.slices) {
      EXPECT_GE(slice.begin, at) << track.name << " " << slice.name;
      EXPECT_GT(slice.end, slice.begin) << track.name << " " << slice.name;
      at = slice.end;
    }
  }
  for (const trace::Arrow& arrow : cta.arrows) {
    EXPECT_LT(arrow.from, arrow.to);
    const auto& from = cta.tracks.at(arrow.from_track).slices;
    EXPECT_TRUE(std::any_of(from.begin(), from.end(),
                            [&](const Slice& slice) {
                              return slice.what == What::kInstruction && slice.begin == arrow.from;
                            }))
        << "arrow from " << cta.tracks[arrow.from_track].name << " at " << arrow.from;
    const auto& to = cta.tracks.at(arrow.to_track).slices;
    EXPECT_TRUE(std::any_of(to.begin(), to.end(),
                            [&](const Slice& slice) { return slice.end == arrow.to; }));
  }
}

class Schedules : public ::testing::TestWithParam<Options> {};

TEST_P(Schedules, PipelineHasItsTracks) {
  const PipelineRun run = trace_pipeline(GetParam());
  ASSERT_EQ(run.report, "");
  ASSERT_TRUE(run.right) << "tracing must not change a result";
  ASSERT_TRUE(run.trace.has_value());
  const Trace& traced = *run.trace;
  EXPECT_EQ(traced.kernel, "kernel_under_test");
  ASSERT_EQ(traced.ctas.size(), 1u);
  const Cta& cta = traced.ctas[0];
  EXPECT_EQ(cta.dropped, 0u);
  expect_sound(cta);

  // Twelve tiles of 8 KB, four multiplications a step by one warpgroup.
  EXPECT_EQ(slices_of(cta, What::kCopy).size(), 12u);
  EXPECT_EQ(slices_of(cta, What::kMultiplication).size(), 24u);
  EXPECT_EQ(slices_of(cta, What::kGroup).size(), 6u);
  EXPECT_EQ(cta.arrows.size(), 36u);
  for (const Slice* copy : slices_of(cta, What::kCopy)) {
    EXPECT_EQ(copy->name, "tma load 2d");
    EXPECT_EQ(fact(*copy, "bytes"), "8192");
    EXPECT_EQ(fact(*copy, "issued by"), "warp 4");
    EXPECT_FALSE(copy->unfinished);
  }
  EXPECT_LE(most_under_way(cta, What::kCopy), 4) << "two stages of two tiles";

  // Two stages: `full` with one arrival and the bytes, `empty` with one arrival a warp.
  std::vector<const Track*> barriers;
  for (const Track& track : cta.tracks) {
    if (track.what == What::kPhase) barriers.push_back(&track);
  }
  ASSERT_EQ(barriers.size(), 4u);
  for (const Track* barrier : barriers) {
    ASSERT_EQ(barrier->slices.size(), 3u) << barrier->name;
    const bool full = fact(barrier->slices[0], "arrivals") == "1 of 1";
    for (const Slice& phase : barrier->slices) {
      EXPECT_EQ(fact(phase, "arrivals"), full ? "1 of 1" : "4 of 4");
      EXPECT_EQ(fact(phase, "bytes expected"), full ? "16384" : "0");
      EXPECT_EQ(fact(phase, "bytes landed"), full ? "16384" : "0");
      EXPECT_FALSE(phase.unfinished);
    }
    EXPECT_EQ(barrier->marks.size(), full ? 9u : 12u) << barrier->name;
    EXPECT_TRUE(std::is_sorted(barrier->marks.begin(), barrier->marks.end(),
                               [](const auto& a, const auto& b) { return a.at < b.at; }));
  }
}

TEST_P(Schedules, CountsAreThoseOfTheSource) {
  const PipelineRun run = trace_pipeline(GetParam());
  ASSERT_TRUE(run.trace.has_value());
  const Trace& traced = *run.trace;
  EXPECT_EQ(traced.totals.blocks, 1u);
  EXPECT_EQ(traced.totals.threads, 160u);
  EXPECT_EQ(traced.totals.mma_flops, 2u * 64 * 64 * 384);
  EXPECT_GT(traced.totals.fiber_switches, 160u);
  // bar.sync once, three phases of each of four mbarriers
  EXPECT_EQ(traced.totals.barriers, 13u);
  EXPECT_EQ(warps_of(traced, "mbarrier.init"), 4u);
  EXPECT_EQ(warps_of(traced, "bar.sync"), 5u);
  EXPECT_EQ(threads_of(traced, "bar.sync"), 160u);
  EXPECT_EQ(warps_of(traced, "cp.async.bulk.tensor"), 12u);
  EXPECT_EQ(threads_of(traced, "cp.async.bulk.tensor"), 12u);
  EXPECT_EQ(warps_of(traced, "wgmma n"), 24u * 4);
  EXPECT_EQ(threads_of(traced, "wgmma n"), 24u * 128);
  EXPECT_EQ(warps_of(traced, "wgmma.commit_group"), 6u * 4);
  // The copying warp tells `full` to expect bytes, each multiplying warp gives `empty` back.
  EXPECT_EQ(warps_of(traced, "mbarrier.arrive"), 6u + 6u * 4);
  EXPECT_EQ(warps_of(traced, "mbarrier.wait"), 6u + 6u * 4);
  ASSERT_EQ(traced.totals.asynchronous.size(), 2u);
  EXPECT_EQ(traced.totals.asynchronous[0].name, "tma load 2d");
  EXPECT_EQ(traced.totals.asynchronous[0].operations, 12u);
  EXPECT_EQ(traced.totals.asynchronous[0].bytes, 12u * 8192);
  EXPECT_TRUE(traced.totals.asynchronous[1].name.starts_with("wgmma m64n64k16"));
  EXPECT_EQ(traced.totals.asynchronous[1].operations, 24u);
}

INSTANTIATE_TEST_SUITE_P(All, Schedules,
                         ::testing::Values(Options{Async::kLate, 0, 45},
                                           Options{Async::kLate, 5, 45},
                                           Options{Async::kEarly, 0, 45},
                                           Options{Async::kRandom, 1, 45},
                                           Options{Async::kRandom, 2, 45}));

TEST(Trace, LateCopiesFillTheRingEarlyOnesDoNot) {
  const PipelineRun late = trace_pipeline({Async::kLate, 0, 45});
  const PipelineRun early = trace_pipeline({Async::kEarly, 0, 45});
  ASSERT_TRUE(late.trace && early.trace);
  EXPECT_EQ(most_under_way(late.trace->ctas[0], What::kCopy), 4);
  EXPECT_LE(most_under_way(early.trace->ctas[0], What::kCopy), 1);
}

TEST(Trace, WaitsEndWithWhatTheyWaitFor) {
  const PipelineRun run = trace_pipeline({Async::kLate, 0, 45});
  ASSERT_TRUE(run.trace);
  const Cta& cta = run.trace->ctas[0];
  std::set<trace::Step> phase_ends;
  std::set<trace::Step> landings;
  for (const Slice* phase : slices_of(cta, What::kPhase)) phase_ends.insert(phase->end);
  for (const Slice* one : slices_of(cta, What::kMultiplication)) landings.insert(one->end);
  int on_mbarriers = 0;
  int on_wgmma = 0;
  for (unsigned warp = 0; warp < 4; warp++) {
    for (const Slice& slice : find_track(cta, "warp " + std::to_string(warp))->slices) {
      if (slice.name.starts_with("waits: mbarrier")) {
        EXPECT_EQ(phase_ends.count(slice.end), 1u) << slice.name;
        on_mbarriers++;
      }
      if (slice.name.starts_with("waits: wgmma")) {
        EXPECT_EQ(landings.count(slice.end), 1u) << slice.name;
        on_wgmma++;
      }
    }
  }
  EXPECT_EQ(on_mbarriers, 4 * 6) << "tiles land late, so every warp waits for every step";
  EXPECT_EQ(on_wgmma, 4 * 6);
}

TEST(Trace, ASessionChoosesALaunchByNameAndNumber) {
  const ScopedOptions scope({});
  Executor executor({4, 2});
  const auto launch = [&](const std::string& name, unsigned threads) {
    const auto request = make_request(name, {.grid = {2}, .block = {threads}}, &one_barrier);
    Completion completion;
    executor.submit(request, completion.callback());
    EXPECT_EQ(completion.wait(), "");
  };
  trace::Request wanted;
  wanted.kernel = "b";
  wanted.launch = 2;
  wanted.cta.reset();
  trace::Session session(wanted);
  EXPECT_TRUE(rungs::testing::has(rungs::testing::error_of([] { trace::Session second({}); }),
                                  "one session at a time"));
  launch("a", 32);
  launch("b", 64);
  EXPECT_FALSE(session.take().has_value());
  launch("b", 96);
  launch("b", 128);
  EXPECT_EQ(session.launched(), (std::vector<std::string>{"a", "b", "b", "b"}));
  const std::optional<Trace> traced = session.take();
  ASSERT_TRUE(traced.has_value());
  EXPECT_EQ(traced->kernel, "b");
  EXPECT_EQ(traced->block.x, 96u);
  ASSERT_EQ(traced->ctas.size(), 2u);
  EXPECT_EQ(traced->ctas[1].index.x, 1u);
  EXPECT_EQ(traced->ctas[1].tracks.size(), 3u);
  EXPECT_FALSE(session.take().has_value());
}

TEST(Trace, ALimitOnEventsLeavesTheCounts) {
  trace::Request request;
  request.most_events = 50;
  const PipelineRun run = trace_pipeline({}, request);
  ASSERT_TRUE(run.trace && run.right);
  const Cta& cta = run.trace->ctas[0];
  EXPECT_GT(cta.dropped, 0u);
  EXPECT_EQ(warps_of(*run.trace, "wgmma n"), 24u * 4);
  std::size_t drawn = 0;
  for (const Track& track : cta.tracks) {
    for (const Slice& slice : track.slices) drawn += slice.what == What::kInstruction ? 1 : 0;
  }
  EXPECT_LE(drawn, 50u);
  EXPECT_TRUE(Json::accept(trace::to_json(*run.trace)));
}

TEST(Trace, AFailedLaunchShowsItsLastWaits) {
  const ScopedOptions scope({});
  Executor executor({4, 1});
  trace::Session session({});
  const std::string report = run(executor, {.grid = {1}, .block = {64}}, &never_arrives);
  EXPECT_NE(report.find("deadlock"), std::string::npos);
  const std::optional<Trace> traced = session.take();
  ASSERT_TRUE(traced.has_value());
  EXPECT_EQ(traced->report, report);
  const Slice& last = find_track(traced->ctas.at(0), "warp 1")->slices.back();
  EXPECT_TRUE(last.unfinished);
  EXPECT_TRUE(last.name.starts_with("waits: mbarrier.wait ")) << last.name;
  EXPECT_TRUE(last.name.ends_with(" phase 0")) << last.name;
  const std::string json = trace::to_json(*traced);
  EXPECT_NE(json.find("(never over)"), std::string::npos);
  EXPECT_TRUE(Json::accept(json));
}

TEST(Trace, AClusterSharesOneClock) {
  const ScopedOptions scope({});
  Executor executor({4, 1});
  trace::Request request;
  request.cta.reset();
  trace::Session session(request);
  EXPECT_EQ(run(executor, {.grid = {2}, .block = {32}, .cluster = {2}}, &hand_over), "");
  const std::optional<Trace> traced = session.take();
  ASSERT_TRUE(traced.has_value());
  ASSERT_EQ(traced->ctas.size(), 2u);
  for (const Cta& cta : traced->ctas) {
    expect_sound(cta);
    EXPECT_EQ(find_track(cta, "cluster barrier")->slices.size(), 2u);
  }
  // Block 1 arrives at block 0's mbarrier after some steps of its own; block 0 has waited for that.
  const auto& waiting = find_track(traced->ctas[0], "warp 0")->slices;
  const auto found = std::find_if(waiting.begin(), waiting.end(), [](const Slice& slice) {
    return slice.name.starts_with("waits: mbarrier.wait");
  });
  ASSERT_NE(found, waiting.end());
  const auto& arriving = find_track(traced->ctas[1], "warp 0")->slices;
  EXPECT_TRUE(std::any_of(arriving.begin(), arriving.end(), [&](const Slice& slice) {
    return slice.name.starts_with("mbarrier.arrive") && slice.end == found->end;
  }));
}

}  // namespace
}  // namespace rungs::emulator::testing
