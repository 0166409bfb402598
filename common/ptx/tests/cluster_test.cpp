#include "fixture.hpp"
#include "memory_conformance.hpp"

#include <rungs/testing/conforms.hpp>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace rungs::ptx::test {
namespace {

constexpr std::uint32_t kPoison = 0xdeadbeef;

TEST_F(Conformance, ClusterIndices) {
  testing::conforms(
      "cluster_rank cluster_size cluster_block_index cluster_extent cluster_index cluster_grid "
      "map_shared map_shared_pointer shared_rank");
  const auto buffer = filled(32 * kIndexWords, kPoison);
  launch_cluster_indices(nullptr, buffer.data());
  const std::vector<std::uint32_t> out = buffer.download();
  for (std::uint32_t block = 0; block < 32; block++) {
    const std::uint32_t x = block % 4, y = block / 4 % 4, z = block / 16;
    const std::uint32_t rank = x % 2 + y % 2 * 2 + z % 2 * 4, peer = (rank + 3) % 8;
    const std::vector<std::uint32_t> expected{
        rank, 8, x % 2, y % 2, z % 2, 2, 2, 2, x / 2, y / 2, z / 2, 2, 2, 1, peer * 110 + rank,
        peer};
    const auto* row = out.data() + block * kIndexWords;
    EXPECT_EQ(std::vector<std::uint32_t>(row, row + kIndexWords), expected) << block;
  }
}

TEST_F(Conformance, ClusterWords) {
  testing::conforms(
      "ld_shared_cluster ld_shared_cluster_v4 st_shared_cluster st_shared_cluster_v4 "
      "cluster_arrive_relaxed");
  const auto buffer = filled(4 * 64, kPoison);
  launch_cluster_words(nullptr, buffer.data());
  const std::vector<std::uint32_t> out = buffer.download();
  for (std::uint32_t i = 0; i < 16; i++) {
    const std::uint32_t value = (i / 4 + 1) % 4 * 100 + i % 4;  // of rank + 1
    std::vector<std::uint32_t> expected(16, kPoison);
    const std::uint32_t words[9] = {value, 0u - value, value * 2, value * 2, value * 2,
                                    value, value + 1,  value + 2, value + 3};
    std::copy(words, words + 9, expected.begin());
    EXPECT_EQ(std::vector<std::uint32_t>(out.begin() + i * 16, out.begin() + i * 16 + 16), expected)
        << i;
  }
}

TEST_F(Conformance, ClusterFlags) {
  testing::conforms(
      "ld_acquire_shared_cluster ld_relaxed_shared_cluster st_release_shared_cluster "
      "st_relaxed_shared_cluster");
  const auto buffer = filled(4, kPoison);
  launch_cluster_flags(nullptr, buffer.data(), 25);
  // Every round adds 1 + 2 + 3 + 4.
  EXPECT_EQ(buffer.download(), (std::vector<std::uint32_t>{250, 241, 243, 246}));
}

TEST_F(Conformance, ClusterBarrierForms) {
  testing::conforms(
      "cluster_arrive cluster_wait cluster_arrive_unaligned cluster_arrive_relaxed_unaligned "
      "cluster_wait_unaligned");
  const auto buffer = filled(2 * 64, kPoison);
  launch_cluster_barriers(nullptr, buffer.data());
  const std::vector<std::uint32_t> out = buffer.download();
  for (std::uint32_t i = 0; i < 128; i++) {
    const std::uint32_t rank = i / 64, t = i % 64;
    const bool ended = rank == 0 && t >= 32;
    EXPECT_EQ(out[i], ended ? kPoison : (rank ^ 1) * 1000 + t % 32) << i;
  }
}

TEST_F(Conformance, StoreAsync) {
  testing::conforms("st_async st_async_v2 st_async_v4");
  for (int round = 0; round < 3; round++) {
    const auto buffer = filled(2 * 96, kPoison);
    launch_store_async(nullptr, buffer.data());
    const std::vector<std::uint32_t> out = buffer.download();
    for (std::uint32_t i = 0; i < 16; i++) {
      const std::uint32_t v = (i / 8 ^ 1) * 1000 + i % 8 * 10;
      const std::vector<std::uint32_t> expected{v,     v * 2, v,     5,     v + 1, v + 2,
                                                v + 3, v + 4, v + 5, v + 6, v + 7, v + 8};
      EXPECT_EQ(std::vector<std::uint32_t>(out.begin() + i * 12, out.begin() + i * 12 + 12),
                expected)
          << i;
    }
  }
}

TEST_F(Conformance, ReduceAsync) {
  testing::conforms(
      "red_async_add red_async_min red_async_max red_async_inc red_async_dec red_async_and "
      "red_async_or red_async_xor");
  const auto buffer = filled(16, kPoison);
  launch_reduce_async(nullptr, buffer.data());
  // The order of arrival is open; none of the operations depends on it.
  std::uint32_t words[14] = {7, 0, 5000, 100, 0, 0, 2, 50, ~0u, 0x80000000u, 0, 1, 1, 1};
  std::uint64_t sum = std::uint64_t{1} << 40;
  for (std::uint32_t id = 32; id < 128; id++) {
    words[0] += id;
    words[1] -= id;
    words[2] = std::min(words[2], id * 3);
    words[4] = std::max(words[4], id * 5);
    words[6] = words[6] >= 9 ? 0 : words[6] + 1;
    words[7] = words[7] == 0 || words[7] > 60 ? 60 : words[7] - 1;
    words[8] &= ~(1u << id % 32);
    words[9] |= 1u << id % 32 / 2;
    words[10] ^= id;
    sum += std::uint64_t{id} << 32;
  }
  words[3] = static_cast<std::uint32_t>(50 - 127);
  words[5] = 127 - 60;
  std::vector<std::uint32_t> expected(words, words + 14);
  expected.push_back(static_cast<std::uint32_t>(sum >> 32));
  expected.push_back(static_cast<std::uint32_t>(sum));
  EXPECT_EQ(buffer.download(), expected);
}

TEST_F(Conformance, RegisterRounds) {
  testing::conforms("setmaxnreg_inc setmaxnreg_dec");
  const auto buffer = filled(384, kPoison);
  launch_register_rounds(nullptr, buffer.data());
  const std::vector<std::uint32_t> out = buffer.download();
  for (std::uint32_t i = 0; i < 384; i++) EXPECT_EQ(out[i], i * 3);
}

}  // namespace
}  // namespace rungs::ptx::test
