// Every way in which a context cannot go on: each rank gets an error that names peer, word,
// expected and seen, within its deadline, and nothing is left behind.

#include "context_world.hpp"

#include <rungs/core/error.hpp>
#include <rungs/testing/errors.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <string>
#include <thread>
#include <vector>

namespace rungs::symmetric {
namespace {

using testing::error_of;
using testing::has;

struct Path {
  const char* name;
  bool map_peers;
  Network network;
};

ContextWorld world_of(const Path& path, double timeout_seconds) {
  ContextWorld world;
  world.options.heap_bytes = 1 << 16;
  world.options.map_peers = path.map_peers;
  world.options.network = path.network;
  world.options.timeout_seconds = timeout_seconds;
  return world;
}

// Who must come later waits for the word of who must come first.
void tell(ContextRank& me, int to) { me.group.send(to, 7, {}); }
void hear(ContextRank& me, int from) { static_cast<void>(me.group.receive(from, 7)); }

void until_failed(const Context& context) {
  while (!context.async_error()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void expect_text(const std::string& text, const std::string& part) {
  RUNGS_REQUIRE(has(text, part), "'", text, "' does not say '", part, "'");
}

class FaultsOver : public ::testing::TestWithParam<Path> {
 protected:
  // The emulator always has a device. Asking for it would start threads before a test forks.
  void SetUp() override {
    if (RUNGS_GPU_CUDA != 0) RUNGS_NEEDS_DEVICE();
  }
};
INSTANTIATE_TEST_SUITE_P(, FaultsOver,
                         ::testing::Values(Path{"Mapped", true, Network::kGpuInitiated},
                                           Path{"Proxy", false, Network::kProxy},
                                           Path{"Queue", false, Network::kGpuInitiated}),
                         [](const auto& each) { return std::string(each.param.name); });

TEST_P(FaultsOver, AMissingSignalNamesPeerWordExpectedAndSeen) {
  EXPECT_EQ(in_context(
                world_of(GetParam(), 0.3),
                [](ContextRank& me) {
                  Context& c = me.context;
                  auto* const words = c.allocate<std::uint64_t>(64);
                  c.seal();  // words begin at 256, behind the barrier's
                  if (c.rank() == 1) {
                    me.run({{Call::kSet, 0, nullptr, nullptr, 0, words + 5, 3}, {Call::kQuiet, 0}});
                    tell(me, 0);
                    until_failed(c);
                    expect_text(c.async_error()->message(), "rank 0 was lost to rank 1");
                    expect_text(c.async_error()->message(), "its signal at heap offset");
                    return;
                  }
                  hear(me, 1);
                  const std::string text = error_of([&] {
                    me.run({{Call::kWait, 1, nullptr, nullptr, 0, words + 5, 4}});
                  });
                  const std::string want =
                      concat("Timeout: symmetric: rank 0 waited for rank 1: its signal at heap ",
                             "offset 296, 4 expected, 3 seen; waited ", 0.3 * timeout_scale(),
                             " s. Has rank 1 made the same calls in the same order?");
                  RUNGS_REQUIRE(text == want, text, " is not ", want);
                  // Every later wait ends at its first look, and every call says the same.
                  const std::string again = error_of([&] {
                    me.run({{Call::kWait, 1, nullptr, nullptr, 0, words + 6, 1}});
                  });
                  RUNGS_REQUIRE(again == text, again, " is not ", text);
                  RUNGS_REQUIRE(error_of([&] { c.barrier(me.stream); }) == text,
                                "the barrier says something else");
                }),
            "");
}

TEST_P(FaultsOver, AMissingBarrierNamesWhoIsNotThere) {
  EXPECT_EQ(in_context(world_of(GetParam(), 0.3),
                       [](ContextRank& me) {
                         Context& c = me.context;
                         c.barrier(me.stream);
                         c.synchronize(me.stream);
                         if (c.rank() == 1) return until_failed(c);
                         c.barrier(me.stream);
                         expect_text(error_of([&] { c.synchronize(me.stream); }),
                                     "Timeout: symmetric: rank 0 waited for rank 1: barrier 2, it "
                                     "has reached 1; waited ");
                       }),
            "");
}

TEST_P(FaultsOver, AbortFromAnotherThreadEndsAllRanks) {
  EXPECT_EQ(in_context(world_of(GetParam(), 30),
                       [](ContextRank& me) {
                         Context& c = me.context;
                         auto* const word = c.allocate<std::uint64_t>(1);
                         me.group.barrier();
                         std::thread killer;
                         if (c.rank() == 0) killer = std::thread([&] { c.abort("enough"); });
                         const std::string text = error_of([&] {
                           me.run({{Call::kWait, 1 - c.rank(), nullptr, nullptr, 0, word, 1}});
                         });
                         if (killer.joinable()) killer.join();
                         expect_text(text, c.rank() == 0 ? "PeerLost: rank 0 gave up: enough"
                                                         : "PeerLost: rank 0 was lost to rank 1");
                         expect_text(text, "enough");
                         expect_text(error_of([&] { c.barrier(me.stream); }), "PeerLost");
                       }),
            "");
}

TEST_P(FaultsOver, AnExceptionOnOneRankEndsTheOthers) {
  const std::vector<testing::RankOutcome> outcomes =
      outcomes_in_context(world_of(GetParam(), 30), [](ContextRank& me) {
        auto* const word = me.context.allocate<std::uint64_t>(1);
        if (me.group.rank() == 0) {
          me.group.receive(1, 1);  // its context stands
          RUNGS_THROW(kUnsupported, "tired");
        }
        me.group.send(0, 1, {});
        me.run({{Call::kWait, 0, nullptr, nullptr, 0, word, 1}});
      });
  EXPECT_TRUE(has(outcomes[0].text, "tired")) << outcomes[0].text;
  EXPECT_TRUE(has(outcomes[1].text, "rank 0 was lost")) << outcomes[1].text;
}

// What the kernel reads, and the word that ends it, are there until it has ended.
TEST_P(FaultsOver, AnExceptionWhileAKernelWaitsEndsTheKernelFirst) {
  std::vector<int> ended(2);
  const std::vector<testing::RankOutcome> outcomes =
      outcomes_in_context(world_of(GetParam(), 30), [&](ContextRank& me) {
        const int rank = me.group.rank();
        gpu::Buffer<std::uint32_t> gave_up(context_device(rank), 1, gpu::Space::kHostMapped);
        *gave_up.data() = 0;
        try {
          Context c(me.group, context_device(rank), world_of(GetParam(), 30).options);
          me.script.data()[0] = {
              Call::kWait, 1 - rank, nullptr, nullptr, 0, c.allocate<std::uint64_t>(1), 1};
          me.group.barrier();
          launch_script(c.on_device(), me.script.data(), 1, gave_up.data(), me.stream);
          if (rank == 0) {
            me.group.receive(1, 1);  // both kernels wait
            RUNGS_THROW(kUnsupported, "tired");
          }
          me.group.send(0, 1, {});
          c.synchronize(me.stream);
        } catch (const Error& error) {
          ended[static_cast<std::size_t>(rank)] = static_cast<int>(*gave_up.data());
          throw;
        }
      });
  EXPECT_EQ(ended, (std::vector<int>{1, 1}));
  EXPECT_TRUE(has(outcomes[0].text, "tired")) << outcomes[0].text;
  EXPECT_TRUE(has(outcomes[1].text, "rank 0 was lost")) << outcomes[1].text;
}

TEST_P(FaultsOver, AKilledRankIsNamed) {
  if (RUNGS_GPU_CUDA != 0)
    return testing::skip(testing::Lack::kEmulator, "processes take turns on a GPU");
#if defined(RUNGS_SANITIZE_THREAD)
  if (::testing::UnitTest::GetInstance()->test_to_run_count() > 1)
    return testing::skip(
        testing::Lack::kOwnProcess,
        "a child of a process with threads may not start any; ctest runs it alone");
#endif
  ContextWorld world = world_of(GetParam(), 30);
  world.ranks = 3;
  const auto began = std::chrono::steady_clock::now();
  const std::vector<testing::RankOutcome> outcomes =
      outcomes_in_processes(world, [](ContextRank& me) {
        Context& c = me.context;
        auto* const word = c.allocate<std::uint64_t>(1);
        c.seal();
        if (c.rank() == 1) {
          hear(me, 0);
          hear(me, 2);
          std::raise(SIGKILL);
        }
        tell(me, 1);
        const std::string text = error_of([&] {
          me.run({{Call::kWait, 1, nullptr, nullptr, 0, word, 1}});
        });
        expect_text(text, "PeerLost: rank 1 was lost to rank ");
        expect_text(text, "waited for rank 1: its signal at heap offset 256, 1 expected, 0 seen");
      });
  EXPECT_EQ(outcomes[0].text, "");
  EXPECT_TRUE(has(outcomes[1].text, "killed by signal 9")) << outcomes[1].text;
  EXPECT_EQ(outcomes[2].text, "");
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  EXPECT_LT(took.count(), 25 * timeout_scale());  // noticed, not waited for
}

TEST(ContextFaults, APutThatTheHcaRefusesIsPeerLost) {
  RUNGS_NEEDS_DEVICE();
  for (const Network network : {Network::kProxy, Network::kGpuInitiated}) {
    EXPECT_EQ(in_context(world_of({"", false, network}, 30),
                         [](ContextRank& me) {
                           Context& c = me.context;
                           auto* const from = c.allocate<std::uint8_t>(64);
                           c.seal();
                           if (c.rank() == 1) return until_failed(c);
                           std::uint8_t* const behind = from + (1 << 16);
                           const std::string text = error_of([&] {
                             me.run({{Call::kPut, 1, behind, from, 64}, {Call::kQuiet, 1}});
                           });
                           expect_text(text, "PeerLost: the queue pair from rank 0 to rank 1");
                           expect_text(text, "outside rank 1's heap");
                         }),
              "");
  }
}

TEST(ContextFaults, AFullHeapSaysWhatIsTaken) {
  RUNGS_NEEDS_DEVICE();
  ContextWorld world;
  world.ranks = 1;
  world.options.heap_bytes = 4096;
  EXPECT_EQ(in_context(
                world,
                [](ContextRank& me) {
                  Context& c = me.context;
                  RUNGS_REQUIRE(c.allocate<std::uint8_t>(0) != nullptr, "no bytes, no place");
                  static_cast<void>(c.allocate<std::uint8_t>(1000));
                  const std::string full = error_of([&] { c.allocate<double>(400); });
                  RUNGS_REQUIRE(full ==
                                    "InvalidArgument: symmetric: the heap has 4096 bytes, 1256 are "
                                    "taken, and 3200 more do not fit; give "
                                    "ContextOptions::heap_bytes more",
                                full);
                  // A refusal takes nothing, and what just fits, fits.
                  auto* const last = c.allocate<std::uint8_t>(4096 - 1280);
                  RUNGS_REQUIRE(reinterpret_cast<std::uintptr_t>(last) % 256 == 0,
                                "not at a boundary of 256 bytes");
                  expect_text(error_of([&] { c.allocate<std::uint8_t>(1); }), "4096 are taken");
                  for (const std::uint8_t byte : me.read(last, 4096 - 1280))
                    RUNGS_REQUIRE(byte == 0, "an allocation is not zeroed");
                  expect_text(error_of([&] { static_cast<void>(c.reach(1)); }),
                              "InvalidArgument: symmetric: peer = 1; 0 to 0");
                }),
            "");
}

TEST(ContextFaults, RanksThatAllocateDifferentlyAreNamed) {
  RUNGS_NEEDS_DEVICE();
  ContextWorld world = world_of({"", true, Network::kGpuInitiated}, 30);
  world.ranks = 3;
  EXPECT_EQ(
      in_context(world,
                 [](ContextRank& me) {
                   me.context.seal();
                   static_cast<void>(me.context.allocate<float>(me.group.rank() == 2 ? 65 : 64));
                   const std::string text = error_of([&] { me.context.seal(); });
                   RUNGS_REQUIRE(text ==
                                     "InvalidArgument: symmetric: rank 0 has allocated 512 "
                                     "bytes of its heap, rank 2 516; all ranks must make "
                                     "the same allocations in the same order",
                                 text);
                 }),
      "");
  // The same bytes in another order lie elsewhere.
  EXPECT_EQ(in_context(world,
                       [](ContextRank& me) {
                         const bool last = me.group.rank() == 2;
                         static_cast<void>(me.context.allocate<std::uint8_t>(last ? 256 : 512));
                         static_cast<void>(me.context.allocate<std::uint8_t>(last ? 512 : 256));
                         expect_text(error_of([&] { me.context.seal(); }),
                                     "rank 2 1024 at other places; all ranks must make the same");
                       }),
            "");
}

// What both ranks say when `change` is done to rank 1's options.
std::string mismatch(const std::function<void(ContextOptions&)>& change) {
  bootstrap::RootOptions root_options;
  root_options.ranks = 2;
  root_options.interface_or_address = "127.0.0.1";
  const bootstrap::Root root(root_options);
  std::vector<std::string> texts(2);
  const std::string failed = testing::failures(testing::run_threads(2, [&](int rank) {
    ContextOptions options{.heap_bytes = 4096};
    if (rank == 1) change(options);
    bootstrap::Group group(root.id(), rank, 2);
    texts[static_cast<std::size_t>(rank)] =
        error_of([&] { const Context context(group, context_device(rank), options); });
  }));
  if (!failed.empty()) return failed;
  return texts[0] == texts[1] ? texts[0] : concat(texts[0], " != ", texts[1]);
}

TEST(ContextFaults, RanksThatDisagreeAllHearInWhat) {
  RUNGS_NEEDS_DEVICE();
  const std::string differ = "InvalidArgument: symmetric: ranks 0 and 1 differ in ";
  EXPECT_EQ(mismatch([](ContextOptions&) {}), "nothing");
  EXPECT_EQ(mismatch([](ContextOptions& o) { o.heap_bytes = 8192; }),
            differ + "heap_bytes: 4096 and 8192");
  EXPECT_EQ(mismatch([](ContextOptions& o) { o.timeout_seconds = 7; }),
            differ + "timeout_seconds: 30 and 7");
  EXPECT_EQ(mismatch([](ContextOptions& o) { o.queue_depth = 8; }),
            differ + "queue_depth: 256 and 8");
  EXPECT_EQ(mismatch([](ContextOptions& o) { o.network = Network::kProxy; }),
            differ + "network: GPU-initiated and proxy");
  EXPECT_EQ(mismatch([](ContextOptions& o) { o.map_peers = false; }),
            differ + "map_peers: 1 and 0");
  EXPECT_EQ(mismatch([](ContextOptions& o) { o.hca.wire = verbs::Wire::kUdp; }),
            differ + "hca.wire: shared memory and UDP");
  EXPECT_EQ(
      mismatch([](ContextOptions& o) { o.heap_bytes = 1000; }),
      "InvalidArgument: rank 1: symmetric: heap_bytes = 1000; at least 4096, a multiple of 256");
  EXPECT_EQ(mismatch([](ContextOptions& o) { o.timeout_seconds = 0; }),
            "InvalidArgument: rank 1: symmetric: timeout_seconds = 0; above 0, at most 1e6");
  EXPECT_TRUE(has(mismatch([](ContextOptions& o) {
                    o.timeout_seconds = std::numeric_limits<double>::quiet_NaN();
                  }),
                  "rank 1: symmetric: timeout_seconds = "));
}

std::size_t entries_of(const char* directory) {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(directory)) ++count;
  return count;
}

TEST_P(FaultsOver, NothingIsLeftBehind) {
  const auto work = [&] {
    const auto once = [](ContextRank& me) {
      Context& c = me.context;
      auto* const bytes = c.allocate<std::uint8_t>(64);
      auto* const word = c.allocate<std::uint64_t>(1);
      const int other = 1 - c.rank();
      RUNGS_REQUIRE(me.run({{Call::kPutSignal, other, bytes, bytes + 32, 32, word, 1},
                            {Call::kWait, other, nullptr, nullptr, 0, word, 1}}) == 0,
                    "calls gave up");
    };
    EXPECT_EQ(in_context(world_of(GetParam(), 30), once), "");
    static_cast<void>(outcomes_in_context(world_of(GetParam(), 30), [&](ContextRank& me) {
      if (me.group.rank() == 1) me.context.abort();
      once(me);
    }));
  };
  work();  // makes devices, which stay
  const std::size_t descriptors = entries_of("/proc/self/fd");
  const std::size_t threads = entries_of("/proc/self/task");
  for (int i = 0; i < 3; ++i) work();
  EXPECT_EQ(entries_of("/proc/self/fd"), descriptors);
  // A joined thread's entry may outlive the join by a moment.
  for (int i = 0; i < 1000 && entries_of("/proc/self/task") > threads; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(entries_of("/proc/self/task"), threads);
}

}  // namespace
}  // namespace rungs::symmetric
