// Misuse of instructions of a warp and of cp.async: each must end the launch with a report that
// names it; and what asynchronous copies show when nobody waits for them.

#include "launch_kernel.hpp"

#include <rungs/core/dtype.hpp>
#include <rungs/gpu/kernel.hpp>
#include <rungs/ptx/async_copy.hpp>
#include <rungs/ptx/fence.hpp>
#include <rungs/ptx/matrix.hpp>
#include <rungs/ptx/mbarrier.hpp>
#include <rungs/ptx/mma.hpp>
#include <rungs/ptx/warp.hpp>
#include <rungs/ptx/wgmma.hpp>
#include <rungs/testing/gpu_test.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace rungs::emulator::testing {
namespace {

struct alignas(128) Words {
  std::uint32_t values[512];
};

void expect_words(const std::string& report, const std::vector<const char*>& words) {
  for (const char* word : words) {
    EXPECT_NE(report.find(word), std::string::npos) << "no \"" << word << "\" in: " << report;
  }
}

RUNGS_DEVICE void multiply(float (&sum)[4] RUNGS_AND_WHERE) {
  const std::uint32_t a[4] = {}, b[2] = {};
  ptx::mma_m16n8k16_bf16(sum, a, b, sum RUNGS_PASS_WHERE);
}

template <int kCase>
RUNGS_KERNEL(64)
warp_misuse(std::uint32_t* out) {
  RUNGS_SHARED(Words, s);
  const unsigned t = threadIdx.x, lane = t % 32;
  std::uint32_t d[4] = {};
  float sum[4] = {};
  auto* bytes = reinterpret_cast<std::uint8_t*>(s.values);
  switch (kCase) {
    case 0:  // a row that is not 16-byte aligned
      ptx::ldmatrix(d, bytes + 16 * lane + (lane == 11 ? 4 : 0));
      break;
    case 1:  // a row past the end
      ptx::ldmatrix(d, bytes + 16 * lane + (lane == 30 ? 2048 : 0));
      break;
    case 2:  // not shared memory
      ptx::ldmatrix(d, out);
      break;
    case 3:  // a lane has returned
      if (lane == 9) return;
      ptx::syncwarp(~(1u << 9));
      ptx::ldmatrix(d, bytes + 16 * lane);
      break;
    case 4:  // half the warp waits at a barrier
      if (lane < 16) {
        multiply(sum);
      } else {
        ptx::syncthreads();
      }
      break;
    case 5:  // the halves come to two instructions
      if (lane < 16) {
        multiply(sum);
      } else {
        multiply(sum);
      }
      break;
    case 6:  // the halves come to instructions of two kinds
      if (lane < 16) {
        multiply(sum);
      } else {
        ptx::stmatrix(bytes + 16 * lane, d);
      }
      break;
    case 7:  // a vote that needs the lanes which wait for this one
      if (lane < 16) {
        out[t] = ptx::ballot(~0u, true);
      } else {
        multiply(sum);
      }
      break;
    case 8:
      out[t] = ptx::redux_add(0xfffeu, t);
      break;
    case 9:
      if (lane == 31) return;
      ptx::syncwarp(~(1u << 31));
      out[t] = ptx::match_any(~0u, t);
      break;
    case 10:  // two reductions meet
      out[t] = lane == 5 ? ptx::redux_or(~0u, t) : ptx::redux_and(~0u, t);
      break;
    case 11: {  // registers of two shapes
      const std::uint32_t a[4] = {}, b[2] = {};
      Location where{"both.cu", 7};
      if (lane < 16) {
        ptx::mma_m16n8k16_bf16(sum, a, b, sum, where);
      } else {
        ptx::mma_m16n8k16_f16(sum, a, b, sum, where);
      }
      break;
    }
    case 12: {  // nobody has checked such a shape
      const std::uint32_t a[4] = {}, b[2] = {}, c[4] = {};
      using enum model::MmaType;
      model::mma({64, kE4M3, kE4M3, kF32}, d, a, b, c, {"kernel.cu", 3});
      break;
    }
    case 13:  // stmatrix to a row past the end
      ptx::stmatrix(bytes + 16 * lane + (lane == 3 ? 4096 : 0), d);
      break;
    case 14:  // the last lane returns when the others are there
      if (lane == 31) return;
      ptx::stmatrix_trans(bytes + 16 * lane, d);
      break;
    default:
      break;
  }
}

template <int kCase>
void expect_misuse(const std::vector<const char*>& words) {
  Executor executor({4, 1});
  std::vector<std::uint32_t> out(64, 0);
  expect_words(run(executor, {.grid = {1}, .block = {64}}, warp_misuse<kCase>, out.data()), words);
}

TEST(WarpMisuse, IsReportedWithItsPlace) {
#if defined(RUNGS_SANITIZE_THREAD)
  return rungs::testing::skip(rungs::testing::Lack::kPlainBuild,
                              "ThreadSanitizer itself reports the planted race");
#endif
  expect_misuse<0>({"ldmatrix.x4: row 3 of matrix 1, from lane 11", "not 16-byte aligned",
                    "warp_misuse_test.cpp:"});
  expect_misuse<1>({"ldmatrix.x4 reads shared memory out of bounds", "lane 30"});
  expect_misuse<2>({"is not in the block's shared memory"});
  expect_misuse<3>({"ldmatrix.x4 by a warp of which lanes 9 have ended"});
  expect_misuse<4>({"deadlock", "mma.sync of its warp, which is .aligned {lanes 16-31 are missing}",
                    "barrier 0 for 64 threads {32 arrived}"});
  expect_misuse<5>({"diverged warp: mma.sync meets mma.sync of lanes 0-15", "same instruction"});
  expect_misuse<6>({"diverged warp: stmatrix.x4 meets mma.sync of lanes 0-15", "lane 16"});
  expect_misuse<7>({"diverged warp: mma.sync by lane 16, while lanes 0-15 wait"});
  expect_misuse<8>({"lane 0 calls redux.add with mask 0000fffe"});
  expect_misuse<9>({"match.any on mask ffffffff, of which lanes 31 have ended"});
  expect_misuse<10>({"diverged warp: redux.or meets redux.and of lanes 0-4", "lane 5"});
  expect_misuse<11>(
      {"mma.sync m16n8k16.f32.bf16.bf16 of lane 0 meets m16n8k16.f32.f16.f16 of "
       "lane 16"});
  expect_misuse<12>({"mma.sync m16n8k64.f32.e4m3.e4m3 is not modelled"});
  expect_misuse<13>({"stmatrix.x4 writes shared memory out of bounds", "lane 3"});
  expect_misuse<14>({"deadlock", "62 threads wait for: stmatrix.x4.trans of its warp",
                     "{lanes 31 are missing, lanes 31 have ended}"});
}

TEST(WarpMisuse, AlignedInstructionOfAPartWarp) {
  Executor executor({4, 1});
  std::vector<std::uint32_t> out(64, 0);
  expect_words(run(executor, {.grid = {1}, .block = {24}}, warp_misuse<0>, out.data()),
               {"ldmatrix.x4 by warp 0, which has only 24 of its 32 threads"});
  expect_words(run(executor, {.grid = {1}, .block = {24}}, warp_misuse<6>, out.data()),
               {"mma.sync by warp 0, which has only 24 of its 32 threads"});
}

enum class CopyCase {
  kMisalignedSource,
  kMisalignedDestination,
  kSourceTooLong,
  kNullSource,
  kSharedSource,
  kOutOfBounds,
  kCopyOverCopy,
  kMatrixReadsTooEarly,
  kWaitForTooFew,
  kMatrixWritesTooEarly,
  kTooManyArrivals,
  kUninitialisedBarrier,
  kNeverArrives,
};

template <CopyCase kCase>
RUNGS_KERNEL(32)
copy_misuse(const std::uint8_t* in, std::uint32_t* out) {
  RUNGS_SHARED(Words, s);
  RUNGS_SHARED(std::uint64_t, full);
  const unsigned lane = threadIdx.x;
  auto* bytes = reinterpret_cast<std::uint8_t*>(s.values);
  std::uint32_t d[4] = {};
  using enum CopyCase;
  switch (kCase) {
    case kMisalignedSource:
      ptx::cp_async_ca<8>(bytes + 8 * lane, in + 8 * lane + (lane == 4 ? 4 : 0));
      break;
    case kMisalignedDestination:
      ptx::cp_async_cg(bytes + 16 * lane + (lane == 7 ? 8 : 0), in + 16 * lane);
      break;
    case kSourceTooLong:
      ptx::cp_async_cg_zero_fill(bytes + 16 * lane, in + 16 * lane, lane == 2 ? 17 : 16);
      break;
    case kNullSource:
      ptx::cp_async_cg(bytes + 16 * lane, lane == 1 ? nullptr : in + 16 * lane);
      break;
    case kSharedSource:
      ptx::cp_async_cg(bytes + 16 * lane, bytes + 1024);
      break;
    case kOutOfBounds:
      ptx::cp_async_cg(bytes + 16 * lane + (lane == 31 ? 2048 : 0), in + 16 * lane);
      break;
    case kCopyOverCopy:
      ptx::cp_async_ca<4>(bytes + 4 * (lane % 31), in + 4 * lane);
      break;
    case kMatrixReadsTooEarly:
      ptx::cp_async_cg(bytes + 16 * lane, in + 16 * lane);
      ptx::cp_async_commit_group();
      ptx::syncwarp();  // the barrier without the wait
      ptx::ldmatrix(d, bytes + 16 * lane);
      out[lane] = d[0];
      break;
    case kWaitForTooFew:
      for (unsigned i = 0; i < 2; i++) {
        ptx::cp_async_cg(bytes + 512 * i + 16 * lane, in + 16 * lane);
        ptx::cp_async_commit_group();
      }
      ptx::cp_async_wait_group<1>();
      ptx::syncwarp();
      ptx::ldmatrix(d, bytes + 512 + 16 * lane);
      out[lane] = d[0];
      break;
    case kMatrixWritesTooEarly:
      ptx::cp_async_cg(bytes + 16 * lane, in + 16 * lane);
      ptx::syncwarp();
      ptx::stmatrix(bytes + 16 * lane, d);
      break;
    case kTooManyArrivals:
      if (lane == 0) ptx::mbarrier_init(&full, 16);
      ptx::syncwarp();
      ptx::cp_async_cg(bytes + 16 * lane, in + 16 * lane);
      if (lane < 16) ptx::cp_async_mbarrier_arrive_noinc(&full);
      if (lane == 0) ptx::mbarrier_expect_tx(&full, 16);  // so that the phase stays
      ptx::cp_async_wait_all();
      ptx::syncwarp();
      if (lane == 0) ptx::cp_async_mbarrier_arrive_noinc(&full);
      break;
    case kUninitialisedBarrier:
      ptx::cp_async_mbarrier_arrive(&full);
      break;
    case kNeverArrives:
      if (lane == 0) ptx::mbarrier_init(&full, 32);
      ptx::syncwarp();
      ptx::cp_async_cg(bytes + 16 * lane, in + 16 * lane);
      ptx::cp_async_mbarrier_arrive(&full);  // not counted in the 32: .noinc is meant
      ptx::mbarrier_wait(&full, 0);
      break;
  }
}

template <CopyCase kCase>
void expect_copy_misuse(const std::vector<const char*>& words) {
  Executor executor({4, 1});
  std::vector<std::uint32_t> in(512, 1), out(32, 0);
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(in.data());
  expect_words(run(executor, {.grid = {1}, .block = {32}}, copy_misuse<kCase>, bytes, out.data()),
               words);
}

TEST(AsyncCopyMisuse, IsReportedWithItsPlace) {
  using enum CopyCase;
  expect_copy_misuse<kMisalignedSource>(
      {"cp.async of 8 bytes: source", "not 8-byte aligned", "lane 4", "warp_misuse_test.cpp:"});
  expect_copy_misuse<kMisalignedDestination>(
      {"cp.async of 16 bytes: destination at shared-memory offset", "not 16-byte", "lane 7"});
  expect_copy_misuse<kSourceTooLong>({"cp.async of 16 bytes with a source size of 17", "lane 2"});
  expect_copy_misuse<kNullSource>({"which is null", "lane 1"});
  expect_copy_misuse<kSharedSource>({"in shared memory, not in global"});
  expect_copy_misuse<kOutOfBounds>({"cp.async writes shared memory out of bounds", "lane 31"});
  expect_copy_misuse<kCopyOverCopy>({"race: cp.async writes shared memory", "while cp.async #1 "});
  expect_copy_misuse<kMatrixReadsTooEarly>(
      {"race: ldmatrix.x4 reads shared memory", "while cp.async #", "the wait for"});
  expect_copy_misuse<kWaitForTooFew>({"race: ldmatrix.x4 reads shared memory"});
  expect_copy_misuse<kMatrixWritesTooEarly>({"race: stmatrix.x4 writes shared memory"});
  expect_copy_misuse<kTooManyArrivals>({"more arrivals than its count of 16", ".noinc"});
  expect_copy_misuse<kUninitialisedBarrier>({"cp.async.mbarrier.arrive", "is not initialised"});
  expect_copy_misuse<kNeverArrives>({"deadlock", "pending arrivals 32 of 32"});
}

RUNGS_KERNEL(32) read_without_waiting(const std::uint32_t* in, std::uint32_t* out) {
  RUNGS_SHARED(Words, s);
  s.values[threadIdx.x] = 5;
  ptx::cp_async_ca<4>(&s.values[threadIdx.x], in + threadIdx.x);
  ptx::cp_async_commit_group();
  ptx::cp_async_wait_group<1>();  // waits for nothing: there is one group
  out[threadIdx.x] = s.values[threadIdx.x];
}

TEST(AsyncCopyMisuse, DestinationReadBeforeTheWaitIsPoison) {
#if defined(RUNGS_SANITIZE_ADDRESS) || defined(RUNGS_SANITIZE_THREAD)
  return rungs::testing::skip(rungs::testing::Lack::kPlainBuild,
                              "the sanitizer itself reports the read");
#else
  Executor executor({4, 1});
  std::vector<std::uint32_t> in(32, 7), out(32, 0);
  ASSERT_EQ(
      run(executor, {.grid = {1}, .block = {32}}, read_without_waiting, in.data(), out.data()), "");
  for (const std::uint32_t value : out) EXPECT_EQ(value, 0xffffffffu);
#endif
}

// Landing late, early and at random, all finds its place; wait_group counts the youngest groups.
RUNGS_KERNEL(64) pipeline(const std::uint32_t* in, std::uint32_t* out, int steps) {
  RUNGS_SHARED_ARRAY(std::uint32_t, stages, 3 * 64);
  const int t = static_cast<int>(threadIdx.x);
  for (int i = 0; i < 2; i++) {
    if (i < steps) ptx::cp_async_ca<4>(&stages[i * 64 + t], in + i * 64 + t);
    ptx::cp_async_commit_group();
  }
  for (int i = 0; i < steps; i++) {
    ptx::cp_async_wait_group<1>();
    ptx::syncthreads();
    out[i * 64 + t] = stages[i % 3 * 64 + 63 - t];
    const int next = i + 2;
    if (next < steps) ptx::cp_async_ca<4>(&stages[next % 3 * 64 + t], in + next * 64 + t);
    ptx::cp_async_commit_group();
  }
}

TEST(AsyncCopy, LandsLateEarlyAndAtRandom) {
  std::vector<std::uint32_t> in(9 * 64);
  for (std::uint32_t i = 0; i < in.size(); i++) in[i] = i * 3 + 1;
  for (const Async async : {Async::kLate, Async::kEarly, Async::kRandom}) {
    for (std::uint64_t seed = 0; seed < (async == Async::kRandom ? 8 : 1); seed++) {
      Options options;
      options.async = async;
      options.seed = seed;
      const ScopedOptions scope(options);
      Executor executor({4, 1});
      std::vector<std::uint32_t> out(in.size(), 0);
      ASSERT_EQ(run(executor, {.grid = {1}, .block = {64}}, pipeline, in.data(), out.data(), 9),
                "");
      for (std::uint32_t i = 0; i < out.size(); i++)
        ASSERT_EQ(out[i], in[i / 64 * 64 + 63 - i % 64]) << "seed " << seed;
    }
  }
}

struct alignas(1024) Tile {
  bf16 values[64 * 64];
};

// cp.async writes in the generic proxy: wgmma reads it only after a proxy fence.
RUNGS_KERNEL(128) copy_then_multiply(const bf16* in, bool fence, float* out) {
  RUNGS_DYNAMIC_SHARED(Tile, s);
  for (unsigned i = threadIdx.x; i < 512; i += 128) ptx::cp_async_cg(s.values + 8 * i, in + 8 * i);
  ptx::cp_async_wait_all();
  if (fence) ptx::fence_proxy_async();
  ptx::syncthreads();
  float d[32];
  for (float& value : d) value = 0;
  const std::uint64_t operand =
      ptx::wgmma_descriptor(ptx::shared_u32(s.values), 16, 1024, gpu::Swizzle::k128B);
  ptx::wgmma_fence();
  ptx::wgmma_bf16<64>(d, operand, operand, true);
  ptx::wgmma_commit();
  ptx::wgmma_wait<0>(d);
  out[threadIdx.x] = d[0];
}

TEST(AsyncCopyMisuse, MissingProxyFence) {
  Executor executor({4, 1});
  std::vector<bf16> in(64 * 64, to_bf16(1.0f));
  std::vector<float> out(128, -1);
  const gpu::LaunchConfig config{.grid = {1}, .block = {128}, .shared_bytes = sizeof(Tile)};
  expect_words(run(executor, config, copy_then_multiply, in.data(), false, out.data()),
               {"proxy: wgmma operand A", "fence_proxy_async()"});
  ASSERT_EQ(run(executor, config, copy_then_multiply, in.data(), true, out.data()), "");
  for (const float value : out) EXPECT_EQ(value, 16.0f);
}

}  // namespace
}  // namespace rungs::emulator::testing
