#include "fixture.hpp"
#include "memory_conformance.hpp"

#include <rungs/testing/conforms.hpp>

#include <cstdint>
#include <vector>

namespace rungs::ptx::test {
namespace {

constexpr std::uint32_t kPoison = 0xdeadbeef;

TEST_F(Conformance, MbarrierTokens) {
  testing::conforms(
      "mbarrier_init mbarrier_inval mbarrier_arrive mbarrier_arrive_token "
      "mbarrier_arrive_no_complete mbarrier_arrive_drop mbarrier_arrive_drop_no_complete "
      "mbarrier_arrive_expect_tx_token mbarrier_expect_tx mbarrier_complete_tx "
      "mbarrier_pending_count mbarrier_test_wait mbarrier_test_wait_token mbarrier_try_wait_token "
      "mbarrier_wait_token mbarrier_try_wait_for mbarrier_arrive_relaxed "
      "mbarrier_try_wait_relaxed");
  const auto buffer = filled(kTokenWords, kPoison);
  launch_mbarrier_tokens(nullptr, buffer.data());
  const std::vector<std::uint32_t> expected{
      5,       4,
      0,       0,
      1,           // pending before each arrival; phase 0 runs, the one before it is over
      1,       1,  // the fifth arrival ends it
      0,       0,
      1,       0,  // phase 1 waits for its bytes
      5,       0,
      1,       3,
      1,  // two drop out
      77,      (1u << 20) - 1,
      1,       0,
      1,       kPoison,
      kPoison, kPoison};
  EXPECT_EQ(buffer.download(), expected);
}

TEST_F(Conformance, MbarrierDrops) {
  testing::conforms("mbarrier_arrive_drop mbarrier_arrive_token mbarrier_wait_token");
  const auto buffer = filled(4 * 128, kPoison);
  launch_mbarrier_drops(nullptr, buffer.data());
  const std::vector<std::uint32_t> out = buffer.download();
  for (std::uint32_t i = 0; i < 4 * 128; i++) {
    const std::uint32_t phase = i / 128, t = i % 128;
    EXPECT_EQ(out[i], t / 32 <= phase ? kPoison : phase * 1000 + 32 * phase + t % 32) << i;
  }
}

TEST_F(Conformance, MbarrierRemote) {
  testing::conforms(
      "mbarrier_arrive_cluster mbarrier_arrive_relaxed_cluster mbarrier_arrive_drop_cluster "
      "mbarrier_expect_tx_cluster mbarrier_arrive_expect_tx_cluster mbarrier_complete_tx_cluster "
      "mbarrier_try_wait_cluster mbarrier_wait_cluster");
  const auto buffer = filled(2 * kRemoteWords, kPoison);
  launch_mbarrier_remote(nullptr, buffer.data());
  const std::vector<std::uint32_t> out = buffer.download();
  for (std::uint32_t i = 0; i < 2 * kRemoteWords; i++) {
    constexpr std::uint32_t kExpected[kRemoteWords] = {1,       0,       1,       1,
                                                       kPoison, kPoison, kPoison, kPoison};
    EXPECT_EQ(out[i], kExpected[i % kRemoteWords]) << i;
  }
}

}  // namespace
}  // namespace rungs::ptx::test
