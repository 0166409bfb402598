// A context and the device calls, over mapped memory, over the network and over both.

#include "context_world.hpp"

#include <rungs/core/error.hpp>
#include <rungs/testing/errors.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace rungs::symmetric {
namespace {

struct Way {
  const char* name;
  int ranks;
  int nodes;
  bool map_peers;
  Network network;
};

class EveryWay : public ::testing::TestWithParam<Way> {
 protected:
  static ContextWorld world() {
    ContextWorld world;
    world.ranks = GetParam().ranks;
    world.nodes = GetParam().nodes;
    world.options.map_peers = GetParam().map_peers;
    world.options.network = GetParam().network;
    return world;
  }
};

std::uint8_t byte_of(int rank, std::size_t index) {
  return static_cast<std::uint8_t>(17 * (rank + 1) + 31 * index + index / 251);
}

std::vector<std::uint8_t> bytes_of(int rank, std::size_t count) {
  std::vector<std::uint8_t> bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = byte_of(rank, i);
  return bytes;
}

TEST_P(EveryWay, PutSignalBringsEveryByteBeforeItsSignal) {
  RUNGS_NEEDS_RANKS(GetParam().ranks);
  constexpr std::size_t kMost = 40000;
  const std::string problems = in_context(world(), [&](ContextRank& me) {
    Context& c = me.context;
    auto* const from = c.allocate<std::uint8_t>(kMost + 16);
    auto* const windows = c.allocate<std::uint8_t>(static_cast<std::size_t>(c.size()) * kMost);
    auto* const signals = c.allocate<std::uint64_t>(static_cast<std::size_t>(c.size()));
    c.seal();
    std::uint64_t epoch = 0;
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{4}, std::size_t{77},
                                    std::size_t{4096}, kMost}) {
      for (const std::size_t shift : {std::size_t{0}, std::size_t{3}}) {
        if (bytes + shift > kMost) continue;
        ++epoch;
        me.write(windows,
                 std::vector<std::uint8_t>(static_cast<std::size_t>(c.size()) * kMost, 0xee));
        me.write(from + shift, bytes_of(c.rank() + static_cast<int>(epoch), bytes));
        me.group.barrier();
        std::vector<Step> steps;
        for (int peer = 0; peer < c.size(); ++peer)
          steps.push_back({Call::kPutSignal, peer,
                           windows + static_cast<std::size_t>(c.rank()) * kMost + shift,
                           from + shift, bytes, signals + c.rank(), epoch});
        for (int peer = 0; peer < c.size(); ++peer)
          steps.push_back({Call::kWait, peer, nullptr, nullptr, 0, signals + peer, epoch});
        for (int peer = 0; peer < c.size(); ++peer) steps.push_back({Call::kQuiet, peer});
        RUNGS_REQUIRE(me.run(steps) == 0, "calls gave up");
        const auto got = me.read(windows, static_cast<std::size_t>(c.size()) * kMost);
        for (int peer = 0; peer < c.size(); ++peer) {
          const auto want = bytes_of(peer + static_cast<int>(epoch), bytes);
          for (std::size_t i = 0; i < kMost; ++i) {
            const std::uint8_t expected =
                i >= shift && i < shift + bytes ? want[i - shift] : std::uint8_t{0xee};
            const std::uint8_t seen = got[static_cast<std::size_t>(peer) * kMost + i];
            RUNGS_REQUIRE(seen == expected, "from rank ", peer, ", ", bytes, " bytes at ", shift,
                          ": byte ", i, " is ", int{seen}, ", not ", int{expected});
          }
        }
        me.group.barrier();
      }
    }
  });
  EXPECT_EQ(problems, "");
}

TEST_P(EveryWay, GetReadsAndAddsAddUpAndBarriersHoldBack) {
  RUNGS_NEEDS_RANKS(GetParam().ranks);
  constexpr std::size_t kBytes = 1000;
  constexpr int kRounds = 20;
  const std::string problems = in_context(world(), [&](ContextRank& me) {
    Context& c = me.context;
    auto* const own = c.allocate<std::uint8_t>(kBytes);
    auto* const got = c.allocate<std::uint8_t>(kBytes);
    auto* const from_all = c.allocate<std::uint64_t>(static_cast<std::size_t>(c.size()));
    auto* const count = c.allocate<std::uint64_t>(1);
    c.seal();
    me.write(own, bytes_of(c.rank(), kBytes));
    me.group.barrier();
    // 1. Everybody's bytes, one after the other.
    for (int peer = 0; peer < c.size(); ++peer) {
      RUNGS_REQUIRE(me.run({{Call::kGet, peer, own, got, kBytes}}) == 0, "get gave up");
      RUNGS_REQUIRE(me.read(got, kBytes) == bytes_of(peer, kBytes), "get from rank ", peer);
    }
    // 2. Every rank adds to one word of rank 0, all alike: over the network or mapped.
    const bool alike = GetParam().nodes == 1 && c.size() > 1;
    if (alike && c.rank() != 0) {
      std::vector<Step> adds(kRounds, {Call::kAdd, 0, nullptr, nullptr, 0, count, 3});
      adds.push_back({Call::kQuiet, 0});
      RUNGS_REQUIRE(me.run(adds) == 0, "add gave up");
    }
    me.group.barrier();
    if (alike && c.rank() == 0) {
      const std::uint64_t want = 3ull * kRounds * static_cast<std::uint64_t>(c.size() - 1);
      RUNGS_REQUIRE(me.read(count, 1)[0] == want, "adds: ", me.read(count, 1)[0], ", not ", want);
    }
    // 3. What was set before a barrier is there after it, round after round.
    for (std::uint64_t round = 1; round <= kRounds; ++round) {
      std::vector<Step> steps;
      for (int peer = 0; peer < c.size(); ++peer)
        steps.push_back({Call::kSet, peer, nullptr, nullptr, 0, from_all + c.rank(), round});
      steps.push_back({Call::kBarrier});
      RUNGS_REQUIRE(me.run(steps) == 0, "barrier gave up");
      for (const std::uint64_t seen : me.read(from_all, static_cast<std::size_t>(c.size())))
        RUNGS_REQUIRE(seen >= round, "after barrier ", round, " a word is ", seen);
      c.barrier(me.stream);  // and the host's call is the same barrier
      c.synchronize(me.stream);
    }
  });
  EXPECT_EQ(problems, "");
}

INSTANTIATE_TEST_SUITE_P(
    Ways, EveryWay,
    ::testing::Values(Way{"alone", 1, 1, true, Network::kGpuInitiated},
                      Way{"two_mapped", 2, 1, true, Network::kGpuInitiated},
                      Way{"two_by_queue", 2, 1, false, Network::kGpuInitiated},
                      Way{"two_by_proxy", 2, 1, false, Network::kProxy},
                      Way{"two_nodes_of_two_by_queue", 4, 2, true, Network::kGpuInitiated},
                      Way{"two_nodes_of_two_by_proxy", 4, 2, true, Network::kProxy}),
    [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace rungs::symmetric
