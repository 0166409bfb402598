// The watchdog: it ends what polls in vain, however it polls, and leaves alone what goes on.

#include "launch_kernel.hpp"

#include <rungs/gpu/kernel.hpp>
#include <rungs/ptx/memory.hpp>
#include <rungs/ptx/sync.hpp>
#include <rungs/testing/gpu_test.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace rungs::emulator::testing {
namespace {

// Until one of the flags, read in turn, is `value`.
RUNGS_KERNEL(96) await_any(const std::uint32_t* flags, int count, std::uint32_t value) {
  for (int i = 0; ptx::ld_acquire_sys(&flags[i]) != value; i = (i + 1) % count) {
  }
}

// Waits for the flag and takes it back, `rounds` times.
RUNGS_KERNEL(32) take_back(std::uint32_t* flag, int rounds) {
  for (int i = 0; i < rounds; ++i) {
    while (ptx::ld_acquire_sys(flag) == 0) {
    }
    ptx::st_release_sys(flag, 0u);
  }
}

// Gives no other thread of its worker a turn meanwhile, as a long computation does.
RUNGS_KERNEL(32) compute_and_set(std::uint32_t* flag, std::uint64_t ns) {
  const std::uint64_t start = ptx::globaltimer_ns();
  while (ptx::globaltimer_ns() - start < ns) {
  }
  ptx::st_release_sys(flag, 1u);
}

Options patience(double seconds) {
  Options options;
  options.watchdog_s = seconds;
  return options;
}

// What became of `completion` in a time that is long for the watchdog; ends the kernel by
// `release`, lest a failure hang the test.
std::string report_or_release(Completion& completion, const std::function<void()>& release) {
  if (!completion.wait_for(std::chrono::seconds(30))) {
    ADD_FAILURE() << "no report after 30 s";
    release();
  }
  return completion.wait();
}

class WatchdogTest : public ::testing::TestWithParam<int> {};  // workers

INSTANTIATE_TEST_SUITE_P(Workers, WatchdogTest, ::testing::Values(1, 2, 3));

TEST_P(WatchdogTest, EndsAGridThatOnlyPolls) {
#if defined(RUNGS_SANITIZE_THREAD)
  return rungs::testing::skip(
      rungs::testing::Lack::kPlainBuild,
      "ThreadSanitizer holds at most 8128 fibers, this grid has 12288 threads");
#endif
  const ScopedOptions scope(patience(1));
  Executor executor({8, GetParam()});
  std::uint32_t flag = 0;
  Completion end;
  executor.submit(make_request("in_vain", {.grid = {128}, .block = {96}, .cooperative = true},
                               await_any, &flag, 1, 1u),
                  end.callback());
  const std::string report =
      report_or_release(end, [&] { __atomic_store_n(&flag, 1u, __ATOMIC_RELEASE); });
  EXPECT_NE(report.find("kernel \"in_vain\": no progress"), std::string::npos) << report;
  EXPECT_NE(report.find("96 threads wait for: polling address 0x"), std::string::npos) << report;
}

TEST_P(WatchdogTest, EndsALoopOverManyFlags) {
  const ScopedOptions scope(patience(0.2));
  Executor executor({4, GetParam()});
  for (const int count : {6, 40, 3000}) {  // more than a thread, and a worker, remembers
    std::vector<std::uint32_t> flags(static_cast<std::size_t>(count), 0);
    Completion end;
    executor.submit(
        make_request("in_vain", {.grid = {4}, .block = {32}}, await_any, flags.data(), count, 1u),
        end.callback());
    const std::string report = report_or_release(end, [&] {
      for (std::uint32_t& flag : flags) __atomic_store_n(&flag, 1u, __ATOMIC_RELEASE);
    });
    EXPECT_NE(report.find("no progress"), std::string::npos) << count << " flags: " << report;
  }
}

// The flags count up for longer than the watchdog's time, and each step is progress.
TEST_P(WatchdogTest, AHostThatGoesOnIsProgress) {
  const ScopedOptions scope(patience(1));
  Executor executor({4, GetParam()});
  constexpr std::uint32_t kSteps = 15;
  for (const int count : {1, 6, 40}) {
    std::vector<std::uint32_t> flags(static_cast<std::size_t>(count), 0);
    Completion end;
    executor.submit(make_request("counts", {.grid = {8}, .block = {32}}, await_any, flags.data(),
                                 count, kSteps),
                    end.callback());
    for (std::uint32_t step = 1; step <= kSteps; ++step) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      __atomic_store_n(&flags.back(), step, __ATOMIC_RELEASE);
    }
    EXPECT_EQ(end.wait(), "") << count << " flags";
  }
}

// Here the kernel never polls a value that differs from the last: it overwrites what it waited for.
TEST_P(WatchdogTest, AFlagThatIsTakenBackIsProgress) {
  const ScopedOptions scope(patience(1));
  Executor executor({4, GetParam()});
  constexpr int kRounds = 15;
  std::uint32_t flag = 0;
  Completion end;
  executor.submit(
      make_request("takes_back", {.grid = {1}, .block = {1}}, take_back, &flag, kRounds),
      end.callback());
  for (int round = 0; round < kRounds; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    __atomic_store_n(&flag, 1u, __ATOMIC_RELEASE);
    while (__atomic_load_n(&flag, __ATOMIC_ACQUIRE) == 1 && !end.wait_for({})) {
      std::this_thread::yield();
    }
  }
  EXPECT_EQ(end.wait(), "");
}

TEST_P(WatchdogTest, AKernelThatComputesIsProgress) {
  const ScopedOptions scope(patience(0.2));
  Executor executor({4, GetParam()});
  std::uint32_t flag = 0;
  Completion computing, waiting;
  executor.submit(make_request("computes", {.grid = {1}, .block = {1}}, compute_and_set, &flag,
                               std::uint64_t{1'000'000'000}),
                  computing.callback());
  executor.submit(make_request("waits", {.grid = {4}, .block = {32}}, await_any, &flag, 1, 1u),
                  waiting.callback());
  EXPECT_EQ(waiting.wait(), "");
  EXPECT_EQ(computing.wait(), "");
}

TEST_P(WatchdogTest, HostWorkIsProgress) {
  const ScopedOptions scope(patience(0.2));
  Executor executor({4, GetParam()});
  std::uint32_t flag = 0;
  Completion waiting, working;
  executor.submit_host(
      [&] {
        std::this_thread::sleep_for(std::chrono::seconds(1));
        __atomic_store_n(&flag, 1u, __ATOMIC_RELEASE);
      },
      [done = working.callback()] { done(""); });
  executor.submit(make_request("waits", {.grid = {4}, .block = {32}}, await_any, &flag, 1, 1u),
                  waiting.callback());
  EXPECT_EQ(waiting.wait(), "");
  EXPECT_EQ(working.wait(), "");
}

}  // namespace
}  // namespace rungs::emulator::testing
