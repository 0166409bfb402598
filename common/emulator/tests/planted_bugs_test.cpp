// Bugs planted in a small GEMM pipeline: each must be caught, with the words that help. A bug that
// shows only in the result counts as caught when the result is wrong or NaN.

#include "launch_kernel.hpp"

#include <rungs/core/dtype.hpp>
#include <rungs/emulator/tensor_map.hpp>
#include <rungs/gpu/kernel.hpp>
#include <rungs/ptx/mbarrier.hpp>
#include <rungs/ptx/sync.hpp>
#include <rungs/ptx/tma.hpp>
#include <rungs/ptx/wgmma.hpp>
#include <rungs/testing/conforms.hpp>
#include <rungs/testing/gpu_test.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace rungs::emulator::testing {
namespace {

enum class Bug {
  kNone,
  kProducerParity,  // the producer waits for the wrong phase
  kConsumerParity,  // the consumer never flips its parity
  kNoFullWait,      // the consumer does not wait for the tiles
  kEarlyRelease,    // a stage is handed back before its multiplications are done
  kNoInitSync,      // no barrier after mbarrier_init
  kNoWgmmaWait,     // the accumulators are read without a wait
  kNoWgmmaFence,
  kExpectTooMany,
  kExpectTooFew,
  kWrongStride,        // the descriptor's stride
  kWrongSwizzle,       // the descriptor's swizzle is not the map's
  kDoubleArrive,       // all lanes release a stage where one should
  kArriveAfterExpect,  // the producer arrives once too often
  kTileOutOfBounds,    // the last stage lies past the end of shared memory
  kForeignRegisters,   // accumulators touched between multiplication and wait
};

constexpr int kStages = 2, kTile = 64, kDepth = 64, kSteps = 6;

struct alignas(1024) Stages {
  bf16 a[kStages][kTile * kDepth];
  bf16 b[kStages][kTile * kDepth];
  std::uint64_t full[kStages];
  std::uint64_t empty[kStages];
};

// C[64, 64] = A[64, 384] B[64, 384]^T. Warpgroup 0 multiplies, warp 4 copies.
template <Bug kBug>
RUNGS_KERNEL(160)
pipeline(RUNGS_GRID_CONSTANT const gpu::TensorMap map_a,
         RUNGS_GRID_CONSTANT const gpu::TensorMap map_b, float* c) {
  RUNGS_DYNAMIC_SHARED(Stages, s);
  const unsigned t = threadIdx.x;
  if (t == 0) {
    for (int i = 0; i < kStages; i++) {
      ptx::mbarrier_init(&s.full[i], 1);
      ptx::mbarrier_init(&s.empty[i], 4);
    }
    ptx::fence_mbarrier_init();
  }
  // Thread 159 is of the copying warp: without the barrier it may come before thread 0.
  if (kBug != Bug::kNoInitSync) ptx::syncthreads();
  if (t >= 128) {
    if (ptx::elect_one()) {
      for (int i = 0; i < kSteps; i++) {
        const int stage = i % kStages;
        const auto parity = static_cast<std::uint32_t>(i / kStages & 1);
        ptx::mbarrier_wait(&s.empty[stage], kBug == Bug::kProducerParity ? parity : parity ^ 1);
        std::uint32_t bytes = 2 * kTile * kDepth * 2;
        if (kBug == Bug::kExpectTooMany) bytes += 16;
        if (kBug == Bug::kExpectTooFew) bytes /= 2;
        ptx::mbarrier_arrive_expect_tx(&s.full[stage], bytes);
        if (kBug == Bug::kArriveAfterExpect) ptx::mbarrier_arrive(&s.full[stage]);
        bf16* to = kBug == Bug::kTileOutOfBounds ? s.a[stage] + 4 * kTile * kDepth : s.a[stage];
        ptx::tma_load_2d(to, &map_a, &s.full[stage], i * kDepth, 0);
        ptx::tma_load_2d(s.b[stage], &map_b, &s.full[stage], i * kDepth, 0);
      }
    }
    ptx::syncwarp();
    return;
  }
  float d[32];
  for (float& value : d) value = 0;
  for (int i = 0; i < kSteps; i++) {
    const int stage = i % kStages;
    const auto parity = static_cast<std::uint32_t>(i / kStages & 1);
    if (kBug != Bug::kNoFullWait)
      ptx::mbarrier_wait(&s.full[stage], kBug == Bug::kConsumerParity ? 0 : parity);
    const std::uint32_t stride = kBug == Bug::kWrongStride ? 65536 : 1024;
    const auto swizzle = kBug == Bug::kWrongSwizzle ? gpu::Swizzle::k64B : gpu::Swizzle::k128B;
    const std::uint64_t a = ptx::wgmma_descriptor(ptx::shared_u32(s.a[stage]), 16, stride, swizzle);
    const std::uint64_t b = ptx::wgmma_descriptor(ptx::shared_u32(s.b[stage]), 16, 1024, swizzle);
    if (kBug != Bug::kNoWgmmaFence) ptx::wgmma_fence();
    for (unsigned k = 0; k < kDepth / 16; k++) ptx::wgmma_bf16<64>(d, a + 2 * k, b + 2 * k, true);
    ptx::wgmma_commit();
    if (kBug == Bug::kForeignRegisters) d[0] = 1;
    if (kBug == Bug::kEarlyRelease && t % 32 == 0) ptx::mbarrier_arrive(&s.empty[stage]);
    if (kBug != Bug::kNoWgmmaWait && kBug != Bug::kEarlyRelease) ptx::wgmma_wait<0>(d);
    if (kBug == Bug::kEarlyRelease) ptx::wgmma_wait<1>(d);
    if (kBug != Bug::kEarlyRelease && (t % 32 == 0 || kBug == Bug::kDoubleArrive)) {
      ptx::mbarrier_arrive(&s.empty[stage]);
    }
  }
  if (kBug == Bug::kEarlyRelease) ptx::wgmma_wait<0>(d);
  for (unsigned j = 0; j < 32; j++) {
    const unsigned row = 16 * (t / 32) + t % 32 / 4 + 8 * (j / 2 % 2),
                   column = 8 * (j / 4) + 2 * (t % 4) + j % 2;
    c[row * 64 + column] = d[j];
  }
}

struct Outcome {
  std::string report;
  bool right = false;
};

template <Bug kBug>
Outcome run_pipeline(const Options& options, gpu::Swizzle map_swizzle = gpu::Swizzle::k128B) {
  constexpr int kWidth = kDepth * kSteps;
  const ScopedOptions scope(options);
  Executor executor({4, 1});
  struct Free {
    void operator()(bf16* p) const { std::free(p); }
  };
  const std::size_t count = kTile * kWidth;
  const std::unique_ptr<bf16, Free> a(static_cast<bf16*>(std::aligned_alloc(256, count * 2)));
  const std::unique_ptr<bf16, Free> b(static_cast<bf16*>(std::aligned_alloc(256, count * 2)));
  for (std::size_t i = 0; i < count; i++) {
    a.get()[i] = to_bf16(static_cast<float>(static_cast<int>(i * 37 % 17) - 8));
    b.get()[i] = to_bf16(static_cast<float>(static_cast<int>(i * 53 % 19) - 9));
  }
  std::vector<float> c(64 * 64, std::numeric_limits<float>::quiet_NaN());
  const auto map = [&](const bf16* base) {
    return encode_tensor_map({base, kTile, kWidth, kWidth * 2, kTile, kDepth, 2, map_swizzle});
  };
  const gpu::LaunchConfig config{.grid = {1}, .block = {160}, .shared_bytes = sizeof(Stages)};
  Outcome outcome;
  outcome.report = run(executor, config, pipeline<kBug>, map(a.get()), map(b.get()), c.data());
  outcome.right = outcome.report.empty();
  for (int i = 0; i < 64 && outcome.right; i++) {
    for (int j = 0; j < 64; j++) {
      double exact = 0;
      for (int k = 0; k < kWidth; k++) {
        exact += static_cast<double>(to_float(a.get()[i * kWidth + k])) *
                 to_float(b.get()[j * kWidth + k]);
      }
      if (!(c[static_cast<std::size_t>(i * 64 + j)] == exact)) outcome.right = false;
    }
  }
  return outcome;
}

// Under ThreadSanitizer the planted races are reported by it, which ends the test.
#if defined(RUNGS_SANITIZE_THREAD)
#define SKIP_UNDER_THREAD_SANITIZER()                            \
  return rungs::testing::skip(rungs::testing::Lack::kPlainBuild, \
                              "ThreadSanitizer itself reports the planted race")
#else
#define SKIP_UNDER_THREAD_SANITIZER() static_cast<void>(0)
#endif

template <Bug kBug>
void expect_caught(const std::vector<const char*>& words) {
  SKIP_UNDER_THREAD_SANITIZER();
  for (const Async async : {Async::kLate, Async::kRandom}) {
    const Outcome outcome = run_pipeline<kBug>({async, async == Async::kRandom ? 3u : 0u, 45});
    EXPECT_FALSE(outcome.right) << "the bug went unnoticed";
    if (async != Async::kLate)
      continue;  // what is seen first depends on the schedule; that it is seen does not
    for (const char* word : words) {
      EXPECT_NE(outcome.report.find(word), std::string::npos)
          << "no \"" << word << "\" in: " << outcome.report;
    }
    if (!words.empty()) {
      EXPECT_NE(outcome.report.find("kernel \"kernel_under_test\""), std::string::npos)
          << outcome.report;
    }
  }
}

TEST(PlantedBugs, TheSoundPipelineIsRightInEverySchedule) {
  for (const Async async : {Async::kLate, Async::kEarly, Async::kRandom}) {
    for (const std::uint64_t seed : {0, 1, 2, 3}) {
      const Outcome outcome = run_pipeline<Bug::kNone>({async, seed, 45});
      EXPECT_TRUE(outcome.right) << static_cast<int>(async) << " seed " << seed << ": "
                                 << outcome.report;
    }
  }
}

TEST(PlantedBugs, ProducerParity) {
  rungs::testing::planted("producer_parity", "deadlock report");
  expect_caught<Bug::kProducerParity>({"deadlock", "mbarrier at shared-memory offset",
                                       "phase of parity 0", "pending arrivals 4 of 4",
                                       "planted_bugs_test.cpp:"});
}
TEST(PlantedBugs, ConsumerParity) {
  rungs::testing::planted("consumer_parity", "report: wgmma reads a tile that still lands");
  expect_caught<Bug::kConsumerParity>({"race", "tile copy #"});
}
TEST(PlantedBugs, MissingFullWait) {
  rungs::testing::planted("no_wait_for_the_tiles", "report: wgmma reads a tile that still lands");
  expect_caught<Bug::kNoFullWait>({"race", "tile copy #", "mbarrier_wait()"});
}
TEST(PlantedBugs, EarlyRelease) {
  rungs::testing::planted("early_stage_release", "report: wgmma reads a tile that still lands");
  expect_caught<Bug::kEarlyRelease>({"race", "refilled too early"});
}
TEST(PlantedBugs, MissingWgmmaWait) {
  rungs::testing::planted("no_wgmma_wait", "report: wgmma reads a tile that still lands");
  expect_caught<Bug::kNoWgmmaWait>(
      {"race", "wgmma operand"});  // stages are handed back too early, too
}
TEST(PlantedBugs, MissingWgmmaFence) {
  rungs::testing::planted("no_wgmma_fence", "report: registers touched since the last fence");
  expect_caught<Bug::kNoWgmmaFence>({"touched since the last wgmma.fence", "warp 0 lane 0"});
}
TEST(PlantedBugs, TransactionCountTooBig) {
  rungs::testing::planted("expect_tx_too_many", "deadlock report: bytes still expected");
  expect_caught<Bug::kExpectTooMany>(
      {"deadlock", "bytes still expected 16", "initialised at planted_bugs_test.cpp"});
}
TEST(PlantedBugs, TransactionCountTooSmall) {
  rungs::testing::planted("expect_tx_too_few", "report: wgmma reads a tile that still lands");
  expect_caught<Bug::kExpectTooFew>({"race", "tile copy #"});
}
TEST(PlantedBugs, WrongStride) {
  rungs::testing::planted("descriptor_stride", "report: operand out of bounds");
  expect_caught<Bug::kWrongStride>(
      {"wgmma operand A reads shared memory out of bounds", "stride bytes"});
}
TEST(PlantedBugs, WrongSwizzleInDescriptor) {
  rungs::testing::planted("descriptor_swizzle", "wrong result");
  expect_caught<Bug::kWrongSwizzle>({});
}
TEST(PlantedBugs, MapWithoutSwizzle) {
  rungs::testing::planted("tensor_map_swizzle", "wrong result");
  const Outcome outcome = run_pipeline<Bug::kNone>({}, gpu::Swizzle::kNone);
  EXPECT_EQ(outcome.report, "");
  EXPECT_FALSE(outcome.right);
}
TEST(PlantedBugs, DoubleArrive) {
  rungs::testing::planted("double_arrive", "deadlock report: phases run ahead");
  expect_caught<Bug::kDoubleArrive>(
      {"deadlock", "{current phase 32 (parity 0), pending arrivals 4 of 4"});
}
TEST(PlantedBugs, ArriveOnceTooOften) {
  rungs::testing::planted("arrive_once_too_often", "report: more arrivals than the count");
  expect_caught<Bug::kArriveAfterExpect>({"more arrivals than its count of 1", "mbarrier_init()"});
}
TEST(PlantedBugs, TileOutOfBounds) {
  rungs::testing::planted("tile_out_of_bounds", "report: TMA out of bounds");
  expect_caught<Bug::kTileOutOfBounds>({"TMA writes shared memory out of bounds"});
}
TEST(PlantedBugs, AccumulatorsWrittenInFlight) {
  rungs::testing::planted("accumulators_written_in_flight", "report: registers written in flight");
  expect_caught<Bug::kForeignRegisters>(
      {"registers were written while a multiplication was in flight"});
}

// In program order thread 0 comes first and hides this one: random order shows it.
TEST(PlantedBugs, MissingInitSync) {
  rungs::testing::planted("no_barrier_after_mbarrier_init",
                          "report in random order: not initialised");
  SKIP_UNDER_THREAD_SANITIZER();
  int caught = 0;
  for (std::uint64_t seed = 1; seed <= 5; seed++) {
    const Outcome outcome = run_pipeline<Bug::kNoInitSync>({Async::kLate, seed, 45});
    if (outcome.right) continue;
    caught++;
    EXPECT_NE(outcome.report.find("is not initialised"), std::string::npos) << outcome.report;
  }
  EXPECT_GE(caught, 3);
}

}  // namespace
}  // namespace rungs::emulator::testing
