// Warp collectives and barriers of a block and of a cluster.

#include "launch_kernel.hpp"

#include <rungs/gpu/kernel.hpp>
#include <rungs/ptx/mbarrier.hpp>
#include <rungs/ptx/sync.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <vector>

namespace rungs::emulator::testing {
namespace {

constexpr std::uint32_t kAll = ~0u;

RUNGS_KERNEL(128) every_collective(std::uint32_t* out) {  // out[8][128]
  const unsigned t = threadIdx.x;
  const int lane = static_cast<int>(t % 32);
  const std::uint32_t value = t * 3;
  out[t] = ptx::shfl_idx(kAll, value, (lane + 5) % 32);
  out[128 + t] = ptx::shfl_xor(kAll, value, 9);
  out[256 + t] = ptx::shfl_down(kAll, value, 4);
  out[384 + t] = ptx::shfl_up(kAll, value, 4);
  out[512 + t] = ptx::ballot(kAll, lane % 3 == 0);
  out[640 + t] = (ptx::any(kAll, lane == 31) ? 1u : 0u) | (ptx::any(kAll, false) ? 2u : 0u);
  out[768 + t] = (ptx::all(kAll, true) ? 1u : 0u) | (ptx::all(kAll, lane != 7) ? 2u : 0u);
  out[896 + t] = ptx::elect_one() ? 1 : 0;
}

TEST(WarpCollectives, GiveEveryLaneItsResult) {
  for (const std::uint64_t seed : {0, 1, 2}) {
    Options options;
    options.seed = seed;
    const ScopedOptions scope(options);
    Executor executor({4, 1});
    std::vector<std::uint32_t> out(8 * 128, 0xdeadbeef);
    ASSERT_EQ(run(executor, {.grid = {1}, .block = {128}}, every_collective, out.data()), "");
    for (std::uint32_t t = 0; t < 128; t++) {
      const std::uint32_t lane = t % 32, warp = t - lane;
      EXPECT_EQ(out[t], (warp + (lane + 5) % 32) * 3);
      EXPECT_EQ(out[128 + t], (warp + (lane ^ 9)) * 3);
      EXPECT_EQ(out[256 + t], (lane + 4 < 32 ? t + 4 : t) * 3);
      EXPECT_EQ(out[384 + t], (lane >= 4 ? t - 4 : t) * 3);
      EXPECT_EQ(out[512 + t], 0x49249249u);
      EXPECT_EQ(out[640 + t], 1u);
      EXPECT_EQ(out[768 + t], 1u);
      EXPECT_EQ(out[896 + t], lane == 0 ? 1u : 0u);
    }
  }
}

RUNGS_KERNEL(96) diverged(std::uint32_t* out) {
  const unsigned t = threadIdx.x, lane = t % 32;
  std::uint32_t value = t;
  if (lane < 16) {
    for (int i = 0; i < 3; i++) value = ptx::shfl_idx(0xffffu, value, 3);
  } else {
    value += ptx::shfl_down(0xffff0000u, value, 1);
  }
  ptx::syncwarp();
  out[t] = value;
}

TEST(WarpCollectives, HalvesOfADivergedWarpMeetApart) {
  Executor executor({4, 1});
  std::vector<std::uint32_t> out(96, 0);
  ASSERT_EQ(run(executor, {.grid = {1}, .block = {96}}, diverged, out.data()), "");
  for (std::uint32_t t = 0; t < 96; t++) {
    const std::uint32_t lane = t % 32;
    EXPECT_EQ(out[t], lane < 16 ? t - lane + 3 : t + (lane < 31 ? t + 1 : t)) << t;
  }
}

// 64-bit and float values, and a last warp that is not full.
RUNGS_KERNEL(40) wide_values(std::uint64_t* wide, float* sums) {
  const unsigned t = threadIdx.x;
  wide[t] = ptx::shfl_xor(kAll, std::uint64_t{t} << 40, 1);
  float sum = static_cast<float>(t);
  for (int step = 4; step > 0; step /= 2) sum += ptx::shfl_xor(kAll, sum, step);
  sums[t] = sum;
}

TEST(WarpCollectives, TakeEightBytesAndPartialWarps) {
  Executor executor({4, 1});
  std::vector<std::uint64_t> wide(40, 0);
  std::vector<float> sums(40, 0);
  ASSERT_EQ(run(executor, {.grid = {1}, .block = {40}}, wide_values, wide.data(), sums.data()), "");
  for (std::uint32_t t = 0; t < 40; t++) {
    EXPECT_EQ(wide[t], std::uint64_t{t ^ 1} << 40);
    EXPECT_EQ(sums[t], static_cast<float>(t / 8 * 8 * 8 + 28));
  }
}

RUNGS_KERNEL(1024) neighbours(std::uint32_t* out, int rounds) {
  RUNGS_SHARED_ARRAY(std::uint32_t, values, 1024);
  const unsigned t = threadIdx.x, n = blockDim.x;
  values[t] = t;
  ptx::syncthreads();
  for (int i = 0; i < rounds; i++) {
    const std::uint32_t next = values[(t + 1) % n];
    ptx::syncthreads();
    values[t] = next;
    ptx::syncthreads();
  }
  out[blockIdx.x * n + t] = values[t];
}

TEST(BlockBarrier, OrdersSharedMemory) {
  for (const std::uint64_t seed : {0, 5}) {
    Options options;
    options.seed = seed;
    const ScopedOptions scope(options);
    Executor executor({4, 2});
    for (const unsigned n : {1u, 33u, 128u, 1000u, 1024u}) {
      std::vector<std::uint32_t> out(3 * n, ~0u);
      ASSERT_EQ(run(executor, {.grid = {3}, .block = {n}}, neighbours, out.data(), 5), "");
      for (unsigned i = 0; i < 3 * n; i++)
        ASSERT_EQ(out[i], (i % n + 5) % n) << "n " << n << " seed " << seed;
    }
  }
}

// Warps 0 and 1 produce and arrive; warps 2 and 3 wait for them. Barrier 3 and barrier 4 take
// turns.
RUNGS_KERNEL(128) producers(std::uint32_t* out) {
  RUNGS_SHARED_ARRAY(std::uint32_t, buffer, 64);
  for (std::uint32_t round = 0; round < 4; round++) {
    if (threadIdx.x < 64) {
      buffer[threadIdx.x] = threadIdx.x * 10 + round;
      ptx::bar_arrive(3, 128);
      ptx::bar_sync(4, 128);
    } else {
      ptx::bar_sync(3, 128);
      out[round * 64 + threadIdx.x - 64] = buffer[127 - threadIdx.x];
      ptx::bar_arrive(4, 128);
    }
  }
}

TEST(BlockBarrier, NamedBarriersSeparateProducersAndConsumers) {
  Executor executor({4, 1});
  std::vector<std::uint32_t> out(256, 0);
  ASSERT_EQ(run(executor, {.grid = {1}, .block = {128}}, producers, out.data()), "");
  for (std::uint32_t i = 0; i < 256; i++) EXPECT_EQ(out[i], (63 - i % 64) * 10 + i / 64);
}

// Every block of a cluster arrives at a barrier that lies in its right neighbour's shared memory.
RUNGS_KERNEL(64) cluster_ring(std::uint32_t* out) {
  RUNGS_SHARED(std::uint64_t, arrived);
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&arrived, 64);
    ptx::fence_mbarrier_init();
  }
  ptx::cluster_arrive();
  ptx::cluster_wait();
  const std::uint32_t rank = ptx::cluster_rank();
  ptx::mbarrier_arrive_cluster(ptx::map_shared(ptx::shared_u32(&arrived), (rank + 1) % 4));
  ptx::mbarrier_wait(&arrived, 0);
  if (threadIdx.x == 0) out[blockIdx.x] = rank + 1;
  ptx::cluster_arrive();
  ptx::cluster_wait();
}

TEST(Cluster, BlocksReachEachOthersBarriers) {
  Executor executor({4, 2});
  std::vector<std::uint32_t> out(12, 0);
  ASSERT_EQ(run(executor, {.grid = {12}, .block = {64}, .cluster = {4}}, cluster_ring, out.data()),
            "");
  for (std::uint32_t i = 0; i < 12; i++) EXPECT_EQ(out[i], i % 4 + 1);
}

RUNGS_KERNEL(64) phases(std::uint32_t* out) {
  RUNGS_SHARED(std::uint64_t, full);
  RUNGS_SHARED(std::uint64_t, empty);
  RUNGS_SHARED(std::uint32_t, slot);
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&full, 1);
    ptx::mbarrier_init(&empty, 32);
    ptx::fence_mbarrier_init();
  }
  ptx::syncthreads();
  for (std::uint32_t i = 0; i < 6; i++) {
    if (threadIdx.x == 0) {
      ptx::mbarrier_wait(&empty, (i & 1) ^ 1);  // a fresh barrier passes parity 1
      slot = i * i;
      ptx::mbarrier_arrive(&full);
    } else if (threadIdx.x >= 32) {
      while (!ptx::mbarrier_try_wait(&full, i & 1)) {
      }
      out[i * 32 + threadIdx.x - 32] = slot;
      ptx::mbarrier_arrive(&empty);
    }
  }
}

TEST(Mbarrier, PhasesAlternate) {
  for (const std::uint64_t seed : {0, 3}) {
    Options options;
    options.seed = seed;
    const ScopedOptions scope(options);
    Executor executor({4, 1});
    std::vector<std::uint32_t> out(6 * 32, ~0u);
    ASSERT_EQ(run(executor, {.grid = {1}, .block = {64}}, phases, out.data()), "");
    for (std::uint32_t i = 0; i < 6 * 32; i++) EXPECT_EQ(out[i], i / 32 * (i / 32));
  }
}

}  // namespace
}  // namespace rungs::emulator::testing
