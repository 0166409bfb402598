/// The one-shot all-reduce under stage 04's oracle: ranks, counts, dtypes and operators; in turns
/// with the ring on the same links; in a graph; when a rank is missing; when the tuner takes it.

#include "../../04_collectives_ring_tree/tests/case.hpp"

#include <rungs/core/error.hpp>
#include <rungs/gpu/graph.hpp>
#include <rungs/symmetric/kernel_table.hpp>
#include <rungs/testing/scoped_env.hpp>

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

namespace rungs::symmetric {
namespace {

using collectives::Case;
using collectives::Collective;
using collectives::KernelEntry;
using collectives::Op;
using collectives::ProtocolId;
using collectives::Question;
using collectives::Rank;
using collectives::WorldOptions;

constexpr std::array kTypes{DType::kF32, DType::kBf16, DType::kI32};
constexpr std::array kOps{Op::kSum, Op::kMax, Op::kAvg};

// Elements of f32 that one slot carries.
std::size_t slot_elements() {
  for (const KernelEntry& entry : kernel_table()) {
    if (entry.protocol == ProtocolId::kSymmetric) return entry.payload_bytes / sizeof(float);
  }
  return 0;
}

WorldOptions one_shot_world() {
  WorldOptions options;
  options.table = kernel_table();
  options.algorithm = "one_shot";
  options.protocol = ProtocolId::kSymmetric;
  return options;
}

// The number-th sample of dtypes, operators, alignment and in-place calls.
Case sample(std::size_t count, std::size_t number) {
  Case c;
  c.count = count;
  c.dtype = kTypes[number % 3];
  c.op = kOps[number / 3 % 3];
  c.in_place = number % 2 == 1;
  c.shift = number % 4 == 3 ? 1 : 0;
  c.integers = number % 5 < 2;
  c.seed = number + 1;
  return c;
}

class OneShotOverRanks : public ::testing::TestWithParam<int> {};

TEST_P(OneShotOverRanks, MatchesTheOracle) {
  const int ranks = GetParam();
  RUNGS_NEEDS_RANKS(ranks);
  const std::size_t slot = slot_elements();
  ASSERT_GT(slot, 0u);
  EXPECT_EQ(collectives::in_threads(
                ranks, one_shot_world(),
                [&](Rank& rank) {
                  std::size_t number = 0;
                  for (const std::size_t count : {0, 1, 3, 7, 64, 129, 1000}) {
                    for (int i = 0; i < 9; ++i) run_case(rank, sample(count, number++));
                  }
                  // Around a slot, and more slots than a link has.
                  for (const std::size_t count : {slot - 1, slot, 2 * slot + 1, 18 * slot + 33})
                    run_case(rank, sample(count, number++));
                }),
            "");
}

INSTANTIATE_TEST_SUITE_P(, OneShotOverRanks, ::testing::Values(1, 2, 3, 4, 5, 8),
                         [](const auto& tested) { return concat(tested.param, "_ranks"); });

// All protocols count the same steps of the same links: any mixture must work.
TEST(OneShot, TakesTurnsWithTheRing) {
  RUNGS_NEEDS_RANKS(3);
  class TakingTurns final : public collectives::Tuner {
   public:
    [[nodiscard]] collectives::Choice choose(const Question& question,
                                             collectives::KernelTable table,
                                             int max_channels) const override {
      // By size, so that all ranks agree.
      const std::size_t turn = question.size_bytes / 4 % 3;
      const ProtocolId wanted = turn == 0   ? ProtocolId::kSimple
                                : turn == 1 ? ProtocolId::kLl
                                            : ProtocolId::kSymmetric;
      return collectives::fixed_tuner(turn == 2 ? "one_shot" : "ring", wanted, max_channels)
          ->choose(question, table, max_channels);
    }
  };
  WorldOptions options = one_shot_world();
  options.tuner = std::make_shared<TakingTurns>();
  EXPECT_EQ(collectives::in_threads(3, options,
                                    [](Rank& rank) {
                                      for (std::size_t number = 0; number < 30; ++number) {
                                        Case c = sample(900 + number * number, number);
                                        c.dtype = DType::kF32;
                                        run_case(rank, c);
                                      }
                                    }),
            "");
}

// Nothing that a launch is given says which step of the links it begins at.
TEST(OneShot, IsCapturedAndReplayed) {
  RUNGS_NEEDS_RANKS(2);
  EXPECT_EQ(collectives::in_threads(2, one_shot_world(),
                                    [](Rank& rank) {
                                      Case c = sample(3001, 2);
                                      const collectives::Operands operands = prepare(rank, c);
                                      const gpu::Graph graph = gpu::Graph::capture(
                                          rank.stream, [&] { enqueue(rank, c, operands); });
                                      for (c.seed = 1; c.seed <= 20; ++c.seed) {
                                        prepare(rank, c);
                                        graph.replay(rank.stream);
                                        rank.communicator.synchronize(rank.stream);
                                        compare(rank, c, operands);
                                        if (c.seed % 7 == 0) run_case(rank, sample(77, c.seed));
                                      }
                                    }),
            "");
}

TEST(OneShot, RanksAreProcesses) {
  if (RUNGS_GPU_CUDA != 0)
    return testing::skip(testing::Lack::kEmulator, "processes take turns on a GPU");
#if defined(RUNGS_SANITIZE_THREAD)
  if (::testing::UnitTest::GetInstance()->test_to_run_count() > 1)
    return testing::skip(
        testing::Lack::kOwnProcess,
        "a child of a process with threads may not start any; ctest runs it alone");
#endif
  EXPECT_EQ(collectives::in_processes(3, one_shot_world(),
                                      [](Rank& rank) {
                                        for (std::size_t number = 0; number < 9; ++number)
                                          run_case(rank, sample(1543, number));
                                      }),
            "");
}

// The cost model, counted: everybody sends the whole once to everybody.
TEST(OneShot, SendsTheWholeToEachPeer) {
  RUNGS_NEEDS_RANKS(4);
  WorldOptions options = one_shot_world();
  options.channels = 1;
  EXPECT_EQ(collectives::in_threads(4, options,
                                    [](Rank& rank) {
                                      Case c;
                                      c.count = 3 * slot_elements();
                                      run_case(rank, c);
                                      std::vector<std::uint64_t> want(4, 3);
                                      want[static_cast<std::size_t>(rank.group.rank())] = 0;
                                      if (rank.communicator.slots_sent() != want)
                                        rank.note("other numbers of slots");
                                    }),
            "");
}

TEST(OneShot, AMissingRankIsNamed) {
  RUNGS_NEEDS_RANKS(3);
  WorldOptions options = one_shot_world();
  options.timeout_seconds = 0.5;
  const auto outcomes = collectives::outcomes_of_threads(3, options, [](Rank& rank) {
    Case c;
    c.count = 4000;
    run_case(rank, c);
    if (rank.group.rank() == 1) {
      wait_until([&] { return rank.communicator.async_error().has_value(); }, Deadline::standard(),
                 [] { return std::string("the others to give up"); });
      return;
    }
    const collectives::Operands operands = prepare(rank, c);
    enqueue(rank, c, operands);
    rank.communicator.synchronize(rank.stream);
  });
  EXPECT_TRUE(outcomes[1].ok) << outcomes[1].text;
  std::string texts;
  for (const int rank : {0, 2}) {
    EXPECT_FALSE(outcomes[static_cast<std::size_t>(rank)].ok);
    texts += outcomes[static_cast<std::size_t>(rank)].text;
  }
  for (const char* part : {"Timeout", "all_reduce", "rank 1's data", "expected", "seen"})
    EXPECT_NE(texts.find(part), std::string::npos) << part << " in: " << texts;
}

TEST(OneShot, AbortEndsAllRanks) {
  RUNGS_NEEDS_RANKS(3);
  WorldOptions options = one_shot_world();
  options.timeout_seconds = 30;
  const auto outcomes = collectives::outcomes_of_threads(3, options, [](Rank& rank) {
    Case c;
    c.count = 4000;
    const collectives::Operands operands = prepare(rank, c);
    if (rank.group.rank() == 2) return rank.communicator.abort("enough");
    enqueue(rank, c, operands);
    rank.communicator.synchronize(rank.stream);
  });
  for (const int rank : {0, 1}) {
    const std::string& text = outcomes[static_cast<std::size_t>(rank)].text;
    EXPECT_NE(text.find("PeerLost"), std::string::npos) << text;
    EXPECT_NE(text.find("enough"), std::string::npos) << text;
  }
}

Question question(std::size_t size_bytes, Collective what = Collective::kAllReduce) {
  Question q{};
  q.what = what;
  q.dtype = DType::kF32;
  q.size_bytes = size_bytes;
  q.surroundings.ranks = 4;
  return q;
}

std::string chosen(const Question& q) {
  return name_of(kernel_table()[tuner()->choose(q, kernel_table(), 4).entry]);
}

TEST(OneShotTuner, TakesItForSmallOnes) {
  EXPECT_EQ(chosen(question(8)), "one_shot/symmetric");
  EXPECT_EQ(chosen(question(std::size_t{64} << 20)), "ring/Simple");
  EXPECT_EQ(chosen(question(8, Collective::kAllGather)), "ring/LL");
  // Up to some size, and not again above it.
  bool still = true;
  for (std::size_t size = 1; size <= std::size_t{1} << 28; size *= 2) {
    const bool one_shot = chosen(question(size)) == "one_shot/symmetric";
    EXPECT_TRUE(still || !one_shot) << size;
    still = one_shot;
  }
}

TEST(OneShotTuner, CanBeForced) {
  const testing::ScopedEnv algorithm("RUNGS_ALGO", "one_shot");
  EXPECT_EQ(chosen(question(std::size_t{64} << 20)), "one_shot/symmetric");
  EXPECT_EQ(chosen(question(8, Collective::kAllGather)), "ring/LL") << "it has no all_gather";
  Question q = question(8);
  q.surroundings.peer_mapped = false;
  try {
    static_cast<void>(chosen(q));
    ADD_FAILURE() << "nothing is legal";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("one_shot stores its lines into every peer's memory"),
              std::string::npos)
        << error.what();
  }
}

TEST(OneShotTuner, RefusesUnknownWords) {
  const testing::ScopedEnv algorithm("RUNGS_ALGO", "two_shot");
  try {
    static_cast<void>(tuner());
    ADD_FAILURE() << "two_shot was accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("it must be root, ring or one_shot"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace rungs::symmetric
