// Misuse of bulk copies and of TMA: each must end the launch with a report that names it, with
// asynchronous work landing as late as allowed, at once, or at random.

#include "launch_kernel.hpp"

#include <rungs/emulator/tensor_map.hpp>
#include <rungs/gpu/kernel.hpp>
#include <rungs/ptx/bulk.hpp>
#include <rungs/ptx/fence.hpp>
#include <rungs/ptx/mbarrier.hpp>
#include <rungs/ptx/sync.hpp>
#include <rungs/ptx/tma.hpp>
#include <rungs/testing/gpu_test.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace rungs::emulator::testing {
namespace {

using gpu::BulkReduction;
using gpu::TensorElement;

enum class Bug {
  kNone,
  // copies into shared memory
  kLoadSize,
  kLoadSource,
  kLoadDestination,
  kLoadNull,
  kLoadFromShared,
  kLoadTooFar,
  kLoadBarrier,
  kLoadTwice,
  kLoadNeverAwaited,
  kLoadPolicy,
  kLoadOverUnfenced,
  kLoadMask,
  // copies out of shared memory
  kStoreUnfenced,
  kStoreBeforeLanding,
  kStoreOverwritten,
  kStoreNotAwaited,
  kStoreNotCommitted,
  kStoreSize,
  kStoreDestination,
  kStoreTooFar,
  kStoreReadBack,
  // tiles
  kTileRank,
  kTileMap,
  kTileColumn,
  kTileAddress,
  kTileNegative,
  kTileStrided,
  kTileBeyondOddRow,
  kTileNarrow,
  kTileReduction,
  kTileStoreUnfenced,
  kTileStoreOverwritten,
  kPolicyFraction,
};

struct alignas(1024) Shared {
  std::uint32_t words[1024];
  std::uint64_t bar;
};

struct Maps {
  gpu::TensorMap plain;    // u32 [64][64], box 4 x 16
  gpu::TensorMap strided;  // the same with every second row
  gpu::TensorMap narrow;   // box of 16 bytes, swizzle 128B
  gpu::TensorMap bytes;    // u8 [64][64], box 4 x 64
  gpu::TensorMap odd;      // u8 [64][61], box 4 x 64
};

RUNGS_DEVICE void load_and_wait(Shared& s, const std::uint32_t* in) {
  ptx::mbarrier_arrive_expect_tx(&s.bar, 1024);
  ptx::bulk_load(s.words, in, 1024, &s.bar);
  ptx::mbarrier_wait(&s.bar, 0);
}

template <Bug B>
RUNGS_DEVICE void load_bugs(Shared& s, const std::uint32_t* in) {
  if (B == Bug::kLoadSize) ptx::bulk_load(s.words, in, 20, &s.bar);
  if (B == Bug::kLoadSource) ptx::bulk_load(s.words, in + 1, 16, &s.bar);
  if (B == Bug::kLoadDestination) ptx::bulk_load(s.words + 2, in, 16, &s.bar);
  if (B == Bug::kLoadNull) ptx::bulk_load(s.words, nullptr, 16, &s.bar);
  if (B == Bug::kLoadFromShared) ptx::bulk_load(s.words, s.words + 64, 16, &s.bar);
  if (B == Bug::kLoadTooFar) ptx::bulk_load(s.words + 1020, in, 2048, &s.bar);
  if (B == Bug::kLoadBarrier) {
    ptx::bulk_load(s.words, in, 16, reinterpret_cast<std::uint64_t*>(s.words + 64));
    ptx::mbarrier_wait(&s.bar, 0);
  }
  if (B == Bug::kLoadTwice) {
    ptx::mbarrier_arrive_expect_tx(&s.bar, 32);
    ptx::bulk_load(s.words, in, 16, &s.bar);
    ptx::bulk_load(s.words, in, 16, &s.bar);
    ptx::mbarrier_wait(&s.bar, 0);
  }
  if (B == Bug::kLoadNeverAwaited) {
    ptx::mbarrier_arrive_expect_tx(&s.bar, 16);
    ptx::bulk_load(s.words, in, 16, &s.bar);
  }
  if (B == Bug::kLoadOverUnfenced) {
    s.words[3] = 1;
    ptx::mbarrier_arrive_expect_tx(&s.bar, 16);
    ptx::bulk_load(s.words, in, 16, &s.bar);
    ptx::mbarrier_wait(&s.bar, 0);
  }
  if (B == Bug::kLoadPolicy) ptx::bulk_load_hint(s.words, in, 16, &s.bar, 0x12f0000000000000ull);
  if (B == Bug::kLoadMask) ptx::bulk_load_multicast(s.words, in, 16, &s.bar, 3);
}

template <Bug B>
RUNGS_DEVICE void store_bugs(Shared& s, const std::uint32_t* in, std::uint32_t* out) {
  if (B == Bug::kStoreBeforeLanding) {
    ptx::mbarrier_arrive_expect_tx(&s.bar, 1024);
    ptx::bulk_load(s.words, in, 1024, &s.bar);
    ptx::bulk_store(out, s.words, 1024);
    ptx::bulk_commit();
    ptx::mbarrier_wait(&s.bar, 0);
    ptx::bulk_wait<0>();
    return;
  }
  load_and_wait(s, in);
  if (B == Bug::kStoreUnfenced) s.words[5] = 99;
  if (B == Bug::kStoreSize) ptx::bulk_store(out, s.words, 8);
  if (B == Bug::kStoreDestination) ptx::bulk_store(out + 2, s.words, 16);
  if (B == Bug::kStoreTooFar) ptx::bulk_store(out, s.words + 1020, 2048);
  ptx::bulk_store(out, s.words, 1024);
  if (B == Bug::kStoreNotCommitted) return;
  ptx::bulk_commit();
  if (B == Bug::kStoreNotAwaited) return;
  if (B == Bug::kStoreOverwritten) s.words[7] = 1;
  ptx::bulk_wait_read<0>();
  if (B == Bug::kStoreReadBack) out[256] = out[0];
  ptx::bulk_wait<0>();
  if (B == Bug::kNone) out[256] = out[0];
}

template <Bug B>
RUNGS_DEVICE void tile_bugs(Shared& s, const Maps& maps, const gpu::TensorMap& none) {
  if (B == Bug::kTileRank) ptx::tma_load(s.words, &maps.plain, &s.bar, {0, 0, 0});
  if (B == Bug::kTileMap) ptx::tma_load(s.words, &none, &s.bar, {0, 0});
  if (B == Bug::kTileColumn) ptx::tma_store(&maps.plain, {2, 0}, s.words);
  if (B == Bug::kTileAddress) ptx::tma_store(&maps.plain, {0, 0}, s.words + 4);
  if (B == Bug::kTileNegative) ptx::tma_store(&maps.plain, {0, -1}, s.words);
  if (B == Bug::kTileStrided) ptx::tma_store(&maps.strided, {0, 0}, s.words);
  if (B == Bug::kTileBeyondOddRow) ptx::tma_store(&maps.odd, {0, 0}, s.words);
  if (B == Bug::kTileNarrow) ptx::tma_load(s.words, &maps.narrow, &s.bar, {0, 0});
  if (B == Bug::kTileReduction) ptx::tma_reduce<BulkReduction::kAdd>(&maps.bytes, {0, 0}, s.words);
  if (B == Bug::kPolicyFraction) {
    ptx::tma_store_hint(&maps.plain, {0, 0}, s.words,
                        ptx::createpolicy_fractional<ptx::L2Priority::kEvictLast>(1.5f));
  }
  if (B == Bug::kTileStoreUnfenced || B == Bug::kTileStoreOverwritten) {
    for (unsigned i = 0; i < 64; i++) s.words[i] = i;
    if (B != Bug::kTileStoreUnfenced) ptx::fence_proxy_async();
    ptx::tma_store(&maps.plain, {0, 0}, s.words);
    ptx::bulk_commit();
    if (B == Bug::kTileStoreOverwritten) s.words[9] = 1;
    ptx::bulk_wait_read<0>();
  }
}

template <Bug B>
RUNGS_KERNEL(32)
misuse(RUNGS_GRID_CONSTANT const Maps maps, const std::uint32_t* in, std::uint32_t* out) {
  RUNGS_DYNAMIC_SHARED(Shared, s);
  alignas(64) const gpu::TensorMap none{};
  if (threadIdx.x != 0) return;
  ptx::mbarrier_init(&s.bar, 1);
  ptx::fence_mbarrier_init();
  if (B >= Bug::kLoadSize && B < Bug::kStoreUnfenced) {
    load_bugs<B>(s, in);
  } else if (B == Bug::kNone || B < Bug::kTileRank) {
    store_bugs<B>(s, in, out);
  } else {
    tile_bugs<B>(s, maps, none);
  }
}

struct Memory {
  alignas(128) std::uint32_t in[64 * 64];
  alignas(128) std::uint32_t out[64 * 64];
};

template <Bug B>
std::string run_misuse(Memory& memory, const Options& options) {
  const ScopedOptions scope(options);
  Executor executor({4, 1});
  for (std::uint32_t i = 0; i < 64 * 64; i++) {
    memory.in[i] = i * 3 + 1;
    memory.out[i] = 0;
  }
  gpu::TensorMapSpec spec;
  spec.base = memory.out;
  spec.element = TensorElement::kU32;
  spec.sizes = {64, 64};
  spec.strides_bytes = {256};
  spec.box = {16, 4};
  Maps maps{};
  maps.plain = encode_tile_map(spec);
  spec.element_strides = {1, 2};
  maps.strided = encode_tile_map(spec);
  spec.element_strides = {1, 1};
  spec.box = {4, 32};
  spec.swizzle = gpu::Swizzle::k128B;
  maps.narrow = encode_tile_map(spec);
  spec.swizzle = gpu::Swizzle::kNone;
  spec.element = TensorElement::kU8;
  spec.box = {64, 4};
  maps.bytes = encode_tile_map(spec);
  spec.sizes = {61, 64};
  maps.odd = encode_tile_map(spec);
  const gpu::LaunchConfig config{.grid = {1}, .block = {32}, .shared_bytes = sizeof(Shared)};
  return run(executor, config, misuse<B>, maps, static_cast<const std::uint32_t*>(memory.in),
             static_cast<std::uint32_t*>(memory.out));
}

// Under ThreadSanitizer the planted races are reported by it, which ends the test.
#if defined(RUNGS_SANITIZE_THREAD)
#define SKIP_UNDER_THREAD_SANITIZER()                            \
  return rungs::testing::skip(rungs::testing::Lack::kPlainBuild, \
                              "ThreadSanitizer itself reports the planted race")
#else
#define SKIP_UNDER_THREAD_SANITIZER() static_cast<void>(0)
#endif

// `late_only`: a schedule in which the copy is over at once hides the bug.
template <Bug B>
void expect_report(const std::vector<const char*>& words, bool late_only = false) {
  SKIP_UNDER_THREAD_SANITIZER();
  for (const Async async : {Async::kLate, Async::kEarly, Async::kRandom}) {
    if (late_only && async != Async::kLate) continue;
    static Memory memory;
    const std::string report =
        run_misuse<B>(memory, {async, async == Async::kRandom ? 5u : 0u, 45});
    for (const char* word : words) {
      EXPECT_NE(report.find(word), std::string::npos)
          << "schedule " << static_cast<int>(async) << ": no \"" << word << "\" in: " << report;
    }
    EXPECT_NE(report.find("bulk_misuse_test.cpp:"), std::string::npos) << report;
    EXPECT_NE(report.find("look for: "), std::string::npos) << report;
  }
}

TEST(BulkMisuse, TheSoundKernelPasses) {
  for (const Async async : {Async::kLate, Async::kEarly, Async::kRandom}) {
    static Memory memory;
    ASSERT_EQ(run_misuse<Bug::kNone>(memory, {async, 3, 45}), "");
    for (std::uint32_t i = 0; i < 256; i++) ASSERT_EQ(memory.out[i], i * 3 + 1);
    EXPECT_EQ(memory.out[256], 1u);
    EXPECT_EQ(memory.out[257], 0u);
  }
}

TEST(BulkMisuse, OperandsOfLoads) {
  expect_report<Bug::kLoadSize>({"a size of 20 bytes, not a positive multiple of 16"});
  expect_report<Bug::kLoadSource>({"null or not 16-byte aligned"});
  expect_report<Bug::kLoadDestination>(
      {"the destination at shared-memory offset 1032 is not 16-byte aligned"});
  expect_report<Bug::kLoadNull>({"null or not 16-byte aligned"});
  expect_report<Bug::kLoadFromShared>({"lies in shared memory"});
  expect_report<Bug::kLoadTooFar>(
      {"cp.async.bulk to shared memory writes shared memory out of bounds: offset 5104, 2048 "
       "bytes"});
  expect_report<Bug::kLoadBarrier>({"mbarrier at shared-memory offset 1280 is not initialised"});
  expect_report<Bug::kLoadPolicy>({"cache policy 12f0000000000000 is no result of createpolicy"});
  expect_report<Bug::kLoadMask>({"multicast mask 0003 in a cluster of 1"});
}

TEST(BulkMisuse, LoadsOverLoads) {
  expect_report<Bug::kLoadTwice>({"race", "issued over copy #1, which is still landing"}, true);
}

TEST(BulkMisuse, LoadsOverOrdinaryWrites) {
  expect_report<Bug::kLoadOverUnfenced>(
      {"proxy: cp.async.bulk to shared memory writes shared memory at offset 1024 that threads "
       "wrote "
       "without a fence.proxy.async since",
       "fence_proxy_async()"});
}

TEST(BulkMisuse, ALoadThatNobodyAwaits) {
  expect_report<Bug::kLoadNeverAwaited>(
      {"lands at shared-memory offset 1024 of block rank 0, whose "
       "threads have all ended",
       "a wait for the copy"},
      true);
}

TEST(BulkMisuse, OperandsOfStores) {
  expect_report<Bug::kStoreSize>({"cp.async.bulk to global memory", "a size of 8 bytes"});
  expect_report<Bug::kStoreDestination>({"null or not 16-byte aligned"});
  expect_report<Bug::kStoreTooFar>({"reads shared memory out of bounds: offset 5104, 2048 bytes"});
  expect_report<Bug::kTileBeyondOddRow>(
      {"TMA store: the box goes on beyond a row of 61 bytes, not a multiple of 16"});
}

TEST(BulkMisuse, SourcesOfStores) {
  expect_report<Bug::kStoreUnfenced>(
      {"proxy: cp.async.bulk to global memory reads shared memory at offset 1040",
       "fence_proxy_async()"});
  expect_report<Bug::kStoreBeforeLanding>(
      {"race", "reads shared memory at offset 1024 while copy #1 is landing there"}, true);
  expect_report<Bug::kStoreOverwritten>(
      {"race: the source of cp.async.bulk to global memory #2 was overwritten at shared-memory "
       "offset 1040",
       "bulk_wait_read()"},
      true);
}

TEST(BulkMisuse, GroupsThatNobodyAwaits) {
  SKIP_UNDER_THREAD_SANITIZER();
  expect_report<Bug::kStoreNotAwaited>({"bulk_wait_read<0>()", "before it ends"});
  expect_report<Bug::kStoreNotCommitted>({"ended"}, true);
  static Memory memory;
  const std::string report = run_misuse<Bug::kStoreNotCommitted>(memory, {Async::kEarly, 0, 45});
  EXPECT_NE(report.find("a block ends while thread 0 has not waited"), std::string::npos) << report;
  EXPECT_NE(report.find("1 operations, never committed to a group"), std::string::npos) << report;
}

// wait_group.read says nothing about the destination: it is still poison.
TEST(BulkMisuse, ReadingBackTooEarlyShowsPoison) {
  SKIP_UNDER_THREAD_SANITIZER();
  static Memory memory;
  ASSERT_EQ(run_misuse<Bug::kStoreReadBack>(memory, {Async::kLate, 0, 45}), "");
  EXPECT_EQ(memory.out[256], 0xffffffffu);
  EXPECT_EQ(memory.out[0], 1u);
}

TEST(BulkMisuse, Tiles) {
  expect_report<Bug::kTileRank>({"3 coordinates for a tensor map of rank 2"});
  expect_report<Bug::kTileMap>({"was not made by make_tensor_map"});
  expect_report<Bug::kTileColumn>({"TMA store: column 2 is byte 8 of its row"});
  expect_report<Bug::kTileAddress>({"offset 1040 of the tile is not 128-byte aligned"});
  expect_report<Bug::kTileNegative>({"a box that starts at -1 in dimension 1 is not modelled"});
  expect_report<Bug::kTileStrided>({"element stride 2 in dimension 1 is not modelled"});
  expect_report<Bug::kTileNarrow>({"rows of 16 bytes, less than the span of 128, is not modelled"});
  expect_report<Bug::kTileReduction>({"TMA reduction: .add of a tensor of u8 does not exist"});
  expect_report<Bug::kPolicyFraction>({"createpolicy.fractional: a fraction of 1.5"});
  expect_report<Bug::kTileStoreUnfenced>({"proxy: TMA store reads shared memory at offset 1024"});
  expect_report<Bug::kTileStoreOverwritten>(
      {"race: the source of TMA store #1 was overwritten at shared-memory offset 1056"}, true);
}

enum class ClusterBug { kNone, kForeignBarrier, kEndsEarly, kUnfencedDestination, kSourceReused };

struct alignas(128) Mailbox {
  std::uint32_t outbox[64];
  std::uint32_t inbox[64];
  std::uint64_t landed;
};

// Block 0 adds its outbox to block 1's inbox.
template <ClusterBug B>
RUNGS_KERNEL(32)
add_to_neighbour(std::uint32_t* out) {
  RUNGS_DYNAMIC_SHARED(Mailbox, s);
  const unsigned t = threadIdx.x;
  const std::uint32_t rank = ptx::cluster_rank();
  for (unsigned i = t; i < 64; i += 32) {
    s.outbox[i] = i;
    s.inbox[i] = 100;
  }
  if (t == 0) {
    ptx::mbarrier_init(&s.landed, 1);
    ptx::fence_mbarrier_init();
  }
  if (B != ClusterBug::kUnfencedDestination || rank == 0) ptx::fence_proxy_async();
  ptx::cluster_arrive();
  ptx::cluster_wait();
  if (rank == 0 && t == 0) {
    const std::uint32_t bar = ptx::shared_u32(&s.landed);
    ptx::bulk_reduce_cluster<BulkReduction::kAdd, TensorElement::kU32>(
        ptx::map_shared(ptx::shared_u32(s.inbox), 1), s.outbox, 256,
        B == ClusterBug::kForeignBarrier ? bar : ptx::map_shared(bar, 1));
    if (B == ClusterBug::kSourceReused) s.outbox[3] = 7;
  }
  if (rank == 1 && B != ClusterBug::kEndsEarly) {
    if (t == 0) ptx::mbarrier_arrive_expect_tx(&s.landed, 256);
    ptx::mbarrier_wait(&s.landed, 0);
    for (unsigned i = t; i < 64; i += 32) out[i] = s.inbox[i];
  }
  if (B == ClusterBug::kEndsEarly) return;
  ptx::cluster_arrive();
  ptx::cluster_wait();
}

template <ClusterBug B>
std::string run_cluster(Async async, std::uint32_t* out) {
  const ScopedOptions scope({async, 0, 45});
  Executor executor({4, 1});
  const gpu::LaunchConfig config{
      .grid = {2}, .block = {32}, .shared_bytes = sizeof(Mailbox), .cluster = {2}};
  return run(executor, config, add_to_neighbour<B>, out);
}

TEST(BulkMisuse, BetweenBlocks) {
  SKIP_UNDER_THREAD_SANITIZER();
  std::uint32_t out[64] = {};
  const auto expect = [&](const std::string& report, const char* words) {
    EXPECT_NE(report.find(words), std::string::npos) << "no \"" << words << "\" in: " << report;
  };
  for (const Async async : {Async::kLate, Async::kEarly, Async::kRandom}) {
    ASSERT_EQ(run_cluster<ClusterBug::kNone>(async, out), "");
    for (std::uint32_t i = 0; i < 64; i++) EXPECT_EQ(out[i], 100 + i);
  }
  expect(run_cluster<ClusterBug::kForeignBarrier>(Async::kLate, out),
         "the mbarrier lies in block rank 0, the destination in block rank 1");
  expect(run_cluster<ClusterBug::kEndsEarly>(Async::kLate, out),
         "lands at shared-memory offset 1280 of block rank 1, whose threads have all ended");
  expect(run_cluster<ClusterBug::kUnfencedDestination>(Async::kLate, out),
         "that threads wrote without a fence.proxy.async");
  expect(run_cluster<ClusterBug::kSourceReused>(Async::kLate, out),
         "the source of cp.reduce.async.bulk between shared memories #1 was overwritten");
}

// Thread 0 stores a tile and thread 32 waits in its place: it has no groups, so nothing is awaited.
RUNGS_KERNEL(64) other_thread_waits(std::uint32_t* out) {
  RUNGS_DYNAMIC_SHARED(Shared, s);
  const unsigned t = threadIdx.x;
  for (unsigned i = t; i < 256; i += 64) s.words[i] = i;
  ptx::fence_proxy_async();
  ptx::syncthreads();
  if (t == 0) {
    ptx::bulk_store(out, s.words, 1024);
    ptx::bulk_commit();
  }
  if (t == 32) ptx::bulk_wait_read<0>();
  ptx::syncthreads();
  for (unsigned i = t; i < 256; i += 64) s.words[i] = 0;
  ptx::syncthreads();
  if (t == 0) ptx::bulk_wait_read<0>();
}

TEST(BulkMisuse, AnotherThreadWaits) {
  SKIP_UNDER_THREAD_SANITIZER();
  static Memory memory;
  const ScopedOptions scope({Async::kLate, 0, 45});
  Executor executor({4, 1});
  const gpu::LaunchConfig config{.grid = {1}, .block = {64}, .shared_bytes = sizeof(Shared)};
  const std::string report =
      run(executor, config, other_thread_waits, static_cast<std::uint32_t*>(memory.out));
  EXPECT_NE(report.find("was overwritten at shared-memory offset 1024"), std::string::npos)
      << report;
  EXPECT_NE(report.find("bulk_wait_read() by the thread that copies"), std::string::npos) << report;
}

// Groups are counted per thread and end in order; a wait for fewer covers the older ones.
RUNGS_KERNEL(64) groups(std::uint32_t* out) {
  RUNGS_SHARED_ARRAY(std::uint32_t, words, 256);
  const unsigned t = threadIdx.x;
  for (unsigned i = t; i < 256; i += 64) words[i] = i + 1;
  ptx::fence_proxy_async();
  ptx::syncthreads();
  if (t % 32 != 0) return;
  std::uint32_t* const mine = out + t / 32 * 512;
  ptx::bulk_commit();  // an empty group
  ptx::bulk_store(mine, words, 512);
  ptx::bulk_commit();
  ptx::bulk_store(mine + 128, words + 128, 512);
  ptx::bulk_commit();
  ptx::bulk_wait<1>();
  mine[256] = mine[0];
  ptx::bulk_wait<0>();
  mine[258] = mine[255];
  ptx::bulk_wait<0>();
  ptx::bulk_wait_read<3>();
}

TEST(BulkGroups, EndInOrder) {
  alignas(128) static std::uint32_t out[1024];
  for (const Async async : {Async::kLate, Async::kEarly, Async::kRandom}) {
    std::memset(out, 0, sizeof(out));
    const ScopedOptions scope({async, 0, 45});
    Executor executor({4, 1});
    ASSERT_EQ(run(executor, {.grid = {1}, .block = {64}}, groups, static_cast<std::uint32_t*>(out)),
              "");
    for (unsigned w = 0; w < 2; w++) {
      for (std::uint32_t i = 0; i < 256; i++) ASSERT_EQ(out[w * 512 + i], i + 1);
      EXPECT_EQ(out[w * 512 + 256], 1u);
      EXPECT_EQ(out[w * 512 + 258], 256u);
    }
    EXPECT_EQ(executor.counters().async_bytes, 2048u);
  }
}

}  // namespace
}  // namespace rungs::emulator::testing
