/// The same results under other rings, other machines, in graphs, with ranks that share a device or
/// are processes of their own.

#include "case.hpp"

#include <rungs/gpu/graph.hpp>
#include <rungs/testing/compare.hpp>
#include <rungs/testing/rerun.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

namespace rungs::collectives {
namespace {

constexpr std::array kAll{Collective::kAllReduce, Collective::kAllGather,
                          Collective::kReduceScatter, Collective::kBroadcast,
                          Collective::kAllToAll};

// One case of each collective; several slots, an odd count.
void run_all(Rank& rank, std::size_t count = 1543) {
  std::uint64_t seed = 100;
  for (const Collective what : kAll) {
    Case c;
    c.what = what;
    c.dtype = seed % 2 == 0 ? DType::kF32 : DType::kBf16;
    c.op = Op::kAvg;
    c.count = count;
    c.root = rank.group.size() - 1;
    c.seed = seed++;
    run_case(rank, c);
  }
}

TEST(Variants, RingsInOtherOrders) {
  RUNGS_NEEDS_RANKS(4);
  WorldOptions options;
  options.channels = 3;
  options.rings = {{0, 1, 2, 3}, {3, 1, 0, 2}, {2, 3, 1, 0}};
  EXPECT_EQ(in_threads(4, options, [](Rank& rank) { run_all(rank); }), "");
}

TEST(Variants, RanksShareOneDevice) {
  const int ranks = RUNGS_GPU_CUDA != 0 ? 2 : 4;
  RUNGS_NEEDS_DEVICE();
  for (const char* algorithm : {"ring", "root"}) {
    WorldOptions options;
    options.algorithm = algorithm;
    options.share_device = true;
    EXPECT_EQ(in_threads(ranks, options,
                         [](Rank& rank) {
                           if (!rank.communicator.surroundings().same_device)
                             rank.note("surroundings() do not say that the device is shared");
                           run_all(rank);
                         }),
              "")
        << algorithm;
  }
}

TEST(Variants, RanksAreProcesses) {
  if (RUNGS_GPU_CUDA != 0)
    return testing::skip(testing::Lack::kEmulator, "processes take turns on a GPU");
  for (const char* algorithm : {"ring", "root"}) {
    WorldOptions options;
    options.algorithm = algorithm;
    EXPECT_EQ(in_processes(3, options, [](Rank& rank) { run_all(rank); }), "") << algorithm;
  }
}

TEST(Variants, DefaultOptionsAndLargeData) {
  RUNGS_NEEDS_RANKS(2);
  WorldOptions options;
  options.channels = 0;
  options.slot_bytes = 0;
  options.area_bytes = std::size_t{8} << 20;
  EXPECT_EQ(in_threads(2, options, [](Rank& rank) { run_all(rank, (std::size_t{1} << 18) + 5); }),
            "");
}

TEST(Variants, TwoCommunicatorsOfOneGroup) {
  RUNGS_NEEDS_RANKS(2);
  EXPECT_EQ(in_threads(2, {},
                       [](Rank& rank) {
                         Rank other(rank.group, {});
                         run_all(other);
                         run_all(rank);
                         rank.note(other.problems);
                       }),
            "");
}

TEST(Variants, SameBitsInEveryRun) {
  RUNGS_NEEDS_RANKS(3);
  EXPECT_EQ(in_threads(3, {},
                       [](Rank& rank) {
                         Case c;
                         c.dtype = DType::kBf16;
                         c.count = 5000;
                         std::vector<std::byte> first;
                         for (int run = 0; run < 3; ++run) {
                           const Operands operands = prepare(rank, c);
                           enqueue(rank, c, operands);
                           rank.communicator.synchronize(rank.stream);
                           std::vector<std::byte> bits(c.count * 2);
                           gpu::copy_async(bits.data(), operands.recv, bits.size(), rank.stream);
                           rank.stream.synchronize();
                           if (run == 0) first = bits;
                           if (bits != first) rank.note("other bits than in the first run");
                         }
                       }),
            "");
}

// The cost model, counted: 16 slots of data on 4 ranks.
TEST(Variants, TheRingSparesTheBusiestLinks) {
  RUNGS_NEEDS_RANKS(4);
  using Sent = std::vector<std::uint64_t>;
  for (const bool ring : {false, true}) {
    WorldOptions options;
    options.algorithm = ring ? "ring" : "root";
    options.channels = 1;
    EXPECT_EQ(
        in_threads(4, options,
                   [&](Rank& rank) {
                     Case c;
                     c.count = 16 * options.slot_bytes / sizeof(float);
                     run_case(rank, c);
                     const int me = rank.group.rank();
                     Sent want(4, 0);
                     if (ring) {
                       want[static_cast<std::size_t>((me + 1) % 4)] = 24;  // 2 · 16 · 3/4
                     } else if (me == 0) {
                       want = {0, 16, 16, 16};
                     } else {
                       want[0] = 16;
                     }
                     const Sent got = rank.communicator.slots_sent();
                     if (got != want)
                       rank.note(concat("sent ", got[0], " ", got[1], " ", got[2], " ", got[3]));
                   }),
        "")
        << options.algorithm;
  }
}

// NaN and infinities as reduce_device.hpp states them.
TEST(Variants, SpecialValues) {
  RUNGS_NEEDS_RANKS(2);
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<std::vector<float>> inputs{{nan, inf, inf, 1, -0.0f, nan},
                                               {1, 1, -inf, nan, -0.0f, inf}};
  EXPECT_EQ(in_threads(2, {},
                       [&](Rank& rank) {
                         const std::vector<float>& mine =
                             inputs[static_cast<std::size_t>(rank.group.rank())];
                         const std::size_t size = mine.size() * sizeof(float);
                         for (const Op op : {Op::kSum, Op::kMax}) {
                           gpu::copy_async(rank.send.data(), mine.data(), size, rank.stream);
                           rank.communicator.all_reduce(rank.send.data(), rank.recv.data(),
                                                        mine.size(), DType::kF32, op, rank.stream);
                           std::vector<float> got(mine.size());
                           rank.communicator.synchronize(rank.stream);
                           gpu::copy_async(got.data(), rank.recv.data(), size, rank.stream);
                           rank.stream.synchronize();
                           const bool sum = op == Op::kSum;
                           const bool right = std::isnan(got[0]) && got[1] == inf &&
                                              (sum ? std::isnan(got[2]) : got[2] == inf) &&
                                              std::isnan(got[3]) && got[4] == 0 &&
                                              std::signbit(got[4]) && std::isnan(got[5]);
                           if (!right) rank.note(concat("wrong after ", to_string(op)));
                         }
                       }),
            "");
}

// Replays go on where the last launch of the links ended, eager calls between them included.
TEST(Variants, GraphsAreCapturedAndReplayed) {
  RUNGS_NEEDS_RANKS(3);
  EXPECT_EQ(
      in_threads(3, {},
                 [](Rank& rank) {
                   Case reduce;
                   reduce.count = 3000;
                   reduce.in_place = true;
                   Case spread;
                   spread.what = Collective::kBroadcast;
                   spread.dtype = DType::kI32;
                   spread.count = 700;
                   spread.root = 1;
                   Operands operands = prepare(rank, reduce);
                   const gpu::Graph graph =
                       gpu::Graph::capture(rank.stream, [&] { enqueue(rank, reduce, operands); });
                   for (std::uint64_t seed = 1; seed <= 5; ++seed) {
                     reduce.seed = spread.seed = seed;
                     prepare(rank, reduce);
                     graph.replay(rank.stream);
                     rank.communicator.synchronize(rank.stream);
                     compare(rank, reduce, operands);
                     if (seed % 2 == 0) run_case(rank, spread);
                   }
                   // Several replays without a pause: each adds up what the last one left.
                   prepare(rank, reduce);
                   for (int i = 0; i < 3; ++i) graph.replay(rank.stream);
                   rank.communicator.synchronize(rank.stream);
                   std::vector<float> got(reduce.count);
                   gpu::copy_async(got.data(), operands.recv, got.size() * sizeof(float),
                                   rank.stream);
                   rank.stream.synchronize();
                   const Expected once = expected(reduce, rank.group.rank(), 3);
                   for (std::size_t i = 0; i < got.size(); ++i) {
                     // Twice three equal terms more, each addition rounds.
                     const double magnitude = 9 * 3;
                     if (!(std::abs(got[i] - 9 * once.values[i]) <= 6 * 0x1p-24 * magnitude)) {
                       rank.note(concat("three replays: element ", i, " is ", got[i], ", want ",
                                        9 * once.values[i]));
                       break;
                     }
                   }
                 }),
      "");
}

#if !RUNGS_GPU_CUDA

/// The environment is read when an emulated device is made: a process for each setting.
class Machines : public ::testing::TestWithParam<std::string> {};

TEST_P(Machines, Hold) {
  const testing::Rerun run = testing::rerun_self(
      GetParam(), "Variants.RanksShareOneDevice:Collectives.MatchTheOracle/*_3");
  EXPECT_EQ(run.status, 0) << "rerun: " << run.command << "\n" << run.output;
  EXPECT_NE(run.output.find("3 tests from 2 test suites ran"), std::string::npos) << run.output;
}

INSTANTIATE_TEST_SUITE_P(Emulator, Machines,
                         ::testing::Values("RUNGS_EMULATED_SMS=1", "RUNGS_EMULATED_SMS=7",
                                           "RUNGS_EMULATED_SMS=1 RUNGS_EMULATOR_WORKERS=1",
                                           "RUNGS_EMULATOR_SEED=1", "RUNGS_EMULATOR_SEED=2"),
                         [](const auto& tested) {
                           std::string name;
                           for (const char c : tested.param) {
                             if (std::isalnum(static_cast<unsigned char>(c)) != 0) name += c;
                           }
                           return name;
                         });

#endif

}  // namespace
}  // namespace rungs::collectives
