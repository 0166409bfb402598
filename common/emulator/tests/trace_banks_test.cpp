// Bank conflicts: the passes of known access patterns, and accesses that lanes report one by one.

#include "launch_kernel.hpp"
#include "trace_hooks.hpp"

#include <rungs/emulator/trace.hpp>
#include <rungs/gpu/kernel.hpp>
#include <rungs/ptx/sync.hpp>
#include <rungs/testing/errors.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

namespace rungs::emulator::testing {
namespace {

using Wavefronts = std::pair<unsigned, unsigned>;  // taken, ideal

Wavefronts wavefronts(unsigned size_bytes, const std::function<std::uint32_t(unsigned)>& address,
                      std::uint32_t mask = ~0u) {
  std::uint32_t addresses[32];
  for (unsigned lane = 0; lane < 32; lane++) addresses[lane] = address(lane);
  unsigned ideal = 0;
  const unsigned taken = trace::bank_wavefronts(addresses, mask, size_bytes, &ideal);
  return {taken, ideal};
}

TEST(Banks, KnownPatterns) {
  const auto stride = [](std::uint32_t bytes) {
    return [bytes](unsigned lane) { return lane * bytes; };
  };
  EXPECT_EQ(wavefronts(4, stride(4)), Wavefronts(1, 1));
  EXPECT_EQ(wavefronts(4, stride(8)), Wavefronts(2, 1));
  EXPECT_EQ(wavefronts(4, stride(12)), Wavefronts(1, 1)) << "odd strides meet every bank once";
  EXPECT_EQ(wavefronts(4, stride(128)), Wavefronts(32, 1)) << "a column of a 32-word row";
  EXPECT_EQ(wavefronts(4, stride(132)), Wavefronts(1, 1)) << "a padded row";
  EXPECT_EQ(wavefronts(4, stride(0)), Wavefronts(1, 1)) << "a broadcast";
  EXPECT_EQ(wavefronts(1, stride(1)), Wavefronts(1, 1)) << "four lanes a word";
  EXPECT_EQ(wavefronts(2, stride(2)), Wavefronts(1, 1));
  EXPECT_EQ(wavefronts(8, stride(8)), Wavefronts(2, 2));
  EXPECT_EQ(wavefronts(8, stride(16)), Wavefronts(4, 2));
  EXPECT_EQ(wavefronts(16, stride(16)), Wavefronts(4, 4));
  EXPECT_EQ(wavefronts(4, stride(128), 0x3), Wavefronts(2, 1)) << "two lanes";
  EXPECT_EQ(wavefronts(16, stride(16), 0xff), Wavefronts(1, 1)) << "one pass of eight lanes";
  EXPECT_EQ(wavefronts(4, stride(4), 0), Wavefronts(0, 0));
}

TEST(Banks, LdmatrixWithAndWithoutSwizzle) {
  // Eight rows of 16 bytes a matrix, four matrices, out of a tile with rows of 128 bytes.
  EXPECT_EQ(wavefronts(16, [](unsigned lane) { return lane % 8 * 128 + lane / 8 * 16; }),
            Wavefronts(32, 4));
  EXPECT_EQ(
      wavefronts(16, [](unsigned lane) { return lane % 8 * 128 + (lane / 8 ^ lane % 8) * 16; }),
      Wavefronts(4, 4));
}

TEST(Banks, ASizeThatNoAccessHasIsRefused) {
  for (const unsigned size : {0u, 3u, 32u}) {
    EXPECT_TRUE(rungs::testing::has(
        rungs::testing::error_of([size] { wavefronts(size, [](unsigned) { return 0u; }); }),
        "1, 2, 4, 8 or 16"));
  }
}

// As a model would: every lane tells its address, then the instruction.
RUNGS_KERNEL(64) walk_columns() {
  for (unsigned i = 0; i < 3; i++) {
    const Location where{"kernel.cu", 7};
    trace::shared_access("ld.shared", threadIdx.x % 32 * 128 + 4 * i, 4, where);
    trace::instruction("ld.shared", where);
    ptx::syncwarp();
  }
  if (threadIdx.x % 32 < 2) {
    const Location where{"kernel.cu", 9};
    trace::shared_access("st.shared", threadIdx.x % 32 * 4, 4, where);
    trace::instruction("st.shared", where);
  }
}

TEST(Banks, LanesThatComeOneByOneAreOneAccess) {
  const ScopedOptions scope({});
  Executor executor({4, 1});
  trace::Session session({});
  ASSERT_EQ(run(executor, {.grid = {1}, .block = {64}}, &walk_columns), "");
  const std::optional<trace::Trace> traced = session.take();
  ASSERT_TRUE(traced.has_value());
  ASSERT_EQ(traced->totals.banks.size(), 2u);
  const trace::BankCount& loads = traced->totals.banks[0];
  EXPECT_EQ(loads.name, "ld.shared");
  EXPECT_EQ(loads.accesses, 6u);
  EXPECT_EQ(loads.wavefronts, 6u * 32);
  EXPECT_EQ(loads.ideal, 6u);
  const trace::BankCount& stores = traced->totals.banks[1];
  EXPECT_EQ(stores.accesses, 2u);
  EXPECT_EQ(stores.wavefronts, 2u);
}

}  // namespace
}  // namespace rungs::emulator::testing
