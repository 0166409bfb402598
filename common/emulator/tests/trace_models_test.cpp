// What traces show of copies by lanes, copies out of shared memory and matrix loads.

#include "launch_kernel.hpp"

#include <rungs/emulator/trace.hpp>
#include <rungs/gpu/kernel.hpp>
#include <rungs/ptx/async_copy.hpp>
#include <rungs/ptx/bulk.hpp>
#include <rungs/ptx/fence.hpp>
#include <rungs/ptx/matrix.hpp>
#include <rungs/ptx/sync.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace rungs::emulator::testing {
namespace {

struct alignas(1024) Tile {
  std::byte bytes[4096];  // 32 rows of 128
};

// A warp fetches the tile, 16 bytes a lane and copy, reads matrices of it with and without
// conflicts, and sends it back.
RUNGS_KERNEL(32) there_and_back(const std::byte* from, std::byte* to, std::uint32_t* sums) {
  RUNGS_DYNAMIC_SHARED(Tile, tile);
  const unsigned lane = threadIdx.x;
  for (unsigned i = 0; i < 8; i++)
    ptx::cp_async_cg(tile.bytes + i * 512 + lane * 16, from + i * 512 + lane * 16);
  ptx::cp_async_commit_group();
  ptx::cp_async_wait_group<0>();
  ptx::syncwarp();
  std::uint32_t plain[4], swizzled[4];
  ptx::ldmatrix(plain, tile.bytes + lane % 8 * 128 + lane / 8 * 16);
  ptx::ldmatrix(swizzled, tile.bytes + lane % 8 * 128 + (lane / 8 ^ lane % 8) * 16);
  sums[lane] = plain[0] + swizzled[0];
  ptx::fence_proxy_async();
  ptx::syncwarp();
  if (lane == 0) {
    ptx::bulk_store(to, tile.bytes, sizeof(tile.bytes));
    ptx::bulk_commit();
    ptx::bulk_wait<0>();
  }
  ptx::syncwarp();
}

TEST(TraceModels, CopiesByLanesOutgoingCopiesAndMatrices) {
  for (const Async async : {Async::kLate, Async::kEarly, Async::kRandom}) {
    const ScopedOptions scope({async, async == Async::kRandom ? 2u : 0u, 45});
    Executor executor({4, 1});
    struct Free {
      void operator()(std::byte* p) const { std::free(p); }
    };
    const std::unique_ptr<std::byte, Free> from(
        static_cast<std::byte*>(std::aligned_alloc(256, 4096)));
    const std::unique_ptr<std::byte, Free> to(
        static_cast<std::byte*>(std::aligned_alloc(256, 4096)));
    for (int i = 0; i < 4096; i++) from.get()[i] = static_cast<std::byte>(i * 37 % 251);
    std::vector<std::uint32_t> sums(32);
    trace::Session session({});
    ASSERT_EQ(run(executor, {.grid = {1}, .block = {32}, .shared_bytes = sizeof(Tile)},
                  &there_and_back, from.get(), to.get(), sums.data()),
              "");
    EXPECT_EQ(std::memcmp(from.get(), to.get(), 4096), 0);
    const std::optional<trace::Trace> traced = session.take();
    ASSERT_TRUE(traced.has_value());

    // Eight instructions by 32 lanes are eight copies; a store is read, then written.
    std::size_t copies = 0;
    std::size_t stages = 0;
    for (const trace::Track& track : traced->ctas.at(0).tracks) {
      trace::Step at = 0;
      for (const trace::Slice& slice : track.slices) {
        EXPECT_GE(slice.begin, at) << track.name;
        EXPECT_GT(slice.end, slice.begin) << track.name;
        EXPECT_FALSE(slice.unfinished) << slice.name;
        at = slice.end;
        if (slice.what != trace::What::kCopy) continue;
        copies += slice.name == "cp.async" ? 1 : 0;
        stages += slice.name.starts_with("cp.async.bulk to global memory") ? 1 : 0;
      }
    }
    EXPECT_EQ(copies, 8u);
    EXPECT_EQ(stages, 2u);
    std::uint64_t bytes = 0;
    for (const trace::AsyncCount& count : traced->totals.asynchronous) bytes += count.bytes;
    EXPECT_EQ(bytes, 2u * 4096);

    ASSERT_EQ(traced->totals.banks.size(), 1u);
    EXPECT_EQ(traced->totals.banks[0].name, "ldmatrix.x4");
    EXPECT_EQ(traced->totals.banks[0].accesses, 2u);
    EXPECT_EQ(traced->totals.banks[0].wavefronts, 32u + 4);
    EXPECT_EQ(traced->totals.banks[0].ideal, 8u);
  }
}

}  // namespace
}  // namespace rungs::emulator::testing
