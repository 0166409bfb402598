// Bugs planted in one multiplication of 64 x 64 x 64 whose operands ordinary stores have put into
// shared memory: descriptors, groups, fences, fragments. Every kernel is right with kNone.

#include "planted.hpp"

#include <rungs/core/dtype.hpp>
#include <rungs/gpu/kernel.hpp>
#include <rungs/ptx/fence.hpp>
#include <rungs/ptx/sync.hpp>
#include <rungs/ptx/wgmma.hpp>

#include <utility>

namespace rungs::emulator::testing {
namespace {

using gpu::Swizzle;
using rungs::testing::planted;

enum class Bug {
  kNone,
  kNoProxyFence,        // ordinary stores, then wgmma, no fence.proxy.async between
  kFenceBeforeStores,   // the fence stands above the stores
  kFenceByOneThread,    // one thread fences for all
  kReuseWithoutFence,   // the second operand overwrites the first without a new fence
  kNoBarrier,           // fence, but no barrier between the writing warp and the multiplying ones
  kNoSwizzleInStores,   // stored row by row, read swizzled
  kBaseUnaligned,       // a swizzled tile that does not start where the pattern repeats
  kNoneUnswizzled,      // right, in the layout without swizzle
  kLeadingForStride,    // the descriptor's two offsets exchanged (layout without swizzle)
  kAdvanceForgotten,    // every step multiplies the first 16 of K
  kAdvanceInBytes,      // the step of 32 bytes added to a field that counts 16
  kTransposed,          // operand B said to be N-major
  kOperandsExchanged,   // A's descriptor for B and the reverse
  kNarrowerShape,       // N of 32 where the tile has 64
  kOneWaitGroupTooFew,  // wait_group 1 where 0 is due
  kNoCommit,
  kOverwritesSum,       // scale-d 0 in every step
  kThreeWarps,          // the fourth warp stays away
  kDescriptorOfWarp,    // each warp passes the descriptor of its own rows
  kReadsInFlight,       // accumulators used before the wait
  kOtherFragment,       // rows and columns of the fragment exchanged
  kOperandOverwritten,  // operand B refilled while the multiplication runs
};

constexpr unsigned kTile = 64;

struct alignas(1024) Tiles {
  bf16 a[kTile * kTile];
  bf16 b[kTile * kTile];
  bf16 room[512];
};

// Element (row, k) of a K-major tile of 128-byte rows, swizzled by 128 bytes: chunk xor row.
RUNGS_DEVICE unsigned swizzled(unsigned row, unsigned k) {
  return row * kTile + ((k / 8) ^ (row % 8)) * 8 + k % 8;
}
// The same without swizzle: 8 x 8 core matrices, along K first.
RUNGS_DEVICE unsigned in_cores(unsigned row, unsigned k) {
  return (row / 8 * 8 + k / 8) * 64 + row % 8 * 8 + k % 8;
}

// D[64, 64] = A B^T twice over: kNone gives 2 A B^T, the second time with B's rows in place anew.
template <Bug kBug>
RUNGS_KERNEL(160)
multiply(const bf16* a, const bf16* b, float* out) {
  RUNGS_DYNAMIC_SHARED(Tiles, s);
  const unsigned t = threadIdx.x;
  constexpr bool kPlain = kBug == Bug::kLeadingForStride || kBug == Bug::kNoneUnswizzled;
  bf16* const tile_a = kBug == Bug::kBaseUnaligned ? s.a + 64 : s.a;
  const auto place = [](unsigned row, unsigned k) {
    if (kBug == Bug::kNoSwizzleInStores) return row * kTile + k;
    return kPlain ? in_cores(row, k) : swizzled(row, k);
  };
  const auto fill = [&](bf16* tile, const bf16* from) {
    for (unsigned i = t - 128; i < kTile * kTile; i += 32)
      tile[place(i / kTile, i % kTile)] = from[i];
  };
  const auto fence = [&] {
    if (kBug == Bug::kNoProxyFence || kBug == Bug::kFenceBeforeStores) return;
    if (kBug != Bug::kFenceByOneThread || t == 128) ptx::fence_proxy_async();
  };
  // Warp 4 writes what the warpgroup multiplies.
  if (t >= 128) {
    if (kBug == Bug::kFenceBeforeStores) ptx::fence_proxy_async();
    fill(tile_a, a);
    fill(s.b, b);
    fence();
  }
  if (kBug != Bug::kNoBarrier) ptx::syncthreads();

  float d[32];
  for (float& value : d) value = 0;
  float early = 0;
  const Swizzle swizzle = kPlain ? Swizzle::kNone : Swizzle::k128B;
  unsigned leading = kPlain ? 128 : 16, stride = 1024;
  if (kBug == Bug::kLeadingForStride) std::swap(leading, stride);
  const auto multiply_once = [&] {
    const unsigned own = kBug == Bug::kDescriptorOfWarp ? t / 32 * 2048 : 0;
    std::uint64_t left =
        ptx::wgmma_descriptor(ptx::shared_u32(tile_a) + own, leading, stride, swizzle);
    std::uint64_t right = ptx::wgmma_descriptor(ptx::shared_u32(s.b), leading, stride, swizzle);
    if (kBug == Bug::kOperandsExchanged) std::swap(left, right);
    ptx::wgmma_fence();
    for (unsigned k = 0; k < 4; k++) {
      const unsigned step = (kPlain ? 16 : 2) * (kBug == Bug::kAdvanceInBytes ? 16 : 1);
      const std::uint64_t by = kBug == Bug::kAdvanceForgotten ? 0 : k * step;
      if constexpr (kBug == Bug::kNarrowerShape) {
        float(&half)[16] = reinterpret_cast<float(&)[16]>(d);
        ptx::wgmma_bf16<32>(half, left + by, right + by, true);
      } else {
        ptx::wgmma_bf16<64, false, kBug == Bug::kTransposed>(d, left + by, right + by,
                                                             kBug != Bug::kOverwritesSum);
      }
    }
    if (kBug != Bug::kNoCommit) ptx::wgmma_commit();
  };
  const auto wait = [&] {
    if constexpr (kBug == Bug::kOneWaitGroupTooFew) {
      ptx::wgmma_wait<1>(d);
    } else {
      ptx::wgmma_wait<0>(d);
    }
  };
  const bool multiplies = t < (kBug == Bug::kThreeWarps ? 96 : 128);
  if (multiplies) {
    multiply_once();
    if (kBug != Bug::kOperandOverwritten) wait();
  }
  ptx::syncthreads();
  if (t >= 128) {
    if (kBug == Bug::kFenceBeforeStores) ptx::fence_proxy_async();
    for (unsigned i = t - 128; i < kTile * kTile; i += 32)
      s.b[place(i / kTile, i % kTile)] = to_bf16(2 * to_float(b[i]));
    if (kBug != Bug::kReuseWithoutFence) fence();
  }
  ptx::syncthreads();
  if (multiplies) {
    if (kBug == Bug::kOperandOverwritten) wait();
    multiply_once();
    if (kBug == Bug::kReadsInFlight) early = d[0];
    wait();
  }
  if (t >= 128) return;
  for (unsigned j = 0; j < 32; j++) {
    unsigned row = 16 * (t / 32) + t % 32 / 4 + 8 * (j / 2 % 2);
    unsigned column = 8 * (j / 4) + 2 * (t % 4) + j % 2;
    if (kBug == Bug::kOtherFragment) std::swap(row, column);
    out[row * kTile + column] = kBug == Bug::kReadsInFlight && j == 0 ? early : d[j];
  }
}

template <Bug kBug>
Trial trial() {
  return [] {
    std::vector<bf16> a(kTile * kTile), b(kTile * kTile);
    for (std::size_t i = 0; i < a.size(); i++) {
      a[i] = to_bf16(static_cast<float>(static_cast<int>(i * 37 % 17) - 8));
      b[i] = to_bf16(static_cast<float>(static_cast<int>(i * 53 % 19) - 9));
    }
    std::vector<float> out(kTile * kTile, nan());
    Executor executor({4, 1});
    const gpu::LaunchConfig config{.grid = {1}, .block = {160}, .shared_bytes = sizeof(Tiles)};
    Outcome outcome;
    outcome.report = run(executor, config, multiply<kBug>, a.data(), b.data(), out.data());
    outcome.right = outcome.report.empty();
    for (std::size_t i = 0; i < kTile && outcome.right; i++) {
      for (std::size_t j = 0; j < kTile; j++) {
        double exact = 0;
        for (std::size_t k = 0; k < kTile; k++)
          exact += 3.0 * to_float(a[i * kTile + k]) * to_float(b[j * kTile + k]);
        outcome.right = outcome.right && static_cast<double>(out[i * kTile + j]) == exact;
      }
    }
    return outcome;
  };
}

TEST(PlantedWgmma, TheSoundMultiplicationIsRight) { expect_right(trial<Bug::kNone>()); }
TEST(PlantedWgmma, TheSoundUnswizzledOneIsRight) { expect_right(trial<Bug::kNoneUnswizzled>()); }
TEST(PlantedWgmma, NoProxyFence) {
  planted("no_proxy_fence_before_wgmma",
          "report of the fence epoch: written without a fence.proxy.async");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(trial<Bug::kNoProxyFence>(),
                {"proxy: wgmma operand A", "fence_proxy_async()", "planted_wgmma_test.cpp:"});
}
TEST(PlantedWgmma, NoProxyFenceWhenATileIsUsedAgain) {
  planted("no_proxy_fence_on_reuse",
          "report of the fence epoch: written without a fence.proxy.async");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(trial<Bug::kReuseWithoutFence>(), {"proxy: wgmma operand B"});
}
TEST(PlantedWgmma, NoBarrierBehindTheWriters) {
  planted("no_barrier_between_writers_and_wgmma", "NaN with early landing (late landing hides it)");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught_early(trial<Bug::kNoBarrier>());
}
TEST(PlantedWgmma, StoredWithoutTheSwizzle) {
  planted("stored_unswizzled_read_swizzled", "wrong result");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(trial<Bug::kNoSwizzleInStores>(), {});
}
TEST(PlantedWgmma, ASwizzledTileInTheMiddleOfThePattern) {
  planted("swizzled_tile_misaligned", "report: the tile starts inside the swizzle pattern");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(trial<Bug::kBaseUnaligned>(), {"behind where the swizzle pattern repeats"});
}
TEST(PlantedWgmma, LeadingAndStrideExchanged) {
  planted("descriptor_leading_for_stride", "wrong result");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(trial<Bug::kLeadingForStride>(), {});
}
TEST(PlantedWgmma, TheStepInKForgotten) {
  planted("descriptor_not_advanced", "wrong result");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(trial<Bug::kAdvanceForgotten>(), {});
}
TEST(PlantedWgmma, TheStepInKInBytes) {
  planted("descriptor_advanced_by_bytes", "report: the tile starts inside the swizzle pattern");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(trial<Bug::kAdvanceInBytes>(), {"behind where the swizzle pattern repeats"});
}
TEST(PlantedWgmma, TransposedFlag) {
  planted("transposed_flag", "wrong result");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(trial<Bug::kTransposed>(), {});
}
TEST(PlantedWgmma, OperandsExchanged) {
  planted("operands_exchanged", "wrong result");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(trial<Bug::kOperandsExchanged>(), {});
}
TEST(PlantedWgmma, ShapeTooNarrow) {
  planted("shape_narrower_than_the_tile", "wrong result");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(trial<Bug::kNarrowerShape>(), {});
}
TEST(PlantedWgmma, WaitGroupOffByOne) {
  planted("wait_group_off_by_one", "report: accumulators in flight; NaN until the wait");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(trial<Bug::kOneWaitGroupTooFew>(), {"accumulators in flight"});
}
TEST(PlantedWgmma, NoCommit) {
  planted("no_commit_group", "report: accumulators in flight; NaN until the wait");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(trial<Bug::kNoCommit>(), {"accumulators in flight"});
}
TEST(PlantedWgmma, EveryStepOverwritesTheSum) {
  planted("every_step_overwrites_the_sum", "wrong result");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(trial<Bug::kOverwritesSum>(), {});
}
TEST(PlantedWgmma, AWarpStaysAway) {
  planted("wgmma_by_three_warps", "deadlock report");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(trial<Bug::kThreeWarps>(), {"deadlock", "wgmma"});
}
TEST(PlantedWgmma, WarpsDisagreeOnTheDescriptor) {
  planted("descriptor_depends_on_the_warp", "report: the threads disagree on descriptors");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(trial<Bug::kDescriptorOfWarp>(), {"disagree on descriptors"});
}
TEST(PlantedWgmma, AccumulatorsReadInFlight) {
  planted("accumulators_read_before_the_wait", "NaN until the wait");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(trial<Bug::kReadsInFlight>(), {});
}
TEST(PlantedWgmma, RowsAndColumnsOfTheFragmentExchanged) {
  planted("fragment_rows_and_columns_exchanged", "wrong result");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(trial<Bug::kOtherFragment>(), {});
}
TEST(PlantedWgmma, AnOperandOverwrittenInFlight) {
  planted("operand_overwritten_in_flight", "wrong result with late landing");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(trial<Bug::kOperandOverwritten>(), {});
}

TEST(PlantedWgmma, FenceAboveTheStores) {
  planted("proxy_fence_before_the_stores",
          "nothing: the model counts a block's fences, not what each thread wrote before its own");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_missed(trial<Bug::kFenceBeforeStores>());
}
TEST(PlantedWgmma, OneThreadFencesForAll) {
  planted("proxy_fence_by_one_thread",
          "nothing: the model counts a block's fences, not what each thread wrote before its own");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_missed(trial<Bug::kFenceByOneThread>());
}

}  // namespace
}  // namespace rungs::emulator::testing
