/// symmetric::AllReduce over pretend nodes: against an oracle in double, the same bits on every
/// rank, eager and replayed, in threads and in processes, and when a rank dies.

#include "all_reduce_world.hpp"

#include <rungs/gpu/graph.hpp>
#include <rungs/testing/errors.hpp>
#include <rungs/testing/gpu_test.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <string>
#include <vector>

namespace rungs::symmetric::all_reduce_test {
namespace {

using testing::error_of;
using testing::has;

#define RUNGS_NEEDS_WORLD(world) RUNGS_NEEDS_RANKS((world).ranks())

class AllReduceOver : public ::testing::TestWithParam<std::string> {};

// One node; two nodes of two, ranks in order and mixed; three; four nodes of one.
TEST_P(AllReduceOver, MatchesTheOracle) {
  World world;
  world.hosts = GetParam();
  RUNGS_NEEDS_WORLD(world);
  EXPECT_EQ(
      in_threads(
          world,
          [&](Rank& rank) {
            std::uint64_t seed = 1;
            // Around where a call is divided among a node's ranks and into blocks.
            for (const std::size_t count : {0, 1, 2, 33, 4095, 4096, 4097, 4103, 12'345, 40'000}) {
              run(rank, seed, count, seed % 3 == 0 ? 1.0f : 0.3f);
              seed++;
            }
            // Long and short in turns, without waiting between them.
            fill(rank, 2, 40'000);
            for (const std::size_t count : {40'000, 5, 5000, 40'000, 1})
              rank.all_reduce.sum(rank.data(), count, 0.5f, rank.stream);
            rank.synchronize();
            const auto ranks = static_cast<double>(rank.group.size());
            const std::vector<float> got = rank.area.download(rank.stream);
            for (const std::size_t i : {0, 1, 4, 5, 4999, 5000, 39'999}) {
              double want = 0;
              for (int r = 0; r < rank.group.size(); ++r) want += value_of(2, r, i);
              // The first call makes all ranks equal; each further one that has the
              // element multiplies it by ranks / 2: exact in powers of two, else
              // rounded ranks times a call.
              const int further = i < 1 ? 4 : i < 5 ? 3 : i < 5000 ? 2 : 1;
              want *= 0.5 * std::pow(ranks / 2, further);
              const double bound = 5 * ranks * 0x1p-23 * std::abs(want);
              if (!(std::abs(got[kGuard + i] - want) <= bound))
                rank.note(
                    concat("in turns: element ", i, " is ", got[kGuard + i], ", want ", want));
            }
          }),
      "");
}

INSTANTIATE_TEST_SUITE_P(, AllReduceOver,
                         ::testing::Values("a", "aa", "aaaa", "ab", "aabb", "abba", "ababab",
                                           "abcd"),
                         [](const auto& tested) { return tested.param; });

// The proxy instead of the kernel posts what goes over the network.
TEST(AllReduce, OverTheProxy) {
  World world;
  world.hosts = "aabb";
  world.network = Network::kProxy;
  RUNGS_NEEDS_WORLD(world);
  EXPECT_EQ(in_threads(world,
                       [](Rank& rank) {
                         for (std::uint64_t seed = 1; seed <= 4; ++seed)
                           run(rank, seed, 10'000 * seed - 3, 0.25f);
                       }),
            "");
}

class AllReduceReplayed : public ::testing::TestWithParam<std::string> {};

// 20 replays give the bits of 20 eager calls. Two calls in a graph, of which the second adds up
// what the first left, and an eager one between some replays.
TEST_P(AllReduceReplayed, HasTheSameBits) {
  World world;
  world.hosts = GetParam();
  RUNGS_NEEDS_WORLD(world);
  EXPECT_EQ(in_threads(world,
                       [](Rank& rank) {
                         constexpr std::size_t kCount = 9'999;
                         const auto enqueue = [&] {
                           rank.all_reduce.sum(rank.data(), kCount, 0.25f, rank.stream);
                           rank.all_reduce.sum(rank.data(), 100, 0.25f, rank.stream);
                         };
                         std::vector<std::vector<float>> eager;
                         for (std::uint64_t seed = 1; seed <= 20; ++seed) {
                           fill(rank, seed, kCount);
                           enqueue();
                           rank.synchronize();
                           eager.push_back(rank.area.download(rank.stream));
                         }
                         const gpu::Graph graph = gpu::Graph::capture(rank.stream, enqueue);
                         for (std::uint64_t seed = 1; seed <= 20; ++seed) {
                           fill(rank, seed, kCount);
                           graph.replay(rank.stream);
                           rank.synchronize();
                           rank.note(testing::first_bit_difference(
                               rank.area.download(rank.stream),
                               eager[static_cast<std::size_t>(seed) - 1]));
                           if (seed % 6 == 0) run(rank, seed, 777, 1);
                         }
                         // Without the host between them.
                         fill(rank, 2, kCount);
                         for (int i = 0; i < 20; ++i) graph.replay(rank.stream);
                         rank.synchronize();
                         const float first = rank.area.download(rank.stream)[kGuard + 500];
                         double want = 0;
                         for (int r = 0; r < rank.group.size(); ++r) want += value_of(2, r, 500);
                         want *= 0.25 * std::pow(rank.group.size() / 4.0, 19);  // exact
                         if (!(first == want))
                           rank.note(concat("20 replays: ", first, ", want ", want));
                       }),
            "");
}

INSTANTIATE_TEST_SUITE_P(, AllReduceReplayed, ::testing::Values("aa", "aabb", "abcd"),
                         [](const auto& tested) { return tested.param; });

TEST(AllReduce, RanksAreProcesses) {
  if (RUNGS_GPU_CUDA != 0)
    return testing::skip(testing::Lack::kEmulator, "processes take turns on a GPU");
#if defined(RUNGS_SANITIZE_THREAD)
  if (::testing::UnitTest::GetInstance()->test_to_run_count() > 1)
    return testing::skip(
        testing::Lack::kOwnProcess,
        "a child of a process with threads may not start any; ctest runs it alone");
#endif
  World world;
  world.hosts = "aabb";
  EXPECT_EQ(testing::failures(outcomes_of_processes(world,
                                                    [](Rank& rank) {
                                                      run(rank, 1, 1, 0.25f);
                                                      run(rank, 2, 20'001, 0.25f);
                                                      run(rank, 3, 40'000, 1);
                                                    })),
            "");
}

// In a call that rank 3 never makes the others wait inside their nodes and between them.
TEST(AllReduce, AKilledRankEndsAll) {
  if (RUNGS_GPU_CUDA != 0)
    return testing::skip(testing::Lack::kEmulator, "processes take turns on a GPU");
#if defined(RUNGS_SANITIZE_THREAD)
  if (::testing::UnitTest::GetInstance()->test_to_run_count() > 1)
    return testing::skip(
        testing::Lack::kOwnProcess,
        "a child of a process with threads may not start any; ctest runs it alone");
#endif
  World world;
  world.hosts = "aabb";
  world.timeout_seconds = 30;
  const auto began = std::chrono::steady_clock::now();
  const auto outcomes = outcomes_of_processes(world, [](Rank& rank) {
    run(rank, 1, 5000, 1);
    fill(rank, 2, 5000);
    if (rank.group.rank() == 3) {
      for (const int other : {0, 1, 2}) static_cast<void>(rank.group.receive(other, 1));
      std::raise(SIGKILL);
    }
    rank.all_reduce.sum(rank.data(), 5000, 1, rank.stream);
    rank.group.send(3, 1, {});
    const std::string text = error_of([&] { rank.synchronize(); });
    // Rank 2 may hear it in its node first, where rank 3 is rank 1.
    const bool there = rank.group.rank() == 2 && has(text, "counted from 0 there: rank 1 was lost");
    if (!has(text, "PeerLost") || !(there || has(text, "rank 3 died"))) rank.note(text);
  });
  for (const int rank : {0, 1, 2})
    EXPECT_EQ(outcomes[static_cast<std::size_t>(rank)].text, "") << "rank " << rank;
  EXPECT_TRUE(has(outcomes[3].text, "killed by signal 9")) << outcomes[3].text;
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  EXPECT_LT(took.count(), 20 * timeout_scale());  // noticed, not waited for
}

TEST(AllReduce, ARankThatThrowsEndsAll) {
  World world;
  world.hosts = "abba";
  world.timeout_seconds = 30;
  RUNGS_NEEDS_WORLD(world);
  const auto outcomes = outcomes_of_threads(world, [](Rank& rank) {
    run(rank, 1, 5000, 1);
    if (rank.group.rank() == 1) RUNGS_THROW(kUnsupported, "tired");
    rank.all_reduce.sum(rank.data(), 5000, 1, rank.stream);
    rank.synchronize();
  });
  EXPECT_TRUE(has(outcomes[1].text, "tired")) << outcomes[1].text;
  for (const int rank : {0, 2, 3}) {
    const std::string& text = outcomes[static_cast<std::size_t>(rank)].text;
    EXPECT_TRUE(has(text, "PeerLost")) << "rank " << rank << ": " << text;
  }
}

TEST(AllReduce, WrongUseIsRefused) {
  {
    World world;
    world.hosts = "aab";
    RUNGS_NEEDS_WORLD(world);
    const bootstrap::Root root({.ranks = 3, .interface_or_address = "127.0.0.1"});
    EXPECT_EQ(testing::failures(testing::run_threads(
                  3,
                  [&](int rank) {
                    bootstrap::GroupOptions options;
                    options.host_id = world.host_of(rank);
                    bootstrap::Group group(root.id(), rank, 3, options);
                    const gpu::Device device = gpu::Device::open(rank % gpu::Device::count());
                    Context context(group, device, {.heap_bytes = 1 << 20});
                    const std::string text = error_of([&] { AllReduce refused(context, 100); });
                    if (!has(text, "InvalidArgument") || !has(text, "nodes differ in size") ||
                        !has(text, "ranks 0, 1 are on one host, ranks 2 on another"))
                      RUNGS_THROW(kInternal, text);
                    group.barrier();
                  })),
              "");
  }
  World world;
  world.hosts = "aa";
  world.max_count = 100;
  RUNGS_NEEDS_WORLD(world);
  EXPECT_EQ(in_threads(world,
                       [](Rank& rank) {
                         const auto says = [&](float* data, std::size_t count, const char* what) {
                           const std::string text =
                               error_of([&] { rank.all_reduce.sum(data, count, 1, rank.stream); });
                           if (!has(text, "InvalidArgument") || !has(text, what)) rank.note(text);
                         };
                         says(rank.data(), 101, "count = 101; made for at most 100");
                         says(nullptr, 1, "data is null");
                         says(reinterpret_cast<float*>(reinterpret_cast<char*>(rank.data()) + 2), 1,
                              "is not aligned");
                         run(rank, 1, 100, 1);
                       }),
            "");
  EXPECT_TRUE(has(error_of([] { static_cast<void>(AllReduce::heap_bytes(100, 3, 2)); }),
                  "3 ranks do not make 2 nodes of one size"));
  EXPECT_EQ(AllReduce::heap_bytes(100, 4, 1), 0u);
}

}  // namespace
}  // namespace rungs::symmetric::all_reduce_test
