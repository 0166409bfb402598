/// Every way in which a collective cannot end: each rank gets an error that names peer, collective,
/// step, expected and seen, within its deadline, and nothing is left behind.

#include "case.hpp"

#include <rungs/core/error.hpp>
#include <rungs/testing/errors.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace rungs::collectives {
namespace {

using testing::error_of;

Case some_case() {
  Case c;
  c.count = 20000;
  return c;
}

// Who must come later waits for the word of who must come first. (A barrier would not do: one rank
// may leave it, and die, while another is still inside.)
void tell(Rank& rank, int to) { rank.group.send(to, 7, {}); }
void hear(Rank& rank, int from) { static_cast<void>(rank.group.receive(from, 7)); }

// Texts of all ranks, which are threads.
class Texts {
 public:
  void add(int rank, const std::string& text) {
    const std::lock_guard lock(mutex_);
    all_ += concat("rank ", rank, " got: ", text, "\n");
  }
  [[nodiscard]] std::string all() const { return all_; }

 private:
  std::mutex mutex_;
  std::string all_;
};

class Absent : public ::testing::TestWithParam<std::string> {};

TEST_P(Absent, RankIsNamedWhenItNeverCalls) {
  RUNGS_NEEDS_RANKS(3);
  WorldOptions options;
  options.algorithm = GetParam();
  options.timeout_seconds = 1;
  Texts texts;
  const auto began = std::chrono::steady_clock::now();
  EXPECT_EQ(
      in_threads(3, options,
                 [&](Rank& rank) {
                   run_case(rank, some_case());
                   if (rank.group.rank() == 1) {
                     while (!rank.communicator.async_error())
                       std::this_thread::sleep_for(std::chrono::milliseconds(1));
                     return;
                   }
                   const Case c = some_case();
                   const Operands operands = prepare(rank, c);
                   const int other = 2 - rank.group.rank();  // begin together
                   tell(rank, other);
                   hear(rank, other);
                   const std::string text = error_of([&] {
                     enqueue(rank, c, operands);
                     rank.communicator.synchronize(rank.stream);
                   });
                   texts.add(rank.group.rank(), text);
                   if (!testing::has(text, "all_reduce (collective 2 of this communicator)") ||
                       !testing::has(text, "expected") || !testing::has(text, "seen"))
                     rank.note(text);
                   // Afterwards every call says the same.
                   const std::string again = error_of([&] { enqueue(rank, c, operands); });
                   if (again != text) rank.note(again);
                 }),
      "");
  EXPECT_TRUE(testing::has(texts.all(), "got: Timeout: ")) << texts.all();
  EXPECT_TRUE(testing::has(texts.all(), "waited on channel 0 for rank 1") ||
              testing::has(texts.all(), "waited on channel 1 for rank 1"))
      << texts.all();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  EXPECT_LT(took.count(), 15 * timeout_scale());  // the deadline is 1 s: it ended by that
}

INSTANTIATE_TEST_SUITE_P(, Absent, ::testing::Values("ring", "root"),
                         [](const auto& tested) { return tested.param; });

TEST(Faults, AFaultRecordSaysWhoWaitedForWhat) {
  RUNGS_NEEDS_RANKS(2);
  WorldOptions options;
  options.timeout_seconds = 0.3;
  options.channels = 1;
  EXPECT_EQ(
      in_threads(
          2, options,
          [](Rank& rank) {
            if (rank.group.rank() == 1) {
              while (!rank.communicator.async_error())
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
              return;
            }
            Case c;
            c.count = 100;  // one slot: two steps
            const Operands operands = prepare(rank, c);
            enqueue(rank, c, operands);
            const std::string text = error_of([&] { rank.communicator.synchronize(rank.stream); });
            if (text != concat("Timeout: all_reduce (collective 1 of this communicator): rank 0 "
                               "waited on channel 0 for rank 1's data: step 1 of their link "
                               "expected, step 0 seen; waited ",
                               0.3 * timeout_scale(),
                               " s. Has rank 1 made the same calls in the same order?"))
              rank.note(text);
            const std::optional<AsyncError> error = rank.communicator.async_error();
            if (!error || !error->fault || error->fault->peer != 1 || error->fault->expected != 1 ||
                error->fault->seen != 0)
              rank.note("async_error() has another record");
          }),
      "");
}

TEST(Faults, AKilledRankIsNamed) {
  if (RUNGS_GPU_CUDA != 0)
    return testing::skip(testing::Lack::kEmulator, "processes take turns on a GPU");
  WorldOptions options;
  options.timeout_seconds = 30;
  const auto began = std::chrono::steady_clock::now();
  const std::vector<testing::RankOutcome> outcomes =
      outcomes_of_processes(3, options, [](Rank& rank) {
        run_case(rank, some_case());
        const Case c = some_case();
        const Operands operands = prepare(rank, c);
        if (rank.group.rank() != 1) enqueue(rank, c, operands);
        if (rank.group.rank() == 1) {
          hear(rank, 0);  // the others are in their second collective now
          hear(rank, 2);
          std::raise(SIGKILL);
        }
        tell(rank, 1);
        const std::string text = error_of([&] { rank.communicator.synchronize(rank.stream); });
        if (!testing::has(text, "PeerLost: rank 1 was lost") ||
            !testing::has(text, "all_reduce (collective 2 of this communicator)") ||
            !testing::has(text, "expected, step "))
          rank.note(text);
      });
  EXPECT_EQ(outcomes[0].text, "");
  EXPECT_TRUE(testing::has(outcomes[1].text, "killed by signal 9")) << outcomes[1].text;
  EXPECT_EQ(outcomes[2].text, "");
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  EXPECT_LT(took.count(), 25 * timeout_scale());  // noticed, not waited for
}

TEST(Faults, AbortFromAnotherThreadEndsAllRanks) {
  RUNGS_NEEDS_RANKS(3);
  WorldOptions options;
  options.timeout_seconds = 30;
  EXPECT_EQ(
      in_threads(3, options,
                 [](Rank& rank) {
                   const Case c = some_case();
                   const Operands operands = prepare(rank, c);
                   const int me = rank.group.rank();
                   std::thread killer;
                   if (me != 2) enqueue(rank, c, operands);
                   if (me != 0) tell(rank, 0);
                   if (me == 0) {
                     hear(rank, 1);
                     hear(rank, 2);
                     killer = std::thread([&] { rank.communicator.abort("enough"); });
                   }
                   if (me != 2) {
                     const std::string text =
                         error_of([&] { rank.communicator.synchronize(rank.stream); });
                     const std::string want =
                         me == 0 ? "PeerLost: rank 0 gave up: enough" : "PeerLost: rank 0 was lost";
                     if (!testing::has(text, want) || (me != 0 && !testing::has(text, "enough")))
                       rank.note(text);
                   } else {
                     while (!rank.communicator.async_error())
                       std::this_thread::sleep_for(std::chrono::milliseconds(1));
                     const std::string text = error_of([&] { enqueue(rank, c, operands); });
                     if (!testing::has(text, "PeerLost: rank 0 was lost")) rank.note(text);
                   }
                   if (killer.joinable()) killer.join();
                 }),
      "");
}

TEST(Faults, AnExceptionOnOneRankEndsTheOthers) {
  RUNGS_NEEDS_RANKS(2);
  WorldOptions options;
  options.timeout_seconds = 30;
  const std::vector<testing::RankOutcome> outcomes =
      outcomes_of_threads(2, options, [](Rank& rank) {
        if (rank.group.rank() == 0) RUNGS_THROW(kUnsupported, "tired");
        run_case(rank, some_case());
      });
  EXPECT_TRUE(testing::has(outcomes[0].text, "tired")) << outcomes[0].text;
  // Whoever looks first says so: the collective, or the group that the oracle asks.
  EXPECT_TRUE(testing::has(outcomes[1].text, "PeerLost") &&
              (testing::has(outcomes[1].text, "rank 0 was lost") ||
               testing::has(outcomes[1].text, "rank 0 gave up")))
      << outcomes[1].text;
}

// What each rank says when `change` is done to rank 1's options.
std::string mismatch(const std::function<void(WorldOptions&)>& change) {
  bootstrap::RootOptions root_options;
  root_options.ranks = 2;
  root_options.interface_or_address = "127.0.0.1";
  const bootstrap::Root root(root_options);
  std::vector<std::string> texts(2);
  const std::string failed = testing::failures(testing::run_threads(2, [&](int rank) {
    WorldOptions options;
    if (rank == 1) change(options);
    bootstrap::Group group(root.id(), rank, 2);
    texts[static_cast<std::size_t>(rank)] = error_of([&] { const Rank me(group, options); });
  }));
  if (!failed.empty()) return failed;
  return texts[0] == texts[1] ? texts[0] : concat(texts[0], " != ", texts[1]);
}

TEST(Faults, RanksThatDisagreeAllHearInWhat) {
  RUNGS_NEEDS_RANKS(2);
  EXPECT_EQ(mismatch([](WorldOptions& o) { o.channels = 3; }),
            "InvalidArgument: communicator: ranks disagree on channels: rank 0 says 2, rank 1 says "
            "3; give every rank the same");
  EXPECT_EQ(mismatch([](WorldOptions& o) { o.slot_bytes = 2048; }),
            "InvalidArgument: communicator: ranks disagree on slot bytes of Simple: rank 0 says "
            "1024, rank 1 says 2048; give every rank the same");
  EXPECT_EQ(mismatch([](WorldOptions& o) {
              o.rings = {{0, 1}, {1, 0}};
            }),
            "InvalidArgument: communicator: ranks disagree on rings[1]: rank 0 says 0 1, rank 1 "
            "says 1 0; give every rank the same");
  EXPECT_TRUE(testing::has(mismatch([](WorldOptions& o) { o.timeout_seconds = 7; }),
                           "ranks disagree on timeout_seconds"));
  EXPECT_EQ(mismatch([](WorldOptions& o) {
              o.rings = {{0, 1}, {1, 1}};
            }),
            "InvalidArgument: rank 1: communicator: rings[1] is '1 1'; it must name each of the "
            "ranks 0 to 1 once");
  EXPECT_EQ(mismatch([](WorldOptions& o) { o.slot_bytes = 1000; }),
            "InvalidArgument: rank 1: communicator: slots of 1000 bytes; a multiple of 16, at most "
            "67108864");
  EXPECT_TRUE(testing::has(mismatch([](WorldOptions& o) { o.channels = 33; }),
                           "rank 1: communicator: channels = 33; 1 to 32"));
}

std::size_t entries_of(const char* directory) {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(directory)) ++count;
  return count;
}

TEST(Faults, NothingIsLeftBehind) {
  RUNGS_NEEDS_RANKS(2);
  WorldOptions options;
  options.timeout_seconds = 0.3;
  const auto work = [&] {
    EXPECT_EQ(in_threads(2, options, [](Rank& rank) { run_case(rank, some_case()); }), "");
    static_cast<void>(outcomes_of_threads(2, options, [](Rank& rank) {
      if (rank.group.rank() == 1) rank.communicator.abort();
      run_case(rank, some_case());
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
}  // namespace rungs::collectives
