#include "fixture.hpp"
#include "memory_conformance.hpp"

#include <rungs/testing/conforms.hpp>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace rungs::ptx::test {
namespace {

TEST_F(Conformance, ClusterAtomics) {
  testing::conforms(
      "atom_add_shared_cluster atom_min_shared_cluster atom_max_shared_cluster "
      "atom_and_shared_cluster atom_or_shared_cluster atom_xor_shared_cluster "
      "atom_exch_shared_cluster atom_cas_shared_cluster map_shared_pointer");
  const auto buffer = filled<std::uint64_t>(2 * kClusterCells + 128, 0xdead);
  launch_cluster_atomics(nullptr, buffer.data());
  constexpr std::uint64_t kStart = 0x0f0f0f0f;
  std::uint64_t sum = kStart << 20, largest = kStart << 20, smallest = kStart << 20;
  std::uint32_t add = kStart, band = kStart, bor = kStart, bxor = kStart, most = kStart;
  std::int64_t down = 3, low = 3, high = 3;
  for (std::uint32_t id = 0; id < 128; id++) {
    sum += std::uint64_t{id} << 33;
    largest = std::max(largest, std::uint64_t{id} << 40);
    smallest = std::min(smallest, std::uint64_t{id} + 5);
    add += id;
    band &= ~(1u << id % 16);
    bor |= 1u << id % 32;
    bxor ^= id * 9;
    most = std::max(most, 0x0f0f0f00u + id);
    down -= id;
    low = std::min<std::int64_t>(low, 20 - std::int64_t{id});
    high = std::max<std::int64_t>(high, std::int64_t{id} - 20);
  }
  const std::vector<std::uint64_t> cells{sum,
                                         largest,
                                         smallest,
                                         std::uint64_t{77} << 32,
                                         99,
                                         add,
                                         band,
                                         bor,
                                         bxor,
                                         78,
                                         98,
                                         most,
                                         static_cast<std::uint64_t>(down),
                                         static_cast<std::uint64_t>(low),
                                         static_cast<std::uint64_t>(high),
                                         2 * 8128 + 1};  // 0.5 + 0 + 1 ... 127, doubled
  std::vector<std::uint64_t> expected = cells;
  expected.insert(expected.end(), cells.begin(), cells.end());
  for (std::uint64_t i = 1; i <= 128; i++) expected.push_back(i);
  EXPECT_EQ(buffer.download(), expected);
}

TEST_F(Conformance, WiderProxyFences) {
  testing::conforms("fence_proxy_async_cluster fence_proxy_async_all");
  const auto out = filled<float>(256, -1.0f);
  launch_proxy_fences(nullptr, out.data());
  std::vector<float> expected(256, 32 * 16.0f);
  std::fill(expected.begin() + 128, expected.end(), 32 * 64.0f);
  EXPECT_EQ(out.download(), expected);
}

}  // namespace
}  // namespace rungs::ptx::test
