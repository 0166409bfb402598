// Launches: residency, several at once, waiting for each other and for the host, failure, counters.

#include "launch_kernel.hpp"

#include <rungs/core/error.hpp>
#include <rungs/gpu/kernel.hpp>
#include <rungs/ptx/atomic.hpp>
#include <rungs/ptx/memory.hpp>
#include <rungs/ptx/sync.hpp>
#include <rungs/testing/gpu_test.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <numeric>
#include <thread>
#include <vector>

namespace rungs::emulator::testing {
namespace {

RUNGS_KERNEL(256) count_threads(std::uint32_t* visits, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) ptx::red_add_gpu(&visits[i], 1);
}

RUNGS_KERNEL(64) write_indices(std::uint32_t* out) {
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  out[block * blockDim.x * blockDim.y * blockDim.z + thread] =
      threadIdx.x | threadIdx.y << 8 | threadIdx.z << 16;
}

// Sets own flag, then waits for the other kernel's.
RUNGS_KERNEL(32) meet(std::uint32_t* mine, const std::uint32_t* other) {
  if (threadIdx.x == 0) {
    ptx::st_release_gpu(mine, 1u);
    while (ptx::ld_acquire_gpu(other) == 0) {
    }
  }
  ptx::syncthreads();
}

RUNGS_KERNEL(32) await_value(const std::uint32_t* flag, std::uint32_t* seen) {
  while (ptx::ld_acquire_sys(flag) == 0) {
  }
  if (threadIdx.x == 0) *seen = ptx::ld_relaxed_sys(flag);
}

// A barrier of the whole grid: all blocks must be resident.
RUNGS_KERNEL(64) grid_barrier(std::uint32_t* counter, std::uint32_t* after) {
  ptx::syncthreads();
  if (threadIdx.x == 0) {
    ptx::atomic_add_gpu(counter, 1u);
    while (ptx::ld_acquire_gpu(counter) < gridDim.x) {
    }
    after[blockIdx.x] = ptx::ld_relaxed_gpu(counter);
  }
}

RUNGS_KERNEL(64) out_of_order_barrier(int broken_block) {
  if (static_cast<int>(blockIdx.x) != broken_block || threadIdx.x != 3) ptx::syncthreads();
}

RUNGS_KERNEL(32) throwing_kernel(int) { RUNGS_THROW(kInternal, "thrown on purpose"); }

RUNGS_KERNEL(32) nothing() {}

class ExecutorTest : public ::testing::TestWithParam<ExecutorOptions> {};

INSTANTIATE_TEST_SUITE_P(Shapes, ExecutorTest,
                         ::testing::Values(ExecutorOptions{1, 1}, ExecutorOptions{4, 1},
                                           ExecutorOptions{4, 3}, ExecutorOptions{7, 2}),
                         [](const auto& shape) {
                           return "Sms" + std::to_string(shape.param.sm_count) + "Workers" +
                                  std::to_string(shape.param.workers);
                         });

TEST_P(ExecutorTest, RunsEveryThreadOnce) {
  Executor executor(GetParam());
  for (const int n : {1, 31, 256, 257, 5000}) {
    std::vector<std::uint32_t> visits(static_cast<std::size_t>(n), 0);
    const auto blocks = static_cast<unsigned>((n + 255) / 256);
    ASSERT_EQ(run(executor, {.grid = {blocks}, .block = {256}}, count_threads, visits.data(), n),
              "");
    for (int i = 0; i < n; i++)
      ASSERT_EQ(visits[static_cast<std::size_t>(i)], 1u) << "thread " << i << " of " << n;
  }
}

TEST_P(ExecutorTest, NumbersThreadsInThreeDimensions) {
  Executor executor(GetParam());
  const gpu::LaunchConfig config{.grid = {2, 3, 2}, .block = {4, 3, 5}};
  std::vector<std::uint32_t> out(2 * 3 * 2 * 4 * 3 * 5, ~0u);
  ASSERT_EQ(run(executor, config, write_indices, out.data()), "");
  for (std::size_t i = 0; i < out.size(); i++) {
    const auto t = static_cast<std::uint32_t>(i % 60);
    ASSERT_EQ(out[i], (t % 4) | (t / 4 % 3) << 8 | (t / 12) << 16) << i;
  }
}

TEST_P(ExecutorTest, KernelsOfTwoStreamsMeet) {
  Executor executor(GetParam());
  std::uint32_t flags[2] = {0, 0};
  Completion first, second;
  const gpu::LaunchConfig config{.grid = {1}, .block = {32}, .cooperative = true};
  executor.submit(make_request("first", config, meet, &flags[0], &flags[1]), first.callback());
  executor.submit(make_request("second", config, meet, &flags[1], &flags[0]), second.callback());
  EXPECT_EQ(first.wait(), "");
  EXPECT_EQ(second.wait(), "");
}

TEST_P(ExecutorTest, KernelWaitsForHostAndHostWorkRunsMeanwhile) {
  Executor executor(GetParam());
  std::uint32_t flag = 0, seen = 0;
  Completion kernel, host;
  executor.submit(make_request("await", {.grid = {1}, .block = {32}}, await_value, &flag, &seen),
                  kernel.callback());
  executor.submit_host([&] { __atomic_store_n(&flag, 7u, __ATOMIC_RELEASE); },
                       [done = host.callback()] { done(""); });
  EXPECT_EQ(host.wait(), "");
  EXPECT_EQ(kernel.wait(), "");
  EXPECT_EQ(seen, 7u);

  flag = 0;
  Completion again;
  executor.submit(make_request("await", {.grid = {1}, .block = {32}}, await_value, &flag, &seen),
                  again.callback());
  std::thread peer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    __atomic_store_n(&flag, 9u, __ATOMIC_RELEASE);
  });
  EXPECT_EQ(again.wait(), "");
  peer.join();
  EXPECT_EQ(seen, 9u);
}

TEST_P(ExecutorTest, CooperativeGridIsResidentWhole) {
  Executor executor(GetParam());
  const auto blocks = static_cast<unsigned>(32 * executor.sm_count());  // as many as fit
  std::uint32_t counter = 0;
  std::vector<std::uint32_t> after(blocks, 0);
  const gpu::LaunchConfig config{.grid = {blocks}, .block = {64}, .cooperative = true};
  ASSERT_EQ(run(executor, config, grid_barrier, &counter, after.data()), "");
  for (const std::uint32_t value : after) EXPECT_EQ(value, blocks);
}

TEST_P(ExecutorTest, FailureEndsOneLaunchAndNoOther) {
  Executor executor(GetParam());
  Completion bad, good;
  std::vector<std::uint32_t> visits(1000, 0);
  executor.submit(make_request("broken", {.grid = {40}, .block = {64}}, out_of_order_barrier, 17),
                  bad.callback());
  executor.submit(
      make_request("sound", {.grid = {4}, .block = {256}}, count_threads, visits.data(), 1000),
      good.callback());
  const std::string report = bad.wait();
  EXPECT_NE(report.find("kernel \"broken\": deadlock"), std::string::npos) << report;
  EXPECT_NE(report.find("block (17,0,0)"), std::string::npos) << report;
  EXPECT_NE(report.find("63 threads wait for: barrier 0 for 64 threads {63 arrived}"),
            std::string::npos)
      << report;
  EXPECT_NE(report.find("executor_test.cpp:"), std::string::npos) << report;
  EXPECT_EQ(good.wait(), "");
  EXPECT_EQ(std::accumulate(visits.begin(), visits.end(), 0u), 1000u);
  const std::string thrown = run(executor, {.grid = {1}, .block = {32}}, throwing_kernel, 0);
  EXPECT_NE(thrown.find("the kernel threw: "), std::string::npos) << thrown;
  EXPECT_NE(thrown.find("thrown on purpose"), std::string::npos) << thrown;
}

TEST_P(ExecutorTest, CompletionMaySubmitTheNextLaunch) {
  Executor executor(GetParam());
  std::vector<std::uint32_t> visits(64, 0);
  const auto request =
      make_request("chain", {.grid = {1}, .block = {64}}, count_threads, visits.data(), 64);
  Completion end;
  constexpr int kLength = 50;
  std::function<void(int)> submit_rest = [&](int left) {
    executor.submit(request, [&, left](std::string report) {
      if (!report.empty() || left == 1) {
        end.callback()(std::move(report));
      } else {
        submit_rest(left - 1);
      }
    });
  };
  submit_rest(kLength);
  EXPECT_EQ(end.wait(), "");
  for (const std::uint32_t value : visits) EXPECT_EQ(value, static_cast<std::uint32_t>(kLength));
}

TEST_P(ExecutorTest, DestructorWaitsForWork) {
  std::vector<std::uint32_t> visits(10000, 0);
  std::atomic<int> ended{0};
  {
    Executor executor(GetParam());
    for (int i = 0; i < 5; i++) {
      executor.submit(
          make_request("late", {.grid = {40}, .block = {256}}, count_threads, visits.data(), 10000),
          [&](const std::string& report) { ended += report.empty() ? 1 : 100; });
    }
  }
  EXPECT_EQ(ended, 5);
  for (const std::uint32_t value : visits) ASSERT_EQ(value, 5u);
}

TEST(Executor, CountsWhatItDid) {
  Executor executor({4, 1});
  std::vector<std::uint32_t> visits(2048, 0);
  ASSERT_EQ(run(executor, {.grid = {8}, .block = {256}}, count_threads, visits.data(), 2048), "");
  ASSERT_EQ(run(executor, {.grid = {3}, .block = {64}}, out_of_order_barrier, -1), "");
  const Counters counters = executor.counters();
  EXPECT_EQ(counters.launches, 2u);
  EXPECT_EQ(counters.blocks, 11u);
  EXPECT_EQ(counters.threads, 8u * 256 + 3 * 64);
  EXPECT_EQ(counters.barriers, 3u);
  EXPECT_EQ(counters.async_bytes, 0u);
  EXPECT_EQ(counters.mma_flops, 0u);
}

TEST(Executor, ThreadsThatNeverWaitShareAStack) {
#if defined(RUNGS_SANITIZE_THREAD)
  return rungs::testing::skip(rungs::testing::Lack::kPlainBuild,
                              "under ThreadSanitizer every thread has a fiber of its own");
#endif
  Executor executor({4, 1});
  std::vector<std::uint32_t> visits(4096, 0);
  ASSERT_EQ(run(executor, {.grid = {16}, .block = {256}}, count_threads, visits.data(), 4096), "");
  EXPECT_LE(executor.counters().fiber_switches, 16u);  // one entry a block
}

RUNGS_KERNEL(32) sleep_until(std::uint32_t* flag) {
  while (__atomic_load_n(flag, __ATOMIC_ACQUIRE) == 0) ptx::nanosleep(100);
}

// Sleeping in a loop is no progress, but until the watchdog's time is over it is no failure either.
TEST(Executor, SleepingKernelsAreLeftAlone) {
  Executor executor({1, 1});
  std::uint32_t flag = 0;
  Completion kernel;
  executor.submit(make_request("sleeps", {.grid = {1}, .block = {32}}, sleep_until, &flag),
                  kernel.callback());
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  __atomic_store_n(&flag, 1u, __ATOMIC_RELEASE);
  EXPECT_EQ(kernel.wait(), "");
}

// A launch that polls a flag nobody sets is ended by the watchdog.
TEST(Executor, WatchdogNamesTheFlag) {
  Options options;
  options.watchdog_s = 0.05;
  const ScopedOptions scope(options);
  Executor executor({1, 1});
  const std::uint32_t flag = 0;
  std::uint32_t seen = 0;
  const std::string report = run(executor, {.grid = {1}, .block = {32}}, await_value, &flag, &seen);
  EXPECT_NE(report.find("no progress"), std::string::npos) << report;
  EXPECT_NE(report.find("32 threads wait for: polling address 0x"), std::string::npos) << report;
  EXPECT_NE(report.find("which holds 0"), std::string::npos) << report;
  EXPECT_EQ(run(executor, {.grid = {1}, .block = {32}}, nothing), "");
}

std::string refusal(const Executor& executor, const gpu::LaunchConfig& config, ErrorCode code) {
  try {
    executor.check(*make_request("refused", config, nothing));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.message();
  }
  ADD_FAILURE() << "accepted";
  return "";
}

TEST(Executor, RefusesImpossibleShapes) {
  const Executor executor({4, 1});
  const auto invalid = ErrorCode::kInvalidArgument;
  EXPECT_NE(refusal(executor, {.grid = {0}, .block = {32}}, invalid).find("grid 0 x 1 x 1"),
            std::string::npos);
  EXPECT_NE(refusal(executor, {.grid = {1}, .block = {1025}}, invalid).find("block 1025 x 1 x 1"),
            std::string::npos);
  EXPECT_NE(refusal(executor, {.grid = {1}, .block = {1, 1, 65}}, invalid).find("64 in z"),
            std::string::npos);
  EXPECT_NE(refusal(executor, {.grid = {1}, .block = {32}, .shared_bytes = 232449}, invalid)
                .find("232449"),
            std::string::npos);
  EXPECT_NE(refusal(executor, {.grid = {3}, .block = {32}, .cluster = {2}}, invalid)
                .find("multiple of the cluster"),
            std::string::npos);
  EXPECT_NE(refusal(executor, {.grid = {17}, .block = {32}, .cluster = {17}}, invalid)
                .find("1 to 16 blocks"),
            std::string::npos);
  const std::string too_many = refusal(
      executor, {.grid = {9}, .block = {1024}, .cooperative = true}, ErrorCode::kUnsupported);
  EXPECT_NE(too_many.find("9 blocks of 1024 threads"), std::string::npos) << too_many;
  EXPECT_NE(too_many.find("4 SMs hold 8"), std::string::npos) << too_many;
  EXPECT_NO_THROW(executor.check(
      *make_request("fits", {.grid = {8}, .block = {1024}, .cooperative = true}, nothing)));
  EXPECT_NO_THROW(executor.check(
      *make_request("fits", {.grid = {1}, .block = {32}, .shared_bytes = 232448}, nothing)));
}

TEST(Executor, RefusesImpossibleDevices) {
  EXPECT_THROW(Executor({0, 1}), Error);
  EXPECT_THROW(Executor({4, -1}), Error);
}

// A cooperative grid that fills the device waits for its turn and then runs whole.
TEST(Executor, CooperativeGridWaitsForRoom) {
  Executor executor({1, 2});
  std::uint32_t flag = 0, seen = 0, counter = 0;
  std::vector<std::uint32_t> after(2, 0);
  Completion first, second;
  executor.submit(make_request("holds", {.grid = {1}, .block = {1024}}, await_value, &flag, &seen),
                  first.callback());
  executor.submit(make_request("waits", {.grid = {2}, .block = {1024}, .cooperative = true},
                               grid_barrier, &counter, after.data()),
                  second.callback());
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  EXPECT_EQ(__atomic_load_n(&counter, __ATOMIC_RELAXED), 0u);
  __atomic_store_n(&flag, 1u, __ATOMIC_RELEASE);
  EXPECT_EQ(first.wait(), "");
  EXPECT_EQ(second.wait(), "");
  EXPECT_EQ(after[0], 2u);
  EXPECT_EQ(after[1], 2u);
}

}  // namespace
}  // namespace rungs::emulator::testing
