// Misuse of single instructions: each must end the launch with a report that names it.

#include "launch_kernel.hpp"

#include <rungs/core/dtype.hpp>
#include <rungs/gpu/kernel.hpp>
#include <rungs/ptx/fence.hpp>
#include <rungs/ptx/mbarrier.hpp>
#include <rungs/ptx/sync.hpp>
#include <rungs/ptx/wgmma.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace rungs::emulator::testing {
namespace {

struct alignas(1024) Tile {
  bf16 values[64 * 64];
};

RUNGS_KERNEL(128) no_proxy_fence(bool fence, float* out) {
  RUNGS_DYNAMIC_SHARED(Tile, s);
  for (unsigned i = threadIdx.x; i < 64 * 64; i += 128) s.values[i] = to_bf16(1.0f);
  if (fence) ptx::fence_proxy_async();
  ptx::syncthreads();
  float d[32];
  for (float& value : d) value = 0;
  const std::uint64_t operand =
      ptx::wgmma_descriptor(ptx::shared_u32(s.values), 16, 1024, gpu::Swizzle::k128B);
  ptx::wgmma_fence();
  ptx::wgmma_bf16<64>(d, operand, operand, true);
  ptx::wgmma_commit();
  ptx::wgmma_wait<0>(d);
  out[threadIdx.x] = d[0];
}

TEST(Misuse, MissingProxyFence) {
  Executor executor({4, 1});
  std::vector<float> out(128, -1);
  const gpu::LaunchConfig config{.grid = {1}, .block = {128}, .shared_bytes = sizeof(Tile)};
  const std::string report = run(executor, config, no_proxy_fence, false, out.data());
  EXPECT_NE(report.find("proxy: wgmma operand A"), std::string::npos) << report;
  EXPECT_NE(report.find("fence_proxy_async()"), std::string::npos) << report;
  ASSERT_EQ(run(executor, config, no_proxy_fence, true, out.data()), "");
  for (const float value : out) EXPECT_EQ(value, 16.0f);
}

RUNGS_KERNEL(128) never_waits(float* out) {
  RUNGS_DYNAMIC_SHARED(Tile, s);
  float d[32];
  for (float& value : d) value = 0;
  const std::uint64_t operand =
      ptx::wgmma_descriptor(ptx::shared_u32(s.values), 16, 1024, gpu::Swizzle::k128B);
  ptx::wgmma_fence();
  ptx::wgmma_bf16<64>(d, operand, operand, false);
  ptx::wgmma_commit();
  out[threadIdx.x] = d[0];
}

TEST(Misuse, AccumulatorsReadInFlight) {
  Executor executor({4, 1});
  std::vector<float> out(128, -1);
  const gpu::LaunchConfig config{.grid = {1}, .block = {128}, .shared_bytes = sizeof(Tile)};
  const std::string report = run(executor, config, never_waits, out.data());
  EXPECT_NE(report.find("accumulators in flight: 128 threads never waited"), std::string::npos)
      << report;
  for (const float value : out) EXPECT_TRUE(std::isnan(value));
}

template <int kCase>
RUNGS_KERNEL(64)
misuse(std::uint32_t* out) {
  RUNGS_SHARED(std::uint64_t, barrier);
  const unsigned t = threadIdx.x, lane = t % 32;
  switch (kCase) {
    case 0:  // two different collectives meet
      out[t] = lane == 5 ? static_cast<std::uint32_t>(ptx::any(~0u, true)) : ptx::ballot(~0u, true);
      break;
    case 1:  // the mask lacks the caller
      out[t] = ptx::ballot(0xfffeu, true);
      break;
    case 2:  // a shuffle from a lane outside the mask
      if (lane < 16) out[t] = ptx::shfl_idx(0xffffu, t, 20);
      break;
    case 3:  // a lane that never comes
      if (lane != 9) ptx::syncwarp();
      break;
    case 4:  // named barrier with a count that is no whole number of warps
      ptx::bar_sync(1, 48);
      break;
    case 5:  // two counts at one barrier
      ptx::bar_sync(1, t < 32 ? 64 : 32);
      break;
    case 6:
      ptx::bar_sync(16, 64);
      break;
    case 7: {  // a barrier that was overwritten
      if (t == 0) ptx::mbarrier_init(&barrier, 1);
      ptx::syncthreads();
      if (t == 0) barrier = 0;
      ptx::syncthreads();
      if (t == 1) ptx::mbarrier_arrive(&barrier);
      break;
    }
    case 8:  // a pointer that is not to shared memory
      out[t] = ptx::shared_u32(out);
      break;
    case 9:  // half the block waits at another barrier
      if (t < 32) ptx::syncthreads();
      if (t >= 32) ptx::bar_sync(2, 64);
      break;
    case 10: {  // wgmma by half a warpgroup
      ptx::wgmma_fence();
      break;
    }
    case 11:
      if (t == 0) ptx::mbarrier_init(&barrier, 0);
      break;
    case 12:
      if (t == 0) ptx::mbarrier_init(&barrier, 1);
      ptx::syncthreads();
      ptx::mbarrier_wait(&barrier, 2);
      break;
    case 13:  // block rank beyond the cluster
      out[t] = ptx::map_shared(ptx::shared_u32(&barrier), 1);
      break;
    default:
      break;
  }
}

template <int kCase>
void expect_misuse(const std::vector<const char*>& words) {
  Executor executor({4, 1});
  std::vector<std::uint32_t> out(64, 0);
  const std::string report = run(executor, {.grid = {1}, .block = {64}}, misuse<kCase>, out.data());
  for (const char* word : words) {
    EXPECT_NE(report.find(word), std::string::npos) << "no \"" << word << "\" in: " << report;
  }
}

TEST(Misuse, IsReportedWithItsPlace) {
  expect_misuse<0>({"diverged warp", "vote.any", "vote.ballot", "lane 5", "misuse_test.cpp:"});
  expect_misuse<1>({"lane 0 calls vote.ballot with mask 0000fffe"});
  expect_misuse<2>({"reads lane 20 outside mask 0000ffff"});
  expect_misuse<3>({"deadlock", "the other lanes of mask ffffffff", "2 of 64 threads have ended"});
  expect_misuse<4>({"48 threads, not a positive multiple of 32"});
  expect_misuse<5>({"barrier 1 for 32 threads, but an earlier arrival of this phase said 64"});
  expect_misuse<6>({"barrier id 16"});
  expect_misuse<7>({"is overwritten"});
  expect_misuse<8>({"is not in the block's shared memory"});
  expect_misuse<9>({"deadlock", "barrier 0 for 64 threads {32 arrived}",
                    "barrier 2 for 64 threads {32 arrived}"});
  expect_misuse<10>({"in no full warpgroup of a block of 64"});
  expect_misuse<11>({"count of 0"});
  expect_misuse<12>({"parity 2"});
  expect_misuse<13>({"rank 1 in a cluster of 1"});
}

RUNGS_KERNEL(32) too_much_shared(std::uint8_t* out) {
  RUNGS_DYNAMIC_SHARED(Tile, s);
  out[0] = static_cast<std::uint8_t>(s.values[0].bits);
}

TEST(Misuse, DynamicSharedMemoryNotLaunchedWith) {
  Executor executor({4, 1});
  std::uint8_t out = 0;
  const std::string report =
      run(executor, {.grid = {1}, .block = {32}, .shared_bytes = 100}, too_much_shared, &out);
  EXPECT_NE(report.find("RUNGS_DYNAMIC_SHARED of 8192 bytes, but the launch has 100"),
            std::string::npos)
      << report;
}

RUNGS_KERNEL(64) read_unwritten(float* out) {
  RUNGS_SHARED_ARRAY(float, values, 64);
  out[blockIdx.x * blockDim.x + threadIdx.x] = values[threadIdx.x];
}

TEST(Misuse, SharedMemoryStartsAsNaN) {
  Executor executor({4, 1});
  std::vector<float> out(128, 0.0f);
  ASSERT_EQ(run(executor, {.grid = {2}, .block = {64}}, read_unwritten, out.data()), "");
  for (const float value : out) EXPECT_TRUE(std::isnan(value));
}

}  // namespace
}  // namespace rungs::emulator::testing
