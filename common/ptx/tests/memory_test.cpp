#include "fixture.hpp"

#include <rungs/testing/conforms.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace rungs::ptx::test {
namespace {

TEST_F(Conformance, Loads) {
  testing::conforms("ld_relaxed_gpu ld_relaxed_sys ld_acquire_gpu ld_acquire_sys peek_relaxed_gpu");
  const auto u32 = upload<std::uint32_t>({1, 2, 3, 0xffffffffu});
  const auto i32 = upload<std::int32_t>({-1, -2, -3, std::numeric_limits<std::int32_t>::min()});
  const auto u64 = upload<std::uint64_t>({1ull << 63, 2, 3ull << 40, ~0ull});
  const auto out = filled<std::uint64_t>(13, 0xdead);
  launch_loads(nullptr, u32.data(), i32.data(), u64.data(), out.data());
  const auto sign_extended = [](std::int64_t value) { return static_cast<std::uint64_t>(value); };
  const std::vector<std::uint64_t> expected{1,
                                            2,
                                            3,
                                            0xffffffffu,
                                            sign_extended(-1),
                                            sign_extended(-2),
                                            sign_extended(-3),
                                            sign_extended(std::numeric_limits<std::int32_t>::min()),
                                            1ull << 63,
                                            2,
                                            3ull << 40,
                                            ~0ull,
                                            ~0ull};
  EXPECT_EQ(out.download(), expected);
}

TEST_F(Conformance, Stores) {
  testing::conforms("st_relaxed_gpu st_relaxed_sys st_release_gpu st_release_sys");
  const auto u32 = filled<std::uint32_t>(4, 0xdead);
  const auto i32 = filled<std::int32_t>(4, 0xdead);
  const auto u64 = filled<std::uint64_t>(4, 0xdead);
  launch_stores(nullptr, u32.data(), i32.data(), u64.data());
  EXPECT_EQ(u32.download(), (std::vector<std::uint32_t>{0x80000001u, 2, 3, 4}));
  EXPECT_EQ(i32.download(), (std::vector<std::int32_t>{-1, -2, -3, -4}));
  EXPECT_EQ(u64.download(),
            (std::vector<std::uint64_t>{1ull << 63, 2ull << 40, 3ull << 40, 4ull << 40}));
}

TEST_F(Conformance, LinesCarryTheirFlags) {
  testing::conforms("ld_volatile_v4 st_volatile_v4");
  const auto lines = filled<std::uint64_t>(128, 0);
  const auto echo = filled<std::uint32_t>(64, 0);
  const auto out = filled<std::uint32_t>(1, 0);
  launch_lines(nullptr, reinterpret_cast<U32x4*>(lines.data()), echo.data(), out.data(), 40);
  EXPECT_EQ(out.download(), std::vector<std::uint32_t>{0});
  EXPECT_EQ(echo.download(), std::vector<std::uint32_t>(64, 40));
}

TEST_F(Conformance, MessagePassing) {
  testing::conforms(
      "ld_acquire_gpu st_release_gpu ld_acquire_sys st_release_sys fence_acq_rel_gpu "
      "fence_acq_rel_sys");
  constexpr unsigned kCount = 5000;
  for (int how = 0; how < 4; how++) {
    for (int round = 0; round < 5; round++) {
      const auto data = filled<std::uint32_t>(kCount, 0xdead);
      const auto out = filled<std::uint32_t>(kCount, 0xdead);
      const auto flag = filled<std::uint32_t>(1, 0);
      launch_message(nullptr, data.data(), flag.data(), out.data(), kCount, how);
      const std::vector<std::uint32_t> received = out.download();
      for (std::uint32_t i = 0; i < kCount; i++)
        ASSERT_EQ(received[i], i * 17 + 1) << "how " << how;
    }
  }
}

TEST_F(Conformance, Atomics) {
  testing::conforms(
      "atomic_add_gpu atomic_add_sys red_add_gpu red_add_sys atomic_max_gpu atomic_cas_gpu "
      "atomic_cas_sys atomic_exchange_gpu atomic_exchange_sys");
  AtomicCells start{};
  start.i32[4] = std::numeric_limits<std::int32_t>::min();
  const auto cells = upload<AtomicCells>({start});
  const auto tickets = filled<std::uint32_t>(256, ~0u);
  launch_atomics(nullptr, cells.data(), tickets.data());
  const AtomicCells end = cells.download()[0];
  constexpr std::uint32_t kSum = 255 * 256 / 2;
  const std::vector<std::uint32_t> u32(std::begin(end.u32), std::end(end.u32));
  EXPECT_EQ(u32, (std::vector<std::uint32_t>{256, kSum, 768, kSum, 0x800000ffu, 7, 0, 1}));
  const std::vector<std::int32_t> i32(std::begin(end.i32), std::end(end.i32));
  EXPECT_EQ(i32, (std::vector<std::int32_t>{-256, -static_cast<std::int32_t>(kSum), -512,
                                            static_cast<std::int32_t>(kSum), -745, -7, 1, 5}));
  const std::vector<std::uint64_t> u64(std::begin(end.u64), std::end(end.u64));
  EXPECT_EQ(u64, (std::vector<std::uint64_t>{256ull << 33, std::uint64_t{kSum} << 33, 256ull << 34,
                                             kSum, 1ull << 50, 9}));
  const std::vector<float> f32(std::begin(end.f32), std::end(end.f32));
  EXPECT_EQ(f32, (std::vector<float>{256.0f, static_cast<float>(kSum), 128.0f,
                                     -static_cast<float>(kSum)}));
  std::vector<std::uint32_t> sorted = tickets.download();  // every ticket once
  std::sort(sorted.begin(), sorted.end());
  for (std::uint32_t i = 0; i < 256; i++) EXPECT_EQ(sorted[i], i);
}

TEST_F(Conformance, SpinLock) {
  testing::conforms("atomic_cas_gpu atomic_exchange_gpu fence_acq_rel_gpu");
  const auto lock = filled<std::uint32_t>(1, 0);
  const auto counter = filled<std::uint32_t>(1, 0);
  launch_spin_lock(nullptr, lock.data(), counter.data());
  EXPECT_EQ(counter.download()[0], 160u);
  EXPECT_EQ(lock.download()[0], 0u);
}

// Rounded once: compared bit for bit with the exact sum in a wider format where that is exact.
TEST_F(Conformance, Fma) {
  testing::conforms("fma");
  std::mt19937 random(3);
  std::uniform_real_distribution<float> uniform(-2.0f, 2.0f);
  constexpr unsigned kCount = 4096;
  std::vector<float> a(kCount), b(kCount), c(kCount);
  for (unsigned i = 0; i < kCount; i++) {
    a[i] = uniform(random);
    b[i] = uniform(random);
    c[i] = i % 2 == 0 ? -a[i] * b[i]
                      : uniform(random);  // cancels: what is left is the product's rounding error
  }
  const auto out = filled<float>(kCount, std::numeric_limits<float>::quiet_NaN());
  const auto da = upload(a), db = upload(b), dc = upload(c);
  launch_fma(nullptr, da.data(), db.data(), dc.data(), out.data(), kCount);
  const std::vector<float> result = out.download();
  unsigned fused = 0;
  for (unsigned i = 0; i < kCount; i++) {
    // 24 x 24 bits fit in a double, and so does the sum when it cancels.
    const float expected = std::fma(a[i], b[i], c[i]);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(result[i]), std::bit_cast<std::uint32_t>(expected)) << i;
    if (i % 2 == 0) {
      EXPECT_EQ(static_cast<double>(result[i]),
                static_cast<double>(a[i]) * b[i] + static_cast<double>(c[i]));
      if (result[i] != 0) fused++;
    }
  }
  EXPECT_GT(fused, kCount / 4);  // multiplying and adding apart would give zeros
}

}  // namespace
}  // namespace rungs::ptx::test
