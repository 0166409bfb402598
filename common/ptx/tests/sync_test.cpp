#include "fixture.hpp"

#include <rungs/testing/conforms.hpp>

#include <cstdint>
#include <vector>

namespace rungs::ptx::test {
namespace {

constexpr std::uint32_t kPoison = 0xdeadbeef;

TEST_F(Conformance, Collectives) {
  testing::conforms("shfl_idx shfl_xor shfl_down shfl_up ballot any all elect_one syncwarp");
  const auto buffer = filled(kCollectiveRows * 128, kPoison);
  launch_collectives(nullptr, buffer.data());
  const std::vector<std::uint32_t> out = buffer.download();
  int elected[4] = {};
  for (std::uint32_t t = 0; t < 128; t++) {
    const std::uint32_t lane = t % 32, warp = t - lane;
    EXPECT_EQ(out[t], (warp + (lane + 5) % 32) * 3);
    EXPECT_EQ(out[128 + t], (warp + (lane ^ 9)) * 3);
    EXPECT_EQ(out[256 + t], (lane + 4 < 32 ? t + 4 : t) * 3);
    EXPECT_EQ(out[384 + t], (lane >= 4 ? t - 4 : t) * 3);
    EXPECT_EQ(out[512 + t], 0x49249249u);
    EXPECT_EQ(out[640 + t], 1u);
    EXPECT_EQ(out[768 + t], 1u);
    ASSERT_LE(out[896 + t], 1u);
    elected[t / 32] += static_cast<int>(out[896 + t]);
    EXPECT_EQ(out[1024 + t], lane < 16 ? warp + 3 : t + (lane < 31 ? t + 1 : t));
  }
  for (const int count : elected) EXPECT_EQ(count, 1);
}

TEST_F(Conformance, WideShuffle) {
  testing::conforms("shfl_xor");
  const auto wide = filled<std::uint64_t>(64, kPoison);
  const auto sums = filled<float>(64, -1.0f);
  launch_wide_shuffle(nullptr, wide.data(), sums.data());
  const std::vector<std::uint64_t> exchanged = wide.download();
  const std::vector<float> totals = sums.download();
  for (std::uint32_t t = 0; t < 64; t++) {
    EXPECT_EQ(exchanged[t], std::uint64_t{t ^ 1} << 40);
    EXPECT_EQ(totals[t], static_cast<float>(t / 32 * 32 * 32 + 31 * 16));
  }
}

TEST_F(Conformance, BlockBarrier) {
  testing::conforms("syncthreads");
  for (const unsigned threads : {32u, 33u, 128u, 1000u, 1024u}) {
    const auto buffer = filled(3 * threads, kPoison);
    launch_neighbours(nullptr, buffer.data(), threads, 5);
    const std::vector<std::uint32_t> out = buffer.download();
    for (unsigned i = 0; i < 3 * threads; i++)
      ASSERT_EQ(out[i], (i % threads + 5) % threads) << threads;
  }
}

TEST_F(Conformance, NamedBarriers) {
  testing::conforms("bar_sync bar_arrive");
  const auto buffer = filled(256, kPoison);
  launch_named_barriers(nullptr, buffer.data());
  const std::vector<std::uint32_t> out = buffer.download();
  for (std::uint32_t i = 0; i < 256; i++) EXPECT_EQ(out[i], (63 - i % 64) * 10 + i / 64);
}

TEST_F(Conformance, MbarrierPhases) {
  testing::conforms(
      "mbarrier_init fence_mbarrier_init mbarrier_arrive mbarrier_wait mbarrier_try_wait");
  const auto buffer = filled(6 * 32, kPoison);
  launch_phases(nullptr, buffer.data());
  const std::vector<std::uint32_t> out = buffer.download();
  for (std::uint32_t i = 0; i < 6 * 32; i++) EXPECT_EQ(out[i], i / 32 * (i / 32) + 7);
}

TEST_F(Conformance, Cluster) {
  testing::conforms("cluster_rank map_shared mbarrier_arrive_cluster cluster_arrive cluster_wait");
  const auto buffer = filled(12, kPoison);
  launch_cluster_ring(nullptr, buffer.data(), 12);
  const std::vector<std::uint32_t> out = buffer.download();
  for (std::uint32_t i = 0; i < 12; i++) EXPECT_EQ(out[i], i % 4 + 1);
}

TEST_F(Conformance, ClockAdvances) {
  testing::conforms("globaltimer_ns nanosleep");
  const auto buffer = filled<std::uint64_t>(2, 0);
  launch_clock(nullptr, buffer.data());
  const std::vector<std::uint64_t> out = buffer.download();
  EXPECT_GT(out[0], 0u);
  EXPECT_GE(out[1], out[0] + 20000);
}

TEST_F(Conformance, RegisterExchangeReturns) {
  testing::conforms("setmaxnreg_inc setmaxnreg_dec");
  const auto buffer = filled(384, kPoison);
  launch_register_exchange(nullptr, buffer.data());
  const std::vector<std::uint32_t> out = buffer.download();
  for (std::uint32_t i = 0; i < 384; i++) EXPECT_EQ(out[i], i + 1);
}

}  // namespace
}  // namespace rungs::ptx::test
