// Every collective over LL with all ranks in one launch: what compute-sanitizer is run on.

#include "../../04_collectives_ring_tree/tests/one_launch.hpp"
#include "one_launch_ll.hpp"

#include <gtest/gtest.h>

namespace rungs::protocols {
namespace {

using collectives::Case;
using collectives::Collective;
using collectives::Rank;

TEST(OneLaunch, EveryCollectiveOverLlMatchesTheOracle) {
  RUNGS_NEEDS_DEVICE();
  constexpr std::size_t kSlotBytes = 1024;
  collectives::WorldOptions options;
  options.algorithm = "noted";
  options.protocol = collectives::ProtocolId::kLl;
  options.table = collectives::noting_table(options.protocol, kSlotBytes);
  options.share_device = true;
  for (const int ranks : {2, 3}) {
    const std::string problems = collectives::in_threads(ranks, options, [&](Rank& rank) {
      for (const Collective what :
           {Collective::kAllReduce, Collective::kReduceScatter, Collective::kAllGather,
            Collective::kBroadcast, Collective::kAllToAll}) {
        for (const std::size_t count : {std::size_t{1}, std::size_t{777}, std::size_t{12 << 10}}) {
          Case c;
          c.what = what;
          c.count = count;
          c.root = ranks - 1;
          c.seed = count;
          collectives::run_in_one_launch(rank, c, &launch_ring_ll);
        }
      }
    });
    EXPECT_EQ(problems, "") << ranks << " ranks";
  }
}

}  // namespace
}  // namespace rungs::protocols
