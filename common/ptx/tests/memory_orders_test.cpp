#include "fixture.hpp"
#include "memory_conformance.hpp"

#include <rungs/testing/conforms.hpp>

#include <cstdint>
#include <vector>

namespace rungs::ptx::test {
namespace {

TEST_F(Conformance, EveryOrderAndScope) {
  testing::conforms(
      "ld_weak ld_volatile ld_relaxed_cta ld_relaxed_cluster ld_relaxed_gpu ld_relaxed_sys "
      "ld_acquire_cta ld_acquire_cluster ld_acquire_gpu ld_acquire_sys ld_mmio st_weak st_volatile "
      "st_relaxed_cta st_relaxed_cluster st_release_cta st_release_cluster st_mmio");
  std::vector<std::uint64_t> words(kOrderRows);
  for (std::uint64_t i = 0; i < kOrderRows; i++) words[i] = (i + 1) * 0x9e3779b97f4a7c15ull;
  constexpr std::uint64_t kPoison = 0xdeadbeefdeadbeefull;
  const auto from = upload(words);
  const auto out = filled<std::uint64_t>(kOrderRows, kPoison);
  launch_orders(nullptr, from.data(), out.data());
  for (std::size_t i = 18; i < kOrderRows; i++)
    words[i] = (words[i] & 0xffffffffu) | (kPoison >> 32 << 32);
  EXPECT_EQ(out.download(), words);
}

TEST_F(Conformance, CacheHints) {
  testing::conforms(
      "ld_nc ld_nc_no_allocate ld_nc_no_allocate_l2_128 ld_nc_no_allocate_l2_256 ld_no_allocate "
      "ld_evict_first ld_evict_last ld_l2_64 ld_l2_128 ld_l2_256 st_no_allocate st_evict_first "
      "st_evict_last prefetch_l1 prefetch_l2");
  std::vector<std::uint32_t> words(kHintRows * 4);
  for (std::uint32_t i = 0; i < words.size(); i++) words[i] = (i + 1) * 0x9e3779b9u;
  const auto from = upload(words);
  const auto out = filled<std::uint32_t>(kHintRows * 4, 0xdeadbeef);
  launch_hints(nullptr, from.data(), out.data());
  EXPECT_EQ(out.download(), words);
}

TEST_F(Conformance, SequentiallyConsistentFences) {
  testing::conforms("fence_sc_cta fence_sc_cluster fence_sc_gpu fence_sc_sys");
  constexpr std::uint32_t kRounds = 64;
  for (int scope = 0; scope < 4; scope++) {
    for (int repeat = 0; repeat < 4; repeat++) {
      const auto flags = filled<std::uint32_t>(2 * kRounds, 0);
      const auto out = filled<std::uint32_t>(kRounds, 0);
      launch_handshake(nullptr, flags.data(), out.data(), kRounds, scope);
      for (const std::uint32_t sum : out.download()) {
        EXPECT_GE(sum, 1u) << scope;
        EXPECT_LE(sum, 2u) << scope;
      }
      if (scope >= 2) {
        EXPECT_EQ(flags.download(), std::vector<std::uint32_t>(2 * kRounds, 1));
      }
    }
  }
}

TEST_F(Conformance, MessagesInABlock) {
  testing::conforms(
      "ld_acquire_cta st_release_cta fence_acq_rel_cta ld_acquire_cluster st_release_cluster "
      "fence_acq_rel_cluster");
  constexpr std::uint32_t kRounds = 16;
  for (int how = 0; how < 4; how++) {
    const auto buffer = filled<std::uint32_t>(32 * kRounds, 0xdead);
    launch_block_message(nullptr, buffer.data(), kRounds, how);
    const std::vector<std::uint32_t> out = buffer.download();
    for (std::uint32_t i = 0; i < 32 * kRounds; i++)
      EXPECT_EQ(out[i], i / 32 * 1000 + 31 - i % 32) << how;
  }
}

TEST_F(Conformance, SixteenBytesArriveWhole) {
  testing::conforms(
      "ld_relaxed_gpu_b128 ld_relaxed_sys_b128 ld_acquire_gpu_b128 ld_acquire_sys_b128 "
      "st_relaxed_gpu_b128 st_relaxed_sys_b128 st_release_gpu_b128 st_release_sys_b128");
  const auto pair = upload<std::uint64_t>({0, ~0ull});
  const auto out = filled<std::uint32_t>(1, 0xdead);
  launch_pairs(nullptr, pair.data(), out.data(), 2000);
  EXPECT_EQ(out.download()[0], 0u);
  EXPECT_EQ(pair.download(), (std::vector<std::uint64_t>{2000, ~2000ull}));
}

}  // namespace
}  // namespace rungs::ptx::test
