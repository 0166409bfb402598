// What goes wrong over the network ends every wait and is told in words that name the peer.

#include "network_world.hpp"

namespace rungs::symmetric {
namespace {

using Kind = NetworkStep::Kind;
using testing::error_of;
using testing::has;

NetworkWorld world_of(Network network) {
  NetworkWorld world;
  world.options.network = network;
  world.options.queue_depth = 4;
  world.ack_timeout_seconds = 0.05;
  return world;
}

NetworkStep put(std::uint64_t remote_offset, std::uint64_t local_offset, std::uint64_t bytes) {
  NetworkStep step;
  step.kind = Kind::kPut;
  step.peer = 1;
  step.remote_offset = remote_offset;
  step.local_offset = local_offset;
  step.bytes = bytes;
  return step;
}
NetworkStep quiet() {
  NetworkStep step;
  step.peer = 1;
  return step;
}

class NetworkFaultTest : public ::testing::TestWithParam<Network> {
 protected:
  void SetUp() override { RUNGS_NEEDS_DEVICE(); }
};
INSTANTIATE_TEST_SUITE_P(Both, NetworkFaultTest,
                         ::testing::Values(Network::kProxy, Network::kGpuInitiated),
                         [](const auto& which) {
                           return which.param == Network::kProxy ? "Proxy" : "GpuInitiated";
                         });

// Rank 0 makes the steps, rank 1 waits; returns what rank 0's run reported.
std::string report_of(const NetworkWorld& world, const std::vector<NetworkStep>& steps,
                      const std::function<void(NetworkRank&)>& rank_1_first = {},
                      std::string* answer = nullptr, gpu::Fault* fault = nullptr) {
  std::string report;
  const std::string failures = as_ranks(world, [&](NetworkRank& me) {
    if (me.group.rank() == 1 && rank_1_first) rank_1_first(me);
    me.group.barrier();
    if (me.group.rank() == 0) {
      report = me.run_steps(steps);
      if (fault != nullptr) *fault = me.fault();
      expect(!me.part->drain(Deadline::standard(), [] { return false; }),
             "drain saw the end of requests that failed");
    }
    me.group.barrier();
    if (me.group.rank() == 1 && answer != nullptr) {
      std::optional<detail::NetworkFailure> failure;
      const Deadline deadline = Deadline::standard();
      for (Backoff backoff; !failure && !deadline.passed(); backoff.pause())
        failure = me.part->failure();
      *answer = failure ? failure->text : "nothing";
    }
  });
  return failures + report;
}

TEST_P(NetworkFaultTest, APeerThatIsGoneIsNamed) {
  const std::string report = report_of(world_of(GetParam()),
                                       {put(0, 0, 64), put(0, 0, 64), put(0, 0, 64), put(0, 0, 64),
                                        put(0, 0, 64), put(0, 0, 64), quiet()},
                                       [](NetworkRank& me) { me.part.reset(); });
  EXPECT_TRUE(has(report, "the queue pair from rank 0 to rank 1 failed: RDMA write")) << report;
  EXPECT_TRUE(has(report, "transport retry counter exceeded")) << report;
  EXPECT_TRUE(has(report, "rank 1's HCA does not answer")) << report;
  EXPECT_EQ(has(report, "(syndrome 0x15)"), GetParam() == Network::kGpuInitiated) << report;
}

TEST_P(NetworkFaultTest, OffsetsOutsideTheHeapAreNamed) {
  const NetworkWorld world = world_of(GetParam());
  std::string answer;
  gpu::Fault fault{};
  std::string report =
      report_of(world, {put(world.heap_bytes - 8, 0, 64), quiet()}, {}, &answer, &fault);
  EXPECT_TRUE(has(report, "remote access error")) << report;
  EXPECT_TRUE(has(report, "outside rank 1's heap")) << report;
  EXPECT_TRUE(has(answer,
                  "from rank 1 to rank 0 failed without an error completion: it refused a "
                  "request of rank 0"))
      << answer;
  EXPECT_EQ(fault.set, 2u);
  EXPECT_EQ(fault.rank, 0);
  EXPECT_EQ(fault.peer, 1);
  EXPECT_EQ(fault.reserved, static_cast<std::uint32_t>(Awaited::kCompletion));
  report = report_of(world, {put(0, world.heap_bytes - 8, 64), quiet()});
  EXPECT_TRUE(has(report, "local protection error: outside this rank's heap")) << report;
}

// The HCA holds every packet back: nothing fails, nothing comes.
TEST_P(NetworkFaultTest, AWaitEndsAtItsDeadline) {
  NetworkWorld world = world_of(GetParam());
  world.options.hca.delay_seconds = 10;
  world.timeout_seconds = 0.2;  // less than the HCA's own patience
  std::vector<NetworkStep> steps{put(0, 0, 8), quiet()};
  for (const Awaited awaited : {Awaited::kCompletion, Awaited::kQueueSlot}) {
    gpu::Fault fault{};
    std::string report;
    EXPECT_EQ(as_ranks(world,
                       [&](NetworkRank& me) {
                         if (me.group.rank() == 0) {
                           report = me.run_steps(steps);
                           fault = me.fault();
                         }
                         me.group.barrier();
                       }),
              "");
    EXPECT_TRUE(has(report, "calls gave up")) << report;
    EXPECT_EQ(fault.set, 2u);
    EXPECT_EQ(fault.peer, 1);
    EXPECT_EQ(fault.reserved, static_cast<std::uint32_t>(awaited));
    EXPECT_LT(fault.seen, fault.expected);
    // Next: more than queue and ring take.
    steps.assign(GetParam() == Network::kProxy ? 12 : 6, put(0, 0, 8));
  }
}

TEST_P(NetworkFaultTest, RanksThatDisagreeAreNamed) {
  const auto outcome = [&](const std::function<void(NetworkWorld&, std::vector<int>&, int)>& bend) {
    const bootstrap::Root root(root_options(world_of(GetParam())));
    return testing::failures(testing::run_threads(2, [&](int rank) {
      bootstrap::Group group(root.id(), rank, 2);
      NetworkWorld world = world_of(GetParam());
      std::vector<int> peers{1 - rank};
      bend(world, peers, rank);
      const gpu::Device device = gpu::Device::open(0);
      const gpu::Buffer<std::byte> heap(device, world.heap_bytes, gpu::Space::kHostMapped);
      detail::NetworkPart part(group, device, world.options, heap.data(), heap.size_bytes(), peers,
                               world.max_message_bytes);
    }));
  };
  EXPECT_EQ(outcome([](NetworkWorld&, std::vector<int>&, int) {}), "");
  std::string text = outcome([](NetworkWorld& world, std::vector<int>&, int rank) {
    world.heap_bytes += static_cast<std::size_t>(rank) * 256;
  });
  EXPECT_TRUE(has(text, "rank 0 has a heap of 262144 bytes, rank 1 one of 262400")) << text;
  text = outcome([](NetworkWorld&, std::vector<int>& peers, int rank) {
    if (rank == 1) peers.clear();
  });
  EXPECT_TRUE(has(text, "rank 0 reaches rank 1 over the network, rank 1 reaches rank 0 otherwise"))
      << text;
  text =
      outcome([](NetworkWorld& world, std::vector<int>&, int) { world.options.queue_depth = 1; });
  EXPECT_TRUE(has(text, "queue_depth 1: soft0 takes 2 to 8192")) << text;
}

}  // namespace
}  // namespace rungs::symmetric
