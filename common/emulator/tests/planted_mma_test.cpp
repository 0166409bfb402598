// Bugs planted in a warp's multiplication: two stages that cp.async fills, ldmatrix, mma.sync.
// Every kernel is right with kNone.

#include "planted.hpp"

#include <rungs/core/dtype.hpp>
#include <rungs/gpu/kernel.hpp>
#include <rungs/ptx/async_copy.hpp>
#include <rungs/ptx/matrix.hpp>
#include <rungs/ptx/mma.hpp>
#include <rungs/ptx/sync.hpp>

#include <utility>

namespace rungs::emulator::testing {
namespace {

using rungs::testing::planted;

enum class Bug {
  kNone,
  kNoWait,             // no cp.async.wait_group
  kWaitGroupOffByOne,  // two groups under way where one is the tile in use
  kNoCommit,
  kNoSyncwarp,        // the lane's own copies are there, its neighbours' may not be
  kRefilledTooEarly,  // the next tile goes to the stage in use
  kSourceMisaligned,
  kTransposedLoad,
  kHalfTheWarpLoads,  // ldmatrix in a branch
  kFragmentsSwapped,  // a1 and a2 exchanged
  kRowsOfOneMatrix,   // lanes 16 to 31 give the addresses of lanes 0 to 15
  kSumNotCarried,     // C of every step is zero
};

constexpr unsigned kSteps = 5, kDepth = 16;

struct alignas(16) Stages {
  bf16 a[2][16 * kDepth];
  bf16 b[2][8 * kDepth];
};

// D[16, 8] = A[16, 80] B[8, 80]^T, 16 of K a step.
template <Bug kBug>
RUNGS_KERNEL(32)
multiply_warp(const bf16* a, const bf16* b, float* out) {
  RUNGS_SHARED(Stages, s);
  const unsigned lane = threadIdx.x, width = kSteps * kDepth;
  const auto load = [&](unsigned step) {
    const unsigned to = kBug == Bug::kRefilledTooEarly && step > 0 ? (step - 1) % 2 : step % 2;
    const unsigned row = lane / 2, k = lane % 2 * 8;
    const unsigned off = kBug == Bug::kSourceMisaligned ? 4 : 0;
    ptx::cp_async_cg(&s.a[to][row * kDepth + k], a + row * width + step * kDepth + k + off);
    if (lane < 16)
      ptx::cp_async_cg(&s.b[to][row * kDepth + k], b + row * width + step * kDepth + k);
    if (kBug != Bug::kNoCommit) ptx::cp_async_commit_group();
  };
  float d[4] = {0, 0, 0, 0};
  load(0);
  for (unsigned i = 0; i < kSteps; i++) {
    const unsigned stage = i % 2;
    const bool more = i + 1 < kSteps;
    if (more) load(i + 1);
    if (kBug == Bug::kWaitGroupOffByOne) {
      ptx::cp_async_wait_group<2>();
    } else if (kBug != Bug::kNoWait) {
      if (more) ptx::cp_async_wait_group<1>();
      if (!more) ptx::cp_async_wait_group<0>();
    }
    if (kBug != Bug::kNoSyncwarp) ptx::syncwarp();
    std::uint32_t left[4] = {0, 0, 0, 0}, right[2];
    const unsigned k = kBug == Bug::kRowsOfOneMatrix ? 0 : lane / 16 * 8;
    const bf16* const row = &s.a[stage][lane % 16 * kDepth + k];
    if constexpr (kBug == Bug::kTransposedLoad) {
      ptx::ldmatrix_trans<4>(left, row);
    } else if (kBug != Bug::kHalfTheWarpLoads || lane < 16) {
      ptx::ldmatrix<4>(left, row);
    }
    ptx::ldmatrix<2>(right, &s.b[stage][lane % 8 * kDepth + lane / 8 % 2 * 8]);
    if (kBug == Bug::kFragmentsSwapped) std::swap(left[1], left[2]);
    const float zero[4] = {0, 0, 0, 0};
    ptx::mma_m16n8k16_bf16(d, left, right, kBug == Bug::kSumNotCarried ? zero : d);
    ptx::syncwarp();
  }
  for (unsigned j = 0; j < 4; j++) out[(lane / 4 + j / 2 * 8) * 8 + 2 * (lane % 4) + j % 2] = d[j];
}

template <Bug kBug>
Trial trial() {
  return [] {
    constexpr std::size_t kWidth = kSteps * kDepth;
    alignas(16) static bf16 a[16 * kWidth + 8], b[8 * kWidth];
    for (std::size_t i = 0; i < 16 * kWidth; i++)
      a[i] = to_bf16(static_cast<float>(static_cast<int>(i * 37 % 17) - 8));
    for (std::size_t i = 0; i < 8 * kWidth; i++)
      b[i] = to_bf16(static_cast<float>(static_cast<int>(i * 53 % 19) - 9));
    std::vector<float> out(16 * 8, nan());
    Executor executor({4, 1});
    Outcome outcome;
    outcome.report = run(executor, {.grid = {1}, .block = {32}}, multiply_warp<kBug>,
                         static_cast<const bf16*>(a), static_cast<const bf16*>(b), out.data());
    outcome.right = outcome.report.empty();
    for (std::size_t i = 0; i < 16; i++) {
      for (std::size_t j = 0; j < 8; j++) {
        double exact = 0;
        for (std::size_t k = 0; k < kWidth; k++)
          exact += static_cast<double>(to_float(a[i * kWidth + k])) * to_float(b[j * kWidth + k]);
        outcome.right = outcome.right && static_cast<double>(out[i * 8 + j]) == exact;
      }
    }
    return outcome;
  };
}

TEST(PlantedMma, TheSoundMultiplicationIsRight) { expect_right(trial<Bug::kNone>()); }
TEST(PlantedMma, NoWait) {
  planted("cp_async_read_without_a_wait", "report: ldmatrix reads a tile that still lands");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(trial<Bug::kNoWait>(),
                {"race: ldmatrix.x4 reads", "cp.async #", "planted_mma_test.cpp:"});
}
TEST(PlantedMma, WaitGroupOffByOne) {
  planted("cp_async_wait_group_off_by_one", "report: ldmatrix reads a tile that still lands");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(trial<Bug::kWaitGroupOffByOne>(),
                {"race: ldmatrix.x4 reads", "cp.async #", "planted_mma_test.cpp:"});
}
TEST(PlantedMma, NoCommit) {
  planted("no_cp_async_commit_group", "report: ldmatrix reads a tile that still lands");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(trial<Bug::kNoCommit>(),
                {"race: ldmatrix.x4 reads", "cp.async #", "planted_mma_test.cpp:"});
}
TEST(PlantedMma, NoSyncwarpBehindTheWait) {
  planted("no_syncwarp_after_cp_async_wait", "report: ldmatrix reads a tile that still lands");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(trial<Bug::kNoSyncwarp>(),
                {"race: ldmatrix.x4 reads", "cp.async #", "planted_mma_test.cpp:"});
}
TEST(PlantedMma, TheStageInUseIsRefilled) {
  planted("cp_async_into_the_stage_in_use", "report: a copy issued over a copy that still lands");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(trial<Bug::kRefilledTooEarly>(), {"race: cp.async writes", "is landing there"});
}
TEST(PlantedMma, SourceMisaligned) {
  planted("cp_async_source_misaligned", "report: alignment");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(trial<Bug::kSourceMisaligned>(), {"cp.async", "align"});
}
TEST(PlantedMma, TransposedLoad) {
  planted("ldmatrix_transposed", "wrong result");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(trial<Bug::kTransposedLoad>(), {});
}
TEST(PlantedMma, LdmatrixInABranch) {
  planted("ldmatrix_in_a_branch", "report: diverged warp");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(trial<Bug::kHalfTheWarpLoads>(), {"ldmatrix"});
}
TEST(PlantedMma, FragmentsSwapped) {
  planted("mma_fragments_swapped", "wrong result");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(trial<Bug::kFragmentsSwapped>(), {});
}
TEST(PlantedMma, RowsOfOneMatrix) {
  planted("ldmatrix_row_addresses", "wrong result");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(trial<Bug::kRowsOfOneMatrix>(), {});
}
TEST(PlantedMma, SumNotCarried) {
  planted("mma_sum_not_carried", "wrong result");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(trial<Bug::kSumNotCarried>(), {});
}

}  // namespace
}  // namespace rungs::emulator::testing
