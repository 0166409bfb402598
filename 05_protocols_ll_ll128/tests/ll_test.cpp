/// LL under stage 04's algorithms: the oracle of that stage over collectives, ranks, counts, dtypes
/// and operators; beside Simple on the same links; when flags come again; when a rank is missing.

#include "../../04_collectives_ring_tree/tests/case.hpp"

#include <rungs/protocols/kernel_table.hpp>

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

namespace rungs::protocols {
namespace {

using collectives::Case;
using collectives::Collective;
using collectives::Op;
using collectives::ProtocolId;
using collectives::Rank;
using collectives::WorldOptions;

constexpr std::array kAll{Collective::kAllReduce, Collective::kAllGather,
                          Collective::kReduceScatter, Collective::kBroadcast,
                          Collective::kAllToAll};
constexpr std::array kTypes{DType::kF32, DType::kBf16, DType::kI32};
constexpr std::array kOps{Op::kSum, Op::kMax, Op::kAvg};

// User bytes in a slot: half of it, the rest is flags.
std::size_t payload_bytes() {
  for (const collectives::KernelEntry& entry : kernel_table()) {
    if (entry.protocol == ProtocolId::kLl) return entry.payload_bytes;
  }
  return 0;
}

WorldOptions ll_world() {
  WorldOptions options;
  options.table = kernel_table();
  options.protocol = ProtocolId::kLl;
  return options;
}

// The number-th sample of dtypes, operators, alignment and in-place calls.
Case sample(Collective what, std::size_t count, std::size_t number, int ranks) {
  Case c;
  c.what = what;
  c.count = count;
  c.dtype = kTypes[number % 3];
  c.op = kOps[number / 3 % 3];
  c.root = static_cast<int>(number) % ranks;
  c.in_place = number % 2 == 1 && what != Collective::kAllToAll;
  c.shift = number % 4 == 3 ? 1 : 0;
  c.integers = number % 5 < 2;
  c.seed = number + 1;
  return c;
}

class LlOverRanks : public ::testing::TestWithParam<int> {};

TEST_P(LlOverRanks, MatchesTheOracle) {
  const int ranks = GetParam();
  RUNGS_NEEDS_RANKS(ranks);
  const std::size_t slot = payload_bytes() / sizeof(float);
  ASSERT_GT(slot, 0u);
  EXPECT_EQ(collectives::in_threads(ranks, ll_world(),
                                    [&](Rank& rank) {
                                      auto number = static_cast<std::size_t>(ranks);
                                      for (const Collective what : kAll) {
                                        for (const std::size_t count :
                                             {std::size_t{0}, std::size_t{1}, std::size_t{7},
                                              slot - 1, slot, 2 * slot + 1, 9 * slot + 33}) {
                                          run_case(rank, sample(what, count, number++, ranks));
                                        }
                                      }
                                    }),
            "");
}

INSTANTIATE_TEST_SUITE_P(, LlOverRanks, ::testing::Values(1, 2, 3, 4, 5, 8),
                         [](const auto& tested) { return concat(tested.param, "_ranks"); });

TEST(Ll, RanksAreProcesses) {
  if (RUNGS_GPU_CUDA != 0)
    return testing::skip(testing::Lack::kEmulator, "processes take turns on a GPU");
#if defined(RUNGS_SANITIZE_THREAD)
  if (::testing::UnitTest::GetInstance()->test_to_run_count() > 1)
    return testing::skip(
        testing::Lack::kOwnProcess,
        "a child of a process with threads may not start any; ctest runs it alone");
#endif
  EXPECT_EQ(collectives::in_processes(3, ll_world(),
                                      [](Rank& rank) {
                                        std::size_t number = 0;
                                        for (const Collective what : kAll)
                                          run_case(rank, sample(what, 1543, number++, 3));
                                      }),
            "");
}

// Both protocols count the same steps of the same links: any mixture must work.
TEST(Ll, TakesTurnsWithSimpleOnOneCommunicator) {
  RUNGS_NEEDS_RANKS(3);
  class TakingTurns final : public collectives::Tuner {
   public:
    [[nodiscard]] collectives::Choice choose(const collectives::Question& question,
                                             collectives::KernelTable table,
                                             int max_channels) const override {
      // By size, so that all ranks agree.
      const ProtocolId wanted =
          question.size_bytes / 4 % 2 == 0 ? ProtocolId::kSimple : ProtocolId::kLl;
      return collectives::fixed_tuner("ring", wanted, max_channels)
          ->choose(question, table, max_channels);
    }
  };
  WorldOptions options = ll_world();
  options.tuner = std::make_shared<TakingTurns>();
  EXPECT_EQ(collectives::in_threads(3, options,
                                    [](Rank& rank) {
                                      for (std::size_t number = 0; number < 24; ++number) {
                                        Case c = sample(kAll[number % 5], 900 + number, number, 3);
                                        c.dtype = DType::kF32;
                                        run_case(rank, c);
                                      }
                                    }),
            "");
}

TEST(Ll, AMissingRankIsNamed) {
  RUNGS_NEEDS_RANKS(2);
  WorldOptions options = ll_world();
  options.timeout_seconds = 0.5;
  const auto outcomes = collectives::outcomes_of_threads(2, options, [](Rank& rank) {
    Case c;
    c.count = 4000;
    run_case(rank, c);
    if (rank.group.rank() == 1) {
      wait_until([&] { return rank.communicator.async_error().has_value(); }, Deadline::standard(),
                 [] { return std::string("rank 0 to give up"); });
      return;
    }
    const collectives::Operands operands = prepare(rank, c);
    enqueue(rank, c, operands);
    rank.communicator.synchronize(rank.stream);
  });
  ASSERT_FALSE(outcomes[0].ok);
  for (const char* part : {"rank 1", "all_reduce", "step", "expected", "seen"})
    EXPECT_NE(outcomes[0].text.find(part), std::string::npos)
        << part << " in: " << outcomes[0].text;
}

}  // namespace
}  // namespace rungs::protocols
