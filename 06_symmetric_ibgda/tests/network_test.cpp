// Put, get, signals and quiet over the network, with both ways of posting, against what a host
// program would have copied.

#include "network_world.hpp"

#include <dirent.h>
#include <algorithm>
#include <numeric>

namespace rungs::symmetric {
namespace {

using Kind = NetworkStep::Kind;
using testing::Random;
using testing::skip;

std::string name_of(Network network) {
  return network == Network::kProxy ? "Proxy" : "GpuInitiated";
}

NetworkWorld world_of(Network network, int ranks = 2) {
  NetworkWorld world;
  world.ranks = ranks;
  world.options.network = network;
  world.options.queue_depth = 16;
  return world;
}

class NetworkTest : public ::testing::TestWithParam<Network> {
 protected:
  void SetUp() override { RUNGS_NEEDS_DEVICE(); }
};
INSTANTIATE_TEST_SUITE_P(Both, NetworkTest,
                         ::testing::Values(Network::kProxy, Network::kGpuInitiated),
                         [](const auto& which) { return name_of(which.param); });

// The heap of a rank in the tests of random calls: what it gives, what each block of each rank may
// write, where its own gets go, and signal words: [rank][block] sets, [rank] adds.
struct Plan {
  int ranks;
  int blocks;
  std::uint64_t source_bytes = 6000;
  std::uint64_t inbox_bytes = 4096;
  [[nodiscard]] std::uint64_t inbox(int from, int block) const {
    return source_bytes + static_cast<std::uint64_t>(from * blocks + block) * inbox_bytes;
  }
  [[nodiscard]] std::uint64_t got(int block) const { return inbox(ranks, block); }
  [[nodiscard]] std::uint64_t set_word(int from, int block) const {
    return inbox(ranks + 1, 0) + static_cast<std::uint64_t>(from * blocks + block) * 8;
  }
  [[nodiscard]] std::uint64_t add_word(int from) const {
    return set_word(ranks, 0) + static_cast<std::uint64_t>(from) * 8;
  }
  [[nodiscard]] std::uint64_t bytes() const { return (add_word(ranks) + 255) / 256 * 256; }

  [[nodiscard]] std::vector<std::byte> source(int rank) const {
    Random random(1000 + static_cast<std::uint64_t>(rank));
    std::vector<std::byte> bytes(source_bytes);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next());
    return bytes;
  }
  // What rank `rank` calls. Puts of one block overlap: the later one counts.
  [[nodiscard]] std::vector<NetworkStep> steps(int rank, int count) const {
    Random random(static_cast<std::uint64_t>(rank) + 1);
    std::vector<NetworkStep> steps;
    for (int i = 0; i < count; ++i) {
      NetworkStep step;
      step.block = static_cast<int>(random.below(static_cast<std::uint64_t>(blocks)));
      step.peer = static_cast<int>(random.below(static_cast<std::uint64_t>(ranks - 1)));
      if (step.peer >= rank) ++step.peer;
      const Kind kinds[] = {Kind::kPut, Kind::kPut, Kind::kPutSignal, Kind::kSet,
                            Kind::kAdd, Kind::kGet, Kind::kQuiet};
      step.kind = kinds[random.below(std::size(kinds))];
      const std::uint64_t limits[] = {1, 9, 300, inbox_bytes + 1};
      step.bytes = random.below(limits[random.below(std::size(limits))]);
      const std::uint64_t in_source = random.below(source_bytes - step.bytes + 1);
      const std::uint64_t in_inbox = random.below(inbox_bytes - step.bytes + 1);
      step.local_offset = step.kind == Kind::kGet ? got(step.block) + in_inbox : in_source;
      step.remote_offset = step.kind == Kind::kGet ? in_source : inbox(rank, step.block) + in_inbox;
      step.signal_offset = step.kind == Kind::kAdd ? add_word(rank) : set_word(rank, step.block);
      step.value = random.next();
      steps.push_back(step);
    }
    for (int block = 0; block < blocks; ++block) {
      for (int peer = 0; peer < ranks; ++peer) {
        if (peer == rank) continue;
        NetworkStep quiet;
        quiet.block = block;
        quiet.peer = peer;
        steps.push_back(quiet);
      }
    }
    return steps;
  }
  // All heaps, after everybody's calls.
  [[nodiscard]] std::vector<std::vector<std::byte>> result(int count) const {
    std::vector<std::vector<std::byte>> heaps;
    for (int rank = 0; rank < ranks; ++rank) {
      heaps.emplace_back(bytes());
      const std::vector<std::byte> given = source(rank);
      std::copy(given.begin(), given.end(), heaps.back().begin());
    }
    const auto copy = [](std::vector<std::byte>& to, std::uint64_t to_offset,
                         const std::vector<std::byte>& from, std::uint64_t from_offset,
                         std::uint64_t size) {
      for (std::uint64_t i = 0; i < size; ++i) to[to_offset + i] = from[from_offset + i];
    };
    for (int rank = 0; rank < ranks; ++rank) {
      for (const NetworkStep& step : steps(rank, count)) {
        auto& mine = heaps[static_cast<std::size_t>(rank)];
        auto& theirs = heaps[static_cast<std::size_t>(step.peer)];
        std::uint64_t word = 0;
        std::memcpy(&word, theirs.data() + step.signal_offset, sizeof(word));
        if (step.kind == Kind::kPut || step.kind == Kind::kPutSignal)
          copy(theirs, step.remote_offset, mine, step.local_offset, step.bytes);
        if (step.kind == Kind::kGet)
          copy(mine, step.local_offset, theirs, step.remote_offset, step.bytes);
        if (step.kind == Kind::kAdd) word += step.value;
        if (step.kind == Kind::kSet || step.kind == Kind::kPutSignal) word = step.value;
        if (step.kind != Kind::kQuiet)
          std::memcpy(theirs.data() + step.signal_offset, &word, sizeof(word));
      }
    }
    return heaps;
  }
};

using Runner = std::string (*)(const NetworkWorld&, const RankBody&);

// Makes a plan's calls and compares the whole heap, byte by byte.
std::string run_plan(NetworkWorld world, const Plan& plan, int count, Runner run = as_ranks) {
  world.heap_bytes = plan.bytes();
  const std::vector<std::vector<std::byte>> expected = plan.result(count);
  return run(world, [&](NetworkRank& me) {
    const int rank = me.group.rank();
    me.fill(0, plan.source(rank));
    me.group.barrier();
    const std::string problem = me.run_steps(plan.steps(rank, count), plan.blocks);
    expect(problem.empty(), problem);
    expect(me.part->drain(Deadline::standard(), [] { return false; }), "drain gave up");
    me.group.barrier();
    const std::vector<std::byte> heap = me.heap_now();
    const auto& want = expected[static_cast<std::size_t>(rank)];
    const auto [seen, wanted] = std::mismatch(heap.begin(), heap.end(), want.begin());
    expect(seen == heap.end(), "byte ", seen - heap.begin(), " is ",
           seen == heap.end() ? 0 : std::to_integer<int>(*seen), ", expected ",
           seen == heap.end() ? 0 : std::to_integer<int>(*wanted));
    me.group.barrier();
  });
}

TEST_P(NetworkTest, RandomCallsOfTwoRanks) {
  EXPECT_EQ(run_plan(world_of(GetParam()), {.ranks = 2, .blocks = 3}, 300), "");
}

TEST_P(NetworkTest, RandomCallsOfFourRanks) {
  EXPECT_EQ(run_plan(world_of(GetParam(), 4), {.ranks = 4, .blocks = 2}, 150), "");
}

TEST_P(NetworkTest, RandomCallsOfProcesses) {
#ifdef RUNGS_SANITIZE_THREAD
  return testing::skip(testing::Lack::kPlainBuild,
                       "the HCA's thread writes what a barrier over sockets orders, which "
                       "ThreadSanitizer does not see between processes");
#endif
  if (RUNGS_GPU_CUDA != 0) return skip(testing::Lack::kEmulator, "processes take turns on a GPU");
  EXPECT_EQ(run_plan(world_of(GetParam(), 3), {.ranks = 3, .blocks = 2}, 100, as_processes), "");
}

TEST_P(NetworkTest, LongMessagesAreSplit) {
  NetworkWorld world = world_of(GetParam());
  world.max_message_bytes = 100;  // 41 requests for the longest: more than the queue has room for
  EXPECT_EQ(run_plan(world, {.ranks = 2, .blocks = 2}, 60), "");
}

TEST_P(NetworkTest, OverUdpWithLossDuplicatesAndReordering) {
  NetworkWorld world = world_of(GetParam());
  world.options.hca.wire = verbs::Wire::kUdp;
  world.options.hca.mtu_bytes = 1024;
  world.options.hca.loss = 0.01;
  world.options.hca.duplicate = 0.01;
  world.options.hca.reorder = 0.01;
  EXPECT_EQ(run_plan(world, {.ranks = 2, .blocks = 2}, 200), "");
}

TEST_P(NetworkTest, ThePayloadIsThereWhenTheSignalIs) {
  for (const bool lossy : {false, true}) {
    NetworkWorld world = world_of(GetParam());
    world.options.hca.mtu_bytes = 256;  // several packets a message
    world.options.hca.loss = lossy ? 0.01 : 0;
    Exchange exchange;
    exchange.blocks = 4;
    exchange.rounds = lossy ? 25 : 100;
    exchange.words = 150;
    exchange.offset = 1024;
    EXPECT_EQ(as_ranks(world,
                       [&](NetworkRank& me) {
                         Exchange mine = exchange;
                         mine.peer = 1 - me.group.rank();
                         const std::string problem =
                             me.run([&](std::uint32_t* failures, std::uint32_t* wrong) {
                               launch_exchange(me.context(), mine, wrong, failures, me.stream);
                             });
                         expect(problem.empty(), problem);
                         me.group.barrier();
                       }),
              "");
  }
}

// All threads of several blocks post to one queue at once. More requests than 16 bits count, over a
// ring of 16: the ring, the completion queue's laps and the counts in the WQEs all wrap.
TEST_P(NetworkTest, ManyThreadsFloodOneQueue) {
  NetworkWorld world = world_of(GetParam());
  Flood flood;
  flood.blocks = 4;
  flood.threads = 8;
  // The proxy's queue is stage 01's, whose wrap-around is tested there.
  flood.count = GetParam() == Network::kGpuInitiated ? 2400 : 160;
  flood.peer = 1;
  flood.add_offset = 512;
  flood.set_offset = 1024;
  const auto threads = static_cast<std::uint64_t>(flood.blocks * flood.threads);
  const auto count = static_cast<std::uint64_t>(flood.count);
  if (GetParam() == Network::kGpuInitiated) {
    ASSERT_GT(threads * count, 65536u);
  }
  EXPECT_EQ(as_ranks(world,
                     [&](NetworkRank& me) {
                       if (me.group.rank() == 0) {
                         const std::string problem =
                             me.run([&](std::uint32_t* failures, std::uint32_t* /*wrong*/) {
                               launch_flood(me.context(), flood, failures, me.stream);
                             });
                         expect(problem.empty(), problem);
                         expect(me.part->drain(Deadline::standard(), [] { return false; }),
                                "drain gave up");
                       }
                       me.group.barrier();
                       if (me.group.rank() == 1) {
                         const std::uint64_t sum = me.word_now(flood.add_offset);
                         expect(sum == threads * (count - count / 8), "sum ", sum);
                         for (std::uint64_t i = 0; i < threads; ++i) {
                           const std::uint64_t set = me.word_now(flood.set_offset + 8 * i);
                           expect(set == count, "thread ", i, " set ", set);
                         }
                       }
                       me.group.barrier();
                     }),
            "");
}

// A replayed kernel goes on where the last one stopped: counters live in device memory.
TEST_P(NetworkTest, LaunchesFollowEachOther) {
  EXPECT_EQ(as_ranks(world_of(GetParam()),
                     [](NetworkRank& me) {
                       NetworkStep add;
                       add.kind = Kind::kAdd;
                       add.peer = 1 - me.group.rank();
                       add.signal_offset = 64;
                       add.value = 3;
                       for (int i = 0; i < 20; ++i) {
                         const std::string problem = me.run_steps({add, add, add});
                         expect(problem.empty(), problem);
                       }
                       expect(me.part->drain(Deadline::standard(), [] { return false; }),
                              "drain gave up");
                       me.group.barrier();
                       expect(me.word_now(64) == 180, "the word is ", me.word_now(64));
                       const verbs::WireCounters wire = me.part->wire();
                       expect(wire.wqes == 60 && wire.packets_rejected == 0, wire.wqes, " WQEs, ",
                              wire.packets_rejected, " packets rejected");
                       me.group.barrier();
                     }),
            "");
}

int entries_of(const char* directory) {
  DIR* const open = ::opendir(directory);
  int count = 0;
  while (::readdir(open) != nullptr) ++count;
  ::closedir(open);
  return count;
}

TEST_P(NetworkTest, NothingIsLeftBehind) {
  const auto once = [&] {
    EXPECT_EQ(as_ranks(world_of(GetParam()), [](NetworkRank& me) { me.group.barrier(); }), "");
  };
  once();  // the devices' threads start with their first use and stay
  const int threads = entries_of("/proc/self/task");
  const int files = entries_of("/proc/self/fd");
  for (int i = 0; i < 3; ++i) once();
  EXPECT_EQ(entries_of("/proc/self/task"), threads);
  EXPECT_EQ(entries_of("/proc/self/fd"), files);
}

}  // namespace
}  // namespace rungs::symmetric
