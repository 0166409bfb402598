// What the tracer writes: Perfetto's JSON, held against its rules, and the picture.

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

class WrittenTraces : public ::testing::TestWithParam<Options> {};

TEST_P(WrittenTraces, JsonIsSound) {
  const PipelineRun run = trace_pipeline(GetParam());
  ASSERT_TRUE(run.trace.has_value());
  const Json json = Json::parse(trace::to_json(*run.trace));
  EXPECT_EQ(json["otherData"]["kernel"], "kernel_under_test");
  EXPECT_EQ(json["totals"]["mma_flops"], 2 * 64 * 64 * 384);

  using Place = std::pair<int, int>;  // pid, tid
  std::map<Place, std::string> named;
  std::set<int> blocks;
  std::map<Place, std::vector<std::pair<long, long>>> slices;
  std::map<long, std::pair<Place, long>> starts;
  std::map<long, std::pair<Place, long>> ends;
  std::map<std::string, std::pair<long, long>> counters;  // last time and value
  for (const Json& event : json["traceEvents"]) {
    const Place place{event["pid"], event["tid"]};
    const std::string type = event["ph"];
    if (type == "M") {
      if (event["name"] == "process_name") blocks.insert(place.first);
      if (event["name"] == "thread_name") named[place] = event["args"]["name"];
      continue;
    }
    EXPECT_TRUE(blocks.count(place.first) == 1);
    const long at = event["ts"];
    if (type == "X") {
      slices[place].emplace_back(at, at + event["dur"].get<long>());
      EXPECT_NE(event["name"], "");
    } else if (type == "s" || type == "f") {
      auto& side = type == "s" ? starts : ends;
      EXPECT_TRUE(side.emplace(event["id"], std::pair(place, at)).second) << "an id twice";
    } else if (type == "C") {
      auto& [last, value] = counters[event["name"]];
      EXPECT_GE(at, last);
      last = at;
      value = event["args"]["under way"];
      EXPECT_GE(value, 0);
    } else {
      EXPECT_EQ(type, "i");
    }
  }
  for (const auto& [place, list] : slices) {
    EXPECT_EQ(named.count(place), 1u) << "a track without a name";
    long at = 0;
    for (const auto& [begin, end] : list) {
      EXPECT_GE(begin, at) << named[place];
      EXPECT_GT(end, begin) << named[place];
      at = end;
    }
  }
  const auto inside = [&](const std::pair<Place, long>& point) {
    const auto& list = slices[point.first];
    return std::any_of(list.begin(), list.end(), [&](const auto& slice) {
      return slice.first <= point.second && point.second < slice.second;
    });
  };
  EXPECT_EQ(starts.size(), 36u);
  EXPECT_EQ(ends.size(), starts.size());
  for (const auto& [id, start] : starts) {
    ASSERT_EQ(ends.count(id), 1u);
    EXPECT_LE(start.second, ends[id].second);
    EXPECT_TRUE(inside(start)) << "arrow " << id << " starts outside of every slice";
    EXPECT_TRUE(inside(ends[id])) << "arrow " << id << " ends outside of every slice";
  }
  ASSERT_EQ(counters.size(), 2u);
  for (const auto& [name, last] : counters) EXPECT_EQ(last.second, 0) << name << " drains";
}

INSTANTIATE_TEST_SUITE_P(All, WrittenTraces,
                         ::testing::Values(Options{Async::kLate, 0, 45},
                                           Options{Async::kLate, 5, 45},
                                           Options{Async::kEarly, 0, 45},
                                           Options{Async::kRandom, 1, 45},
                                           Options{Async::kRandom, 2, 45}));

TEST(Trace, ThePictureIsWellFormed) {
  const PipelineRun run = trace_pipeline({Async::kRandom, 3, 45});
  ASSERT_TRUE(run.trace);
  const std::string svg = trace::to_svg(*run.trace, run.trace->ctas.at(0));
  // Every element is closed, and every bar lies inside the picture.
  std::vector<std::string> open;
  for (std::size_t at = svg.find('<'); at != std::string::npos; at = svg.find('<', at + 1)) {
    const std::size_t end = svg.find('>', at);
    ASSERT_NE(end, std::string::npos);
    const std::string tag = svg.substr(at + 1, end - at - 1);
    const std::string name = tag.substr(0, tag.find(' '));
    if (name.front() == '/') {
      ASSERT_FALSE(open.empty());
      EXPECT_EQ("/" + open.back(), name);
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(name);
    }
  }
  EXPECT_TRUE(open.empty());
  for (const char* text :
       {"warp 4", "copies", "warpgroup 0: groups", "M3  mbarrier", "phase 2", "random, seed 3"})
    EXPECT_NE(svg.find(text), std::string::npos) << text;
  EXPECT_TRUE(rungs::testing::has(rungs::testing::error_of([&] {
                                    static_cast<void>(trace::to_svg(*run.trace, run.trace->ctas[0],
                                                                    {.from = 9, .to = 9}));
                                  }),
                                  "shows nothing"));
}

}  // namespace
}  // namespace rungs::emulator::testing
