// Several ranks in one launch: what compute-sanitizer is run on.

#include "../../04_collectives_ring_tree/tests/one_launch.hpp"
#include "context_world.hpp"
#include "one_launch_symmetric.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace rungs::symmetric {
namespace {

TEST(OneLaunch, TheOneShotAllReduceMatchesTheOracle) {
  RUNGS_NEEDS_DEVICE();
  constexpr std::size_t kSlotBytes = 1024;
  collectives::WorldOptions options;
  options.algorithm = "noted";
  options.protocol = collectives::ProtocolId::kSymmetric;
  options.table = collectives::noting_table(options.protocol, kSlotBytes);
  options.slot_bytes = kSlotBytes;
  options.channels = 2;
  options.share_device = true;
  for (const int ranks : {2, 3}) {
    const std::string problems =
        collectives::in_threads(ranks, options, [](collectives::Rank& rank) {
          for (const std::size_t count :
               {std::size_t{1}, std::size_t{777}, std::size_t{12 << 10}}) {
            collectives::Case c;
            c.count = count;
            c.seed = count;
            collectives::run_in_one_launch(rank, c, &launch_one_shot);
          }
        });
    EXPECT_EQ(problems, "") << ranks << " ranks";
  }
}

// Every rank fills a block, puts it to the next with a signal, reads it back from there, adds to
// and sets words of the next one, and meets all in barriers.
void every_call(ContextRank& me) {
  constexpr std::uint64_t kBytes = 5003;
  Context& c = me.context;
  auto* const from = c.allocate<std::uint8_t>(kBytes);
  auto* const window = c.allocate<std::uint8_t>(kBytes);
  auto* const got = c.allocate<std::uint8_t>(kBytes);
  auto* const words = c.allocate<std::uint64_t>(3);
  c.seal();
  const int next = (c.rank() + 1) % c.size();
  const int before = (c.rank() + c.size() - 1) % c.size();
  std::vector<Step> steps;
  for (std::uint64_t round = 1; round <= 3; ++round) {
    const std::uint64_t seed = 10 * round + static_cast<std::uint64_t>(c.rank());
    steps.push_back({Call::kFill, 0, nullptr, from, kBytes, nullptr, seed});
    steps.push_back({Call::kPutSignal, next, window, from, kBytes, words, round});
    steps.push_back({Call::kWait, before, nullptr, nullptr, 0, words, round});
    steps.push_back({Call::kQuiet, next});
    steps.push_back({Call::kGet, next, window, got, kBytes});
    steps.push_back({Call::kAdd, next, nullptr, nullptr, 0, words + 1, 2});
    steps.push_back({Call::kSet, next, nullptr, nullptr, 0, words + 2, round});
    steps.push_back({Call::kWait, before, nullptr, nullptr, 0, words + 2, round});
    steps.push_back({Call::kBarrier});
  }
  std::copy(steps.begin(), steps.end(), me.script.data());
  *me.gave_up.data() = 0;
  const std::vector<RankScript> all = me.group.all_gather(RankScript{
      c.on_device(), me.script.data(), static_cast<int>(steps.size()), me.gave_up.data()});
  me.group.barrier();
  if (c.rank() == 0) {
    gpu::Buffer<RankScript> ranks(context_device(0), all.size());
    ranks.upload(all, me.stream);
    launch_scripts(ranks.data(), static_cast<unsigned>(all.size()), me.stream);
    c.synchronize(me.stream);
  }
  me.group.barrier();
  RUNGS_REQUIRE(*me.gave_up.data() == 0, "calls gave up");
  const std::vector<std::uint8_t> arrived = me.read(window, kBytes), back = me.read(got, kBytes);
  for (std::uint64_t i = 0; i < kBytes; ++i) {
    const auto put = static_cast<std::uint8_t>(30 + static_cast<std::uint64_t>(before) + i);
    const auto own = static_cast<std::uint8_t>(30 + static_cast<std::uint64_t>(c.rank()) + i);
    RUNGS_REQUIRE(arrived[i] == put, "byte ", i, " of the window");
    RUNGS_REQUIRE(back[i] == own, "byte ", i, " read back from rank ", next);
  }
  RUNGS_REQUIRE(me.read(words, 3) == (std::vector<std::uint64_t>{3, 6, 3}), "the words");
}

TEST(OneLaunch, EveryCallOfAllRanks) {
  RUNGS_NEEDS_DEVICE();
  for (const int ranks : {2, 3}) {
    ContextWorld world;
    world.ranks = ranks;
    EXPECT_EQ(in_context(world, &every_call), "") << ranks << " ranks";
  }
}

}  // namespace
}  // namespace rungs::symmetric
