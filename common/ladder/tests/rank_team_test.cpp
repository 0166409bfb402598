#include <rungs/core/error.hpp>
#include <rungs/ladder/build.hpp>
#include <rungs/ladder/rank_team.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <set>
#include <stdexcept>
#include <thread>

namespace rungs::ladder {
namespace {

TEST(RankTeam, EveryRankRunsOnceARoundInItsOwnThread) {
  RankTeam team(5);
  std::vector<std::thread::id> first(5), second(5);
  std::atomic<int> calls = 0;
  team.run([&](int rank) {
    first[static_cast<std::size_t>(rank)] = std::this_thread::get_id();
    ++calls;
  });
  team.run([&](int rank) {
    second[static_cast<std::size_t>(rank)] = std::this_thread::get_id();
    ++calls;
  });
  EXPECT_EQ(calls, 10);
  EXPECT_EQ(first, second);
  EXPECT_EQ(std::set<std::thread::id>(first.begin(), first.end()).size(), 5u);
}

TEST(RankTeam, RanksRunAtTheSameTime) {
  RankTeam team(4);
  std::atomic<int> arrived = 0;
  team.run([&](int) {
    ++arrived;
    while (arrived < 4) std::this_thread::yield();
  });
  EXPECT_EQ(arrived, 4);
}

TEST(RankTeam, TheFirstErrorNamesItsRankAndTheTeamGoesOn) {
  RankTeam team(3);
  std::atomic<int> ended = 0;
  try {
    team.run([&](int rank) {
      if (rank == 1) RUNGS_THROW(kTimeout, "waited for rank 0");
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      ++ended;
    });
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kTimeout);
    EXPECT_EQ(error.message(), "rank 1: waited for rank 0");
  }
  EXPECT_EQ(ended, 2) << "run() returned before all ranks had ended";
  EXPECT_THROW(team.run([](int rank) {
    if (rank == 2) throw std::runtime_error("other");
  }),
               std::runtime_error);
  team.run([&](int) { ++ended; });
  EXPECT_EQ(ended, 5);
}

TEST(RankTeam, RefusesImpossibleSizes) {
  EXPECT_THROW(RankTeam(0), Error);
  EXPECT_THROW(RankTeam(1025), Error);
}

// Four ranks write their number; they time themselves.
struct Numbers {
  float* out;
};

class NumbersProblem final : public Problem<Numbers> {
 public:
  Numbers args() override { return {numbers_.data()}; }
  void reset() override { numbers_.assign(4, -1); }
  std::vector<float> output() override { return numbers_; }
  Reference reference() override { return {{0, 1, 2, 3}, {}}; }
  double bound(std::size_t) override { return 0; }

 private:
  std::vector<float> numbers_ = std::vector<float>(4);
};

class WriteNumbers final : public Prepared {
 public:
  explicit WriteNumbers(const Numbers& args) : args_(args) {}
  void operator()(gpu::StreamHandle) override {
    team_.run([&](int rank) { args_.out[rank] = static_cast<float>(rank); });
  }
  std::optional<double> time_once() override { return 0.125; }

 private:
  Numbers args_;
  RankTeam team_{4};
};

TEST(RankedOperation, IsCheckedOverAllRanksAndTimesItself) {
  OperationSpec<Numbers> spec;
  spec.stage = "04_collectives_ring_tree";
  spec.name = "numbers";
  spec.ranks = 4;
  spec.cases = {{.name = "4 ranks", .cost = {}}};
  spec.make_problem = [](std::size_t, const Machine&, std::uint64_t) {
    return std::make_unique<NumbersProblem>();
  };
  static constexpr std::array<Rung<Numbers>, 1> kLadder{
      {{"naive", "a thread a rank", [](const Numbers&, const Machine&) { return Support{}; },
        [](const Numbers& args, const Machine&) -> std::unique_ptr<Prepared> {
          return std::make_unique<WriteNumbers>(args);
        }}}};
  const Operation operation = make_operation(kLadder, std::move(spec));
  EXPECT_EQ(operation.ranks, 4);
  const Outcome outcome = operation.run(0, 0, Machine{}, 3);
  EXPECT_TRUE(outcome.checked) << outcome.note;
  EXPECT_EQ(outcome.seconds, std::vector<double>(3, 0.125));
}

}  // namespace
}  // namespace rungs::ladder
