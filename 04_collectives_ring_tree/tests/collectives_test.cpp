/// Every collective by every algorithm over 1 to 5 and 8 ranks, on counts around what a slot, a
/// chunk and a channel hold, dtypes and operators sampled so that each meets each.

#include "case.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <tuple>
#include <vector>

namespace rungs::collectives {
namespace {

constexpr std::array kAll{Collective::kAllReduce, Collective::kAllGather,
                          Collective::kReduceScatter, Collective::kBroadcast,
                          Collective::kAllToAll};
constexpr std::array kTypes{DType::kF32, DType::kBf16, DType::kI32};
constexpr std::array kOps{Op::kSum, Op::kMax, Op::kAvg};

class Collectives : public ::testing::TestWithParam<std::tuple<std::string, int>> {
 protected:
  [[nodiscard]] static std::string algorithm() { return std::get<0>(GetParam()); }
  [[nodiscard]] static int ranks() { return std::get<1>(GetParam()); }
};

// Elements of f32. A slot of the tests holds 256, a chunk of a ring 4 slots, two channels share.
std::vector<std::size_t> counts(int ranks) {
  constexpr std::size_t kSlot = 256;
  const std::size_t round = static_cast<std::size_t>(ranks) * 4 * kSlot;
  return {0, 1, 7, kSlot - 1, kSlot, 2 * kSlot + 1, 2 * round - 1, 2 * round + 33, 5 * round + 5};
}

TEST_P(Collectives, MatchTheOracle) {
  RUNGS_NEEDS_RANKS(ranks());
  WorldOptions options;
  options.algorithm = algorithm();
  EXPECT_EQ(in_threads(ranks(), options,
                       [&](Rank& rank) {
                         // Another start for each size: counts meet other dtypes.
                         auto number = static_cast<std::size_t>(ranks());
                         for (const Collective what : kAll) {
                           for (const std::size_t count : counts(ranks())) {
                             Case c;
                             c.what = what;
                             c.dtype = kTypes[number % 3];
                             c.op = kOps[number / 3 % 3];
                             const bool parts =
                                 what != Collective::kAllReduce && what != Collective::kBroadcast;
                             c.count = parts && count > 600 ? count / 4 : count;
                             c.root = static_cast<int>(number) % ranks();
                             c.in_place = number % 2 == 1 && what != Collective::kAllToAll;
                             c.shift = number % 4 == 3 ? 1 : 0;
                             c.integers = number % 5 < 2;
                             c.seed = ++number;
                             run_case(rank, c);
                           }
                         }
                       }),
            "");
}

INSTANTIATE_TEST_SUITE_P(, Collectives,
                         ::testing::Combine(::testing::Values("root", "ring"),
                                            ::testing::Values(1, 2, 3, 4, 5, 8)),
                         [](const auto& tested) {
                           return concat(std::get<0>(tested.param), "_", std::get<1>(tested.param));
                         });

}  // namespace
}  // namespace rungs::collectives
