// Contexts of ranks that are processes, bytes at odd places, and calls in a captured graph.

#include "context_world.hpp"

#include <rungs/core/error.hpp>
#include <rungs/gpu/graph.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace rungs::symmetric {
namespace {

struct Path {
  const char* name;
  int nodes;
  bool map_peers;
  Network network;
};

class RanksOver : public ::testing::TestWithParam<Path> {
 protected:
  // The emulator always has a device. Asking for it would start threads before a test forks.
  void SetUp() override {
    if (RUNGS_GPU_CUDA != 0) RUNGS_NEEDS_DEVICE();
  }
  static ContextWorld world() {
    ContextWorld world;
    world.nodes = GetParam().nodes;
    world.options.map_peers = GetParam().map_peers;
    world.options.network = GetParam().network;
    world.options.heap_bytes = 1 << 18;
    return world;
  }
};
INSTANTIATE_TEST_SUITE_P(, RanksOver,
                         ::testing::Values(Path{"Mapped", 1, true, Network::kGpuInitiated},
                                           Path{"Proxy", 1, false, Network::kProxy},
                                           Path{"Queue", 1, false, Network::kGpuInitiated},
                                           Path{"QueueBetweenNodes", 2, true,
                                                Network::kGpuInitiated}),
                         [](const auto& each) { return std::string(each.param.name); });

// What rank `rank` sends in round `round`.
std::vector<std::uint8_t> bytes_of(int rank, std::uint64_t round, std::size_t count) {
  std::vector<std::uint8_t> bytes(count);
  std::uint64_t state = 1000 * round + static_cast<std::uint64_t>(rank) + 1;
  for (std::uint8_t& byte : bytes) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    byte = static_cast<std::uint8_t>(state >> 56);
  }
  return bytes;
}

// A put is the bytes asked for and no other, wherever both ends lie.
TEST_P(RanksOver, BytesAtOddPlaces) {
  EXPECT_EQ(
      in_context(world(),
                 [](ContextRank& me) {
                   Context& c = me.context;
                   constexpr std::size_t kRoom = 192;
                   auto* const from = c.allocate<std::uint8_t>(kRoom);
                   auto* const window = c.allocate<std::uint8_t>(kRoom);
                   auto* const got = c.allocate<std::uint8_t>(kRoom);
                   auto* const word = c.allocate<std::uint64_t>(1);
                   c.seal();
                   const int other = 1 - c.rank();
                   const std::vector<std::uint8_t> poison(kRoom, 0xee);
                   std::uint64_t round = 0;
                   // Distances of source and target from a boundary of 16 bytes.
                   const std::vector<std::pair<std::size_t, std::size_t>> places{
                       {0, 0}, {0, 1}, {1, 0}, {4, 8}, {3, 15}, {16, 4}};
                   for (const auto& [source, target] : places) {
                     for (const std::size_t bytes : {1u, 3u, 4u, 15u, 16u, 17u, 32u, 100u}) {
                       ++round;
                       me.write(from, bytes_of(c.rank(), round, kRoom));
                       me.write(window, poison);
                       me.write(got, poison);
                       me.group.barrier();
                       RUNGS_REQUIRE(
                           me.run({{Call::kPutSignal, other, window + target, from + source, bytes,
                                    word, round},
                                   {Call::kWait, other, nullptr, nullptr, 0, word, round},
                                   {Call::kGet, other, from + source, got + target, bytes}}) == 0,
                           "calls gave up");
                       const std::vector<std::uint8_t> sent = bytes_of(other, round, kRoom);
                       std::vector<std::uint8_t> want = poison;
                       std::copy_n(sent.begin() + static_cast<std::ptrdiff_t>(source), bytes,
                                   want.begin() + static_cast<std::ptrdiff_t>(target));
                       RUNGS_REQUIRE(me.read(window, kRoom) == want, "put of ", bytes,
                                     " bytes from ", source, " to ", target);
                       RUNGS_REQUIRE(me.read(got, kRoom) == want, "get of ", bytes, " bytes from ",
                                     source, " to ", target);
                       me.group.barrier();  // before anybody's poison
                     }
                   }
                 }),
      "");
}

// For ThreadSanitizer a fence with a relaxed add behind it is no release.
#if defined(RUNGS_SANITIZE_THREAD)
constexpr bool kAdds = false;
#else
constexpr bool kAdds = true;
#endif

// Rank 0's first thread is ahead of the others, rank 1 looks at once where the last thread stores
// last: it must not see a signal before that, neither when the source is written late nor when a
// long put takes its time.
TEST_P(RanksOver, TheSlowestThreadsStoresComeBeforeTheSignal) {
  EXPECT_EQ(
      in_context(world(),
                 [](ContextRank& me) {
                   Context& c = me.context;
                   constexpr std::size_t kBytes = 100'001;  // moved byte by byte
                   constexpr std::size_t kLook = 64;
                   auto* const from = c.allocate<std::uint8_t>(kBytes);
                   auto* const window = c.allocate<std::uint8_t>(kBytes);
                   auto* const got = c.allocate<std::uint8_t>(kLook);
                   auto* const word = c.allocate<std::uint64_t>(1);
                   c.seal();
                   for (std::uint64_t round = 1; round <= 18; ++round) {
                     const std::uint64_t late_ns = round <= 6 ? 1'000'000 : 0;
                     if (c.rank() == 0) {
                       std::vector<Step> steps{
                           {Call::kFill, 0, nullptr, from, kBytes, nullptr, 7 * round, late_ns}};
                       if (round % 3 == 0) {
                         steps.push_back({Call::kPutSignal, 1, window, from, kBytes, word, round});
                       } else {
                         steps.push_back({Call::kPut, 1, window, from, kBytes});
                         if (round % 3 == 1 || !kAdds)
                           steps.push_back({Call::kSet, 1, nullptr, nullptr, 0, word, round});
                         else
                           steps.push_back({Call::kAdd, 1, nullptr, nullptr, 0, word, 1});
                       }
                       steps.push_back({Call::kQuiet, 1});
                       RUNGS_REQUIRE(me.run(steps) == 0, "calls gave up");
                     } else {
                       constexpr std::size_t kLast = kBytes - kLook;
                       RUNGS_REQUIRE(me.run({{Call::kWait, 0, nullptr, nullptr, 0, word, round},
                                             {Call::kGet, 1, window + kLast, got, kLook}}) == 0,
                                     "calls gave up");
                       const std::vector<std::uint8_t> seen = me.read(got, kLook);
                       for (std::size_t i = 0; i < kLook; ++i) {
                         const auto want = static_cast<std::uint8_t>(7 * round + kLast + i);
                         RUNGS_REQUIRE(seen[i] == want, "round ", round, ": byte ", kLast + i,
                                       " is ", int{seen[i]}, ", not ", int{want},
                                       ", when its signal is seen");
                       }
                     }
                     me.group.barrier();
                   }
                 }),
      "");
}

// Several rounds of everything, by ranks that share no memory but what they map.
TEST_P(RanksOver, Processes) {
  if (RUNGS_GPU_CUDA != 0)
    return testing::skip(testing::Lack::kEmulator, "processes take turns on a GPU");
#if defined(RUNGS_SANITIZE_THREAD)
  if (::testing::UnitTest::GetInstance()->test_to_run_count() > 1)
    return testing::skip(
        testing::Lack::kOwnProcess,
        "a child of a process with threads may not start any; ctest runs it alone");
#endif
  const auto outcomes = outcomes_in_processes(world(), [](ContextRank& me) {
    Context& c = me.context;
    constexpr std::size_t kBytes = 30'001;
    auto* const from = c.allocate<std::uint8_t>(kBytes);
    auto* const window = c.allocate<std::uint8_t>(kBytes);
    auto* const got = c.allocate<std::uint8_t>(kBytes);
    auto* const words = c.allocate<std::uint64_t>(2);
    c.seal();
    const int other = 1 - c.rank();
    RUNGS_REQUIRE(!c.group().same_process(other), "the ranks are threads");
    const bool network = !GetParam().map_peers || GetParam().nodes > 1;
    RUNGS_REQUIRE(c.reach(other) == (network ? Reach::kNetwork : Reach::kMapped), "another way");
    for (std::uint64_t round = 1; round <= 5; ++round) {
      me.write(from, bytes_of(c.rank(), round, kBytes));
      RUNGS_REQUIRE(me.run({{Call::kPutSignal, other, window, from, kBytes, words, round},
                            {Call::kWait, other, nullptr, nullptr, 0, words, round},
                            {Call::kAdd, other, nullptr, nullptr, 0, words + 1, 2},
                            {Call::kGet, other, from, got, kBytes},
                            {Call::kBarrier}}) == 0,
                    "calls gave up");
      RUNGS_REQUIRE(me.read(window, kBytes) == bytes_of(other, round, kBytes), "put ", round);
      RUNGS_REQUIRE(me.read(got, kBytes) == bytes_of(other, round, kBytes), "get ", round);
      RUNGS_REQUIRE(me.read(words, 2)[1] == 2 * round, "add ", round);
      c.barrier(me.stream);
      c.synchronize(me.stream);
    }
    RUNGS_REQUIRE((c.wire().packets_sent > 0) == network, "the HCA sent ", c.wire().packets_sent,
                  " packets");
  });
  EXPECT_EQ(testing::failures(outcomes), "");
}

// A graph holds its arguments: what changes from replay to replay, the steps' values and the
// barrier's epoch, lies in memory that the kernels read.
TEST_P(RanksOver, ACapturedGraphIsReplayed) {
  constexpr std::uint64_t kReplays = 20;
  EXPECT_EQ(in_context(world(),
                       [](ContextRank& me) {
                         Context& c = me.context;
                         constexpr std::size_t kBytes = 1000;
                         auto* const from = c.allocate<std::uint8_t>(kBytes);
                         auto* const window = c.allocate<std::uint8_t>(kBytes);
                         auto* const words = c.allocate<std::uint64_t>(2);
                         c.seal();
                         const int other = 1 - c.rank();
                         Step* const steps = me.script.data();
                         steps[0] = {Call::kPutSignal, other, window, from, kBytes, words, 0};
                         steps[1] = {Call::kWait, other, nullptr, nullptr, 0, words, 0};
                         steps[2] = {Call::kAdd, other, nullptr, nullptr, 0, words + 1, 1};
                         steps[3] = {Call::kBarrier};
                         *me.gave_up.data() = 0;
                         const gpu::Graph graph = gpu::Graph::capture(me.stream, [&] {
                           launch_script(c.on_device(), steps, 4, me.gave_up.data(), me.stream);
                           c.barrier(me.stream);
                         });
                         me.group.barrier();
                         RUNGS_REQUIRE(me.read(words, 2)[1] == 0, "the capture ran");
                         for (std::uint64_t replay = 1; replay <= kReplays; ++replay) {
                           steps[0].value = steps[1].value = replay;
                           me.write(from, bytes_of(c.rank(), replay, kBytes));
                           me.group.barrier();
                           graph.replay(me.stream);
                           c.synchronize(me.stream);
                           RUNGS_REQUIRE(*me.gave_up.data() == 0, "calls gave up");
                           const std::vector<std::uint64_t> seen = me.read(words, 2);
                           RUNGS_REQUIRE(seen[0] == replay && seen[1] == replay, "replay ", replay,
                                         ": ", seen[0], " set, ", seen[1], " added");
                           RUNGS_REQUIRE(me.read(window, kBytes) == bytes_of(other, replay, kBytes),
                                         "replay ", replay, ": other bytes");
                           me.group.barrier();
                         }
                       }),
            "");
}

}  // namespace
}  // namespace rungs::symmetric
