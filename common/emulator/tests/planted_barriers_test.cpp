// Bugs planted around barriers of a block, of a warp and of mbarriers without asynchronous copies:
// who waits, for whom, how many, how often. Every kernel is right with kNone.

#include "planted.hpp"

#include <rungs/gpu/kernel.hpp>
#include <rungs/ptx/mbarrier.hpp>
#include <rungs/ptx/sync.hpp>

#include <array>

namespace rungs::emulator::testing {
namespace {

using rungs::testing::planted;

/// Launches one block and compares every word of `out` with expected(i).
template <class Kernel, class Expected>
Trial one_block(Kernel kernel, unsigned threads, unsigned count, Expected expected) {
  return [=] {
    Executor executor({4, 1});
    std::vector<std::uint32_t> out(count, 0xdeadbeef);
    Outcome outcome;
    outcome.report = run(executor, {.grid = {1}, .block = {threads}}, kernel, out.data());
    outcome.right = outcome.report.empty();
    for (unsigned i = 0; i < count; i++) outcome.right = outcome.right && out[i] == expected(i);
    return outcome;
  };
}

// ---------------------------------------------------------------------------- words handed round

enum class Round { kNone, kReadEarly, kOverwrite, kPartOfTheBlock, kNoSyncwarp, kUninitialised };

constexpr unsigned kRounds = 5;

// Every thread takes its neighbour's word, five times; then lane pairs swap.
template <Round kBug>
RUNGS_KERNEL(64)
hand_round(std::uint32_t* out) {
  RUNGS_SHARED_ARRAY(std::uint32_t, words, 64);
  RUNGS_SHARED(std::uint32_t, sum);
  const unsigned t = threadIdx.x;
  std::uint32_t mine = t;
  if (t == 0 && kBug != Round::kUninitialised) sum = 0;
  for (unsigned i = 0; i < kRounds; i++) {
    words[t] = mine;
    if (kBug != Round::kReadEarly && (kBug != Round::kPartOfTheBlock || t < 40)) ptx::syncthreads();
    mine = words[(t + 1) % 64];
    if (kBug != Round::kOverwrite) ptx::syncthreads();
  }
  words[t] = mine;
  if (kBug != Round::kNoSyncwarp) ptx::syncwarp();
  mine = words[t ^ 1];
  ptx::syncthreads();
  if (t == 0) {
    for (unsigned i = 0; i < 64; i++) sum += words[i];
  }
  ptx::syncthreads();
  out[t] = mine + sum;
}

template <Round kBug>
Trial round() {
  return one_block(hand_round<kBug>, 64, 64,
                   [](unsigned i) { return ((i ^ 1) + kRounds) % 64 + 63 * 32; });
}

TEST(PlantedBarriers, TheSoundRoundIsRight) { expect_right(round<Round::kNone>()); }
TEST(PlantedBarriers, ReadBeforeTheBarrier) {
  planted("no_syncthreads_between_write_and_read", "wrong result: shared memory starts as NaN");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(round<Round::kReadEarly>(), {});
}
TEST(PlantedBarriers, OverwrittenBeforeAllHaveRead) {
  planted("no_syncthreads_between_read_and_write", "wrong result: a thread runs to its barrier");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(round<Round::kOverwrite>(), {});
}
TEST(PlantedBarriers, ABarrierThatPartOfTheBlockReaches) {
  planted("syncthreads_in_a_branch", "deadlock report");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(round<Round::kPartOfTheBlock>(),
                {"deadlock", "barrier 0 for 64 threads {40 arrived}"});
}
TEST(PlantedBarriers, LanesThatTrustTheWarp) {
  planted("no_syncwarp_between_lanes", "wrong result: lanes run one after the other");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(round<Round::kNoSyncwarp>(), {});
}
TEST(PlantedBarriers, ASumThatNobodyCleared) {
  planted("uninitialised_shared_memory", "wrong result: shared memory starts as 0xff");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(round<Round::kUninitialised>(), {});
}

// --------------------------------------------------------------------------------- a warp's sums

enum class Sum { kNone, kInABranch, kOutsideMask, kOnlyLaneZero, kStepMissing, kElectInABranch };

template <Sum kBug>
RUNGS_KERNEL(64)
warp_sum(std::uint32_t* out) {
  const unsigned t = threadIdx.x, lane = t % 32;
  std::uint32_t sum = t + 1;
  for (int step = 16; step > (kBug == Sum::kStepMissing ? 1 : 0); step /= 2) {
    if (kBug == Sum::kInABranch) {
      if (lane < 16) sum += ptx::shfl_xor(~0u, sum, step);
    } else if (kBug == Sum::kOutsideMask) {
      sum += ptx::shfl_xor(lane < 16 ? 0xffffu : 0xffff0000u, sum, step);
    } else if (kBug == Sum::kOnlyLaneZero) {
      sum += ptx::shfl_down(~0u, sum, step);
    } else {
      sum += ptx::shfl_xor(~0u, sum, step);
    }
  }
  std::uint32_t elected = 0;
  if (kBug != Sum::kElectInABranch || lane >= 8) elected = ptx::elect_one() ? 1 : 0;
  out[t] = sum + 0 * ptx::ballot(~0u, elected != 0);
}

template <Sum kBug>
Trial sum() {
  return one_block(warp_sum<kBug>, 64, 64, [](unsigned i) { return i < 32 ? 528u : 1552u; });
}

TEST(PlantedBarriers, TheSoundSumIsRight) { expect_right(sum<Sum::kNone>()); }
TEST(PlantedBarriers, ShuffleInABranch) {
  planted("shuffle_of_a_full_mask_in_a_branch", "report: diverged warp");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(sum<Sum::kInABranch>(), {"shfl", "planted_barriers_test.cpp:"});
}
TEST(PlantedBarriers, ShuffleFromOutsideTheMask) {
  planted("shuffle_with_a_mask_too_small", "report: a lane outside the mask");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(sum<Sum::kOutsideMask>(), {"reads lane 16 outside mask 0000ffff"});
}
TEST(PlantedBarriers, ShuffleDownWhereAllNeedTheSum) {
  planted("shuffle_down_where_all_lanes_need_the_sum", "wrong result");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(sum<Sum::kOnlyLaneZero>(), {});
}
TEST(PlantedBarriers, OneStepOfTheReductionMissing) {
  planted("reduction_with_a_step_missing", "wrong result");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(sum<Sum::kStepMissing>(), {});
}
TEST(PlantedBarriers, ElectInABranch) {
  planted("elect_in_a_branch", "report: diverged warp");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(sum<Sum::kElectInABranch>(), {"elect", "planted_barriers_test.cpp:"});
}

// -------------------------------------------------------------------------------- named barriers

enum class Named { kNone, kCount, kId, kArriveForSync, kNoWaitForRoom };

constexpr int kFilled = 1, kTaken = 2, kBuffers = 4;

// Warp 2 fills a buffer of 32 words, warps 0 and 1 read it: barrier 1 says filled, 2 says taken.
template <Named kBug>
RUNGS_KERNEL(96)
named_hand_off(std::uint32_t* out) {
  RUNGS_SHARED_ARRAY(std::uint32_t, buffer, 32);
  const unsigned t = threadIdx.x;
  for (unsigned i = 0; i < kBuffers; i++) {
    if (t >= 64) {
      if (i > 0 && kBug != Named::kNoWaitForRoom) ptx::bar_sync(kTaken, 96);
      buffer[t - 64] = 100 * i + t - 64;
      ptx::bar_arrive(kBug == Named::kId ? 3 : kFilled, 96);
    } else {
      if (kBug == Named::kArriveForSync) {
        ptx::bar_arrive(kFilled, 96);
      } else {
        ptx::bar_sync(kFilled, kBug == Named::kCount ? 64 : 96);
      }
      out[64 * i + t] = buffer[(t + 1) % 32];
      if (i + 1 < kBuffers) ptx::bar_arrive(kTaken, 96);
    }
  }
}

template <Named kBug>
Trial named() {
  return one_block(named_hand_off<kBug>, 96, 64 * kBuffers,
                   [](unsigned i) { return 100 * (i / 64) + (i + 1) % 32; });
}

TEST(PlantedBarriers, TheSoundHandOffIsRight) { expect_right(named<Named::kNone>()); }
TEST(PlantedBarriers, NamedBarrierWithTheWrongCount) {
  planted("named_barrier_count", "report: two counts at one barrier");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(named<Named::kCount>(), {"barrier 1 for", "planted_barriers_test.cpp:"});
}
TEST(PlantedBarriers, NamedBarrierWithTheWrongId) {
  planted("named_barrier_id", "deadlock report");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(named<Named::kId>(), {"deadlock", "barrier 1 for 96 threads {64 arrived}"});
}
TEST(PlantedBarriers, ArriveWhereOneMustWait) {
  planted("bar_arrive_for_bar_sync", "deadlock report: one barrier waits for the other");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(named<Named::kArriveForSync>(),
                {"deadlock", "barrier 2 for 96 threads {32 arrived}"});
}
TEST(PlantedBarriers, ABufferFilledBeforeItIsTaken) {
  planted("named_barrier_without_credit", "deadlock report: arrivals of two rounds are mixed up");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(named<Named::kNoWaitForRoom>(),
                {"deadlock", "barrier 1 for 96 threads {64 arrived}"});
}

// ------------------------------------------------------------------------------ an mbarrier ring

enum class Ring {
  kNone,
  kParityOfStep,      // parity from the step's number and not from the lap's
  kCountOfThreads,    // the barrier counts threads, one lane a warp arrives
  kArriveMissing,     // one warp never gives its stage back
  kNoCredit,          // the producer does not wait for room
  kOneLaneWaits,      // only lane 0 waits, nobody waits for lane 0
  kReleaseTooEarly,   // lane 0 gives the stage back before the other lanes have read
  kNextStage,         // reads the stage after the one that is full
  kWaitOnOtherStage,  // waits for the next stage's barrier
  kBarrierSmashed,    // a write past the end of the stages
};

constexpr unsigned kSteps = 12, kStages = 3;

struct RingBuffer {
  std::uint32_t words[kStages][32];
  std::uint64_t full[kStages];
  std::uint64_t empty[kStages];
};

// Warp 2 fills three stages in turn with ordinary stores, warps 0 and 1 read them.
template <Ring kBug>
RUNGS_KERNEL(96)
mbarrier_ring(std::uint32_t* out) {
  RUNGS_SHARED(RingBuffer, s);
  const unsigned t = threadIdx.x, lane = t % 32;
  if (t == 0) {
    for (unsigned i = 0; i < kStages; i++) {
      ptx::mbarrier_init(&s.full[i], 32);
      ptx::mbarrier_init(&s.empty[i], kBug == Ring::kCountOfThreads ? 64 : 2);
    }
    ptx::fence_mbarrier_init();
  }
  ptx::syncthreads();
  for (unsigned i = 0; i < kSteps; i++) {
    const unsigned stage = i % kStages;
    const unsigned parity = kBug == Ring::kParityOfStep ? i & 1 : i / kStages & 1;
    if (t >= 64) {
      if (kBug != Ring::kNoCredit) ptx::mbarrier_wait(&s.empty[stage], parity ^ 1);
      const unsigned to = kBug == Ring::kBarrierSmashed && i == 5 ? kStages : stage;
      (&s.words[0][0])[32 * to + lane] = 1000 * i + lane;
      ptx::mbarrier_arrive(&s.full[stage]);
      continue;
    }
    const unsigned awaited = kBug == Ring::kWaitOnOtherStage ? (stage + 1) % kStages : stage;
    if (kBug != Ring::kOneLaneWaits || lane == 0) ptx::mbarrier_wait(&s.full[awaited], parity);
    if (kBug == Ring::kReleaseTooEarly && lane == 0) ptx::mbarrier_arrive(&s.empty[stage]);
    const unsigned from = kBug == Ring::kNextStage ? (stage + 1) % kStages : stage;
    out[64 * i + t] = s.words[from][lane ^ 1];
    if (kBug == Ring::kReleaseTooEarly) continue;
    ptx::syncwarp();
    const bool releases = lane == 0 && (kBug != Ring::kArriveMissing || t < 32);
    if (releases) ptx::mbarrier_arrive(&s.empty[stage]);
  }
}

template <Ring kBug>
Trial ring() {
  return one_block(mbarrier_ring<kBug>, 96, 64 * kSteps,
                   [](unsigned i) { return 1000 * (i / 64) + (i % 32 ^ 1); });
}

TEST(PlantedBarriers, TheSoundRingIsRight) { expect_right(ring<Ring::kNone>()); }
TEST(PlantedBarriers, ParityOfTheStep) {
  planted("parity_from_the_step_number", "wrong result");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(ring<Ring::kParityOfStep>(), {});
}
TEST(PlantedBarriers, MbarrierCountsThreads) {
  planted("mbarrier_count_of_threads", "deadlock report: arrivals pending");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(ring<Ring::kCountOfThreads>(), {"deadlock", "pending arrivals 62 of 64"});
}
TEST(PlantedBarriers, AnArriveIsMissing) {
  planted("arrive_missing", "deadlock report: arrivals pending");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(ring<Ring::kArriveMissing>(), {"deadlock", "pending arrivals 1 of 2"});
}
TEST(PlantedBarriers, ASlotUsedAgainWithoutCredit) {
  planted("stage_reused_without_credit", "deadlock report: phases have run ahead of their readers");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(ring<Ring::kNoCredit>(), {"deadlock", "an mbarrier at shared-memory offset"});
}
TEST(PlantedBarriers, OnlyOneLaneWaits) {
  planted("one_lane_waits_for_the_warp", "wrong result: shared memory starts as NaN");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(ring<Ring::kOneLaneWaits>(), {});
}
TEST(PlantedBarriers, AStageReleasedBeforeTheWarpHasRead) {
  planted("release_without_syncwarp", "wrong result in random order");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught_at_random(ring<Ring::kReleaseTooEarly>(), 1, {});
}
TEST(PlantedBarriers, TheStageAfterTheFullOne) {
  planted("reads_the_stage_behind", "wrong result");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(ring<Ring::kNextStage>(), {});
}
TEST(PlantedBarriers, WaitsForAnotherStage) {
  planted("waits_for_another_stage", "deadlock report");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(ring<Ring::kWaitOnOtherStage>(),
                {"deadlock", "an mbarrier at shared-memory offset"});
}
TEST(PlantedBarriers, AWritePastTheEndHitsABarrier) {
  planted("write_past_the_end_into_an_mbarrier", "report: the mbarrier is overwritten");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(ring<Ring::kBarrierSmashed>(), {"is overwritten", "a write past the end"});
}

}  // namespace
}  // namespace rungs::emulator::testing
