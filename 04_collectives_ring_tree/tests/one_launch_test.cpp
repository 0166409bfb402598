// Every collective with all ranks in one launch: what compute-sanitizer is run on.

#include "one_launch.hpp"

#include <gtest/gtest.h>

namespace rungs::collectives {
namespace {

constexpr int kChannels = 2;
constexpr std::size_t kSlotBytes = 1024;

struct Algorithm {
  const char* name;
  LaunchAll launch;
};

class OneLaunch : public ::testing::TestWithParam<Algorithm> {};

TEST_P(OneLaunch, EveryCollectiveMatchesTheOracle) {
  RUNGS_NEEDS_DEVICE();
  WorldOptions options;
  options.algorithm = "noted";
  options.table = noting_table(ProtocolId::kSimple, kSlotBytes);
  options.channels = kChannels;
  options.slot_bytes = kSlotBytes;
  options.share_device = true;
  for (const int ranks : {2, 3}) {
    const std::string problems = in_threads(ranks, options, [&](Rank& rank) {
      for (const Collective what :
           {Collective::kAllReduce, Collective::kReduceScatter, Collective::kAllGather,
            Collective::kBroadcast, Collective::kAllToAll}) {
        // One element; an odd number; more than all slots of a link hold.
        for (const std::size_t count : {std::size_t{1}, std::size_t{777}, std::size_t{12 << 10}}) {
          Case c;
          c.what = what;
          c.count = count;
          c.root = ranks - 1;
          c.seed = count;
          run_in_one_launch(rank, c, GetParam().launch);
        }
      }
    });
    EXPECT_EQ(problems, "") << ranks << " ranks";
  }
}

INSTANTIATE_TEST_SUITE_P(Algorithms, OneLaunch,
                         ::testing::Values(Algorithm{"ring", &launch_ring_simple},
                                           Algorithm{"root", &launch_root_simple}),
                         [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace rungs::collectives
