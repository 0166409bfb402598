// Bugs planted in tile copies: a ring of stages that TMA fills and threads read, and a cluster
// whose blocks load halves of a tile for each other. Every kernel is right with kNone.

#include "planted.hpp"

#include <rungs/emulator/tensor_map.hpp>
#include <rungs/gpu/kernel.hpp>
#include <rungs/ptx/fence.hpp>
#include <rungs/ptx/mbarrier.hpp>
#include <rungs/ptx/sync.hpp>
#include <rungs/ptx/tma.hpp>

namespace rungs::emulator::testing {
namespace {

using gpu::Swizzle;
using rungs::testing::planted;

// ------------------------------------------------------------------------------- a ring of tiles

enum class Copy {
  kNone,
  kByAllLanes,          // no elected thread: 32 copies where one is meant
  kExpectAfterArrive,   // arrive, then expect: the phase ends between the two
  kExpectOfOneTile,     // two copies, the bytes of one expected
  kCoordinatesSwapped,  // row for column
  kDestinationUnaligned,
  kColumnInsideChunk,
  kReadUnswizzled,     // the tile is swizzled, the reader does not know
  kStageReusedAtOnce,  // the producer waits for no one
  kParityNeverFlips,   // the producer's parity is that of the first lap
  kNoWait,             // the readers do not wait
  kWaitOnEmpty,        // the readers wait for the wrong array of barriers
  kMapInLocalMemory,   // a copy of the map on the thread's stack
  kNoInitFence,        // no fence.mbarrier_init
  kStoresBeforeCopy,   // ordinary stores to the stage, no fence.proxy.async, then the copy
};

constexpr unsigned kSteps = 6, kStages = 2, kRows = 8, kRowBytes = 128;
constexpr unsigned kTileBytes = kRows * kRowBytes, kWidth = kSteps * kRowBytes;

struct alignas(1024) Stages {
  std::uint8_t tiles[kStages][kTileBytes];
  std::uint8_t room[kTileBytes];
  std::uint64_t full[kStages];
  std::uint64_t empty[kStages];
};

// Copies [8][768] bytes tile by tile through shared memory. Warp 2 copies in, warps 0 and 1 read.
template <Copy kBug>
RUNGS_KERNEL(96)
copy_tiles(RUNGS_GRID_CONSTANT const gpu::TensorMap map, std::uint8_t* out) {
  RUNGS_DYNAMIC_SHARED(Stages, s);
  const unsigned t = threadIdx.x;
  if (t == 0) {
    for (unsigned i = 0; i < kStages; i++) {
      ptx::mbarrier_init(&s.full[i], 1);
      ptx::mbarrier_init(&s.empty[i], 2);
    }
    if (kBug != Copy::kNoInitFence) ptx::fence_mbarrier_init();
  }
  if (kBug == Copy::kStoresBeforeCopy) {
    for (unsigned i = t; i < kStages * kTileBytes; i += 96) s.tiles[0][i] = 0;
  }
  ptx::syncthreads();
  if (t >= 64) {
    const gpu::TensorMap copied = map;
    const gpu::TensorMap* const from = kBug == Copy::kMapInLocalMemory ? &copied : &map;
    if (kBug == Copy::kByAllLanes || ptx::elect_one()) {
      for (unsigned i = 0; i < kSteps; i++) {
        const unsigned stage = i % kStages;
        const unsigned lap = kBug == Copy::kParityNeverFlips ? 0 : i / kStages & 1;
        if (kBug != Copy::kStageReusedAtOnce) ptx::mbarrier_wait(&s.empty[stage], lap ^ 1);
        if (kBug == Copy::kExpectAfterArrive) {
          ptx::mbarrier_arrive(&s.full[stage]);
          ptx::mbarrier_expect_tx(&s.full[stage], kTileBytes);
        } else {
          const bool half = kBug == Copy::kExpectOfOneTile;
          ptx::mbarrier_arrive_expect_tx(&s.full[stage], half ? kTileBytes / 2 : kTileBytes);
        }
        std::uint8_t* to = s.tiles[stage];
        if (kBug == Copy::kDestinationUnaligned) to += 64;
        int x = static_cast<int>(i * kRowBytes), y = 0;
        if (kBug == Copy::kColumnInsideChunk) x += 8;
        if (kBug == Copy::kCoordinatesSwapped) std::swap(x, y);
        ptx::tma_load_2d(to, from, &s.full[stage], x, y);
      }
    }
    ptx::syncwarp();
    return;
  }
  for (unsigned i = 0; i < kSteps; i++) {
    const unsigned stage = i % kStages, lap = i / kStages & 1;
    if (kBug == Copy::kWaitOnEmpty) {
      ptx::mbarrier_wait(&s.empty[stage], lap ^ 1);
    } else if (kBug != Copy::kNoWait) {
      ptx::mbarrier_wait(&s.full[stage], lap);
    }
    for (unsigned b = t; b < kTileBytes; b += 64) {
      const unsigned row = b / kRowBytes, column = b % kRowBytes;
      const unsigned chunk = kBug == Copy::kReadUnswizzled ? column / 16 : column / 16 ^ row % 8;
      out[row * kWidth + i * kRowBytes + column] =
          s.tiles[stage][row * kRowBytes + chunk * 16 + column % 16];
    }
    ptx::syncwarp();
    if (t % 32 == 0) ptx::mbarrier_arrive(&s.empty[stage]);
  }
}

/// Which tensor the map of the trial describes.
enum class Map { kRight, kOfAnotherTensor, kOfAnotherPitch, kOfASmallerBox };

template <Copy kBug>
Trial copies(Map which = Map::kRight) {
  return [which] {
    alignas(256) static std::uint8_t source[kRows * kWidth], another[kRows * kWidth];
    for (unsigned i = 0; i < sizeof(source); i++) {
      source[i] = static_cast<std::uint8_t>(i * 7 + i / 251 + 1);
      another[i] = static_cast<std::uint8_t>(source[i] + 1);
    }
    const bool smaller = which == Map::kOfASmallerBox, other_pitch = which == Map::kOfAnotherPitch;
    const auto map =
        encode_tensor_map({which == Map::kOfAnotherTensor ? another : source, kRows,
                           other_pitch ? kWidth / 2 : kWidth, other_pitch ? kWidth / 2 : kWidth,
                           smaller ? 4 : kRows, kRowBytes, 1, Swizzle::k128B});
    std::vector<std::uint8_t> out(kRows * kWidth, 0xee);
    Executor executor({4, 1});
    const gpu::LaunchConfig config{.grid = {1}, .block = {96}, .shared_bytes = sizeof(Stages)};
    Outcome outcome;
    outcome.report = run(executor, config, copy_tiles<kBug>, map, out.data());
    outcome.right =
        outcome.report.empty() && std::equal(out.begin(), out.end(), std::begin(source));
    return outcome;
  };
}

TEST(PlantedTma, TheSoundCopyIsRight) { expect_right(copies<Copy::kNone>()); }
TEST(PlantedTma, EveryLaneCopies) {
  planted("copy_issued_by_all_lanes", "report: more arrivals than the count");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(copies<Copy::kByAllLanes>(),
                {"more arrivals than its count of 1", "planted_tma_test.cpp:"});
}
TEST(PlantedTma, ExpectAfterArrive) {
  planted("expect_tx_after_arrive", "report: a copy issued over a copy that still lands");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(copies<Copy::kExpectAfterArrive>(), {"race: tile copy #", "still landing"});
}
TEST(PlantedTma, ExpectsHalfTheBytes) {
  planted("expect_tx_of_half_the_tile", "deadlock report: a phase ends on half its bytes");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(copies<Copy::kExpectOfOneTile>(),
                {"deadlock", "an mbarrier at shared-memory offset"});
}
TEST(PlantedTma, CoordinatesSwapped) {
  planted("coordinates_swapped", "wrong result: zeros from outside the tensor");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(copies<Copy::kCoordinatesSwapped>(), {});
}
TEST(PlantedTma, DestinationUnaligned) {
  planted("tma_destination_misaligned", "report: alignment");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(copies<Copy::kDestinationUnaligned>(), {"is not 128-byte aligned"});
}
TEST(PlantedTma, ColumnInsideAChunk) {
  planted("tma_column_inside_a_chunk", "report: alignment");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(copies<Copy::kColumnInsideChunk>(), {"not a multiple of 16"});
}
TEST(PlantedTma, ReadWithoutTheSwizzle) {
  planted("swizzled_tile_read_unswizzled", "wrong result");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(copies<Copy::kReadUnswizzled>(), {});
}
TEST(PlantedTma, AStageRefilledAtOnce) {
  planted("tma_stage_reused_without_credit", "report: more arrivals than the count");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(copies<Copy::kStageReusedAtOnce>(),
                {"more arrivals than its count of 1", "who arrives"});
}
TEST(PlantedTma, TheProducersParityNeverFlips) {
  planted("producer_parity_never_flips", "report: more arrivals than the count");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(copies<Copy::kParityNeverFlips>(),
                {"more arrivals than its count of 1", "who arrives"});
}
TEST(PlantedTma, ReadersDoNotWait) {
  planted("tile_read_without_a_wait", "report: the stage comes back before its phase is over");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(copies<Copy::kNoWait>(), {"more arrivals than its count of 1", "who arrives"});
}
TEST(PlantedTma, ReadersWaitForTheEmptyBarrier) {
  planted("readers_wait_on_the_empty_barrier",
          "report: the stage comes back before its phase is over");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(copies<Copy::kWaitOnEmpty>(), {"more arrivals than its count of 1", "who arrives"});
}
TEST(PlantedTma, MapOfAnotherTensor) {
  planted("stale_tensor_map_pointer", "wrong result");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(copies<Copy::kNone>(Map::kOfAnotherTensor), {});
}
TEST(PlantedTma, MapOfAnotherShape) {
  planted("stale_tensor_map_shape", "wrong result");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(copies<Copy::kNone>(Map::kOfAnotherPitch), {});
}
TEST(PlantedTma, MapOfASmallerBox) {
  planted("stale_tensor_map_box", "deadlock report: bytes still expected");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(copies<Copy::kNone>(Map::kOfASmallerBox),
                {"deadlock", "bytes still expected 512", "initialised at planted_tma_test.cpp"});
}
TEST(PlantedTma, MapInLocalMemory) {
  planted("tensor_map_in_local_memory", "nothing: the model reads a map wherever it lies");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_missed(copies<Copy::kMapInLocalMemory>());
}
TEST(PlantedTma, NoInitFence) {
  planted("no_fence_mbarrier_init", "nothing: fence.mbarrier_init is not modelled");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_missed(copies<Copy::kNoInitFence>());
}
TEST(PlantedTma, StoresBeforeTheCopy) {
  planted("no_proxy_fence_between_stores_and_copy",
          "report of the fence epoch: TMA writes what threads wrote");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(copies<Copy::kStoresBeforeCopy>(),
                {"proxy: TMA writes shared memory", "fence_proxy_async()"});
}

// ------------------------------------------------------------------------------------- a cluster

enum class Pair {
  kNone,
  kMaskTooWide,       // a block that the cluster does not have
  kMaskOfOneself,     // the peer gets nothing
  kPeerNotExpecting,  // rank 1 expects its own half only
  kNoClusterSync,     // only the block's own barrier after mbarrier_init
  kNoCredit,          // the second tile is loaded while the peer may still read the first
  kRemoteWrongRank,   // credit given to oneself
  kExitEarly,         // a block ends while its peer still sends to it
  kParityNeverFlips,  // second lap waits for the first lap's phase
  kNoFinalSync,       // no cluster barrier at the end: a block ends, its peer still arrives there
};

struct alignas(1024) Halves {
  std::uint8_t bytes[2][1024];
  std::uint64_t landed;
  std::uint64_t taken;
};

constexpr unsigned kLaps = 3;

// Both blocks of a cluster load one half of each tile of 2048 bytes into both.
template <Pair kBug>
RUNGS_KERNEL(64)
share_halves(RUNGS_GRID_CONSTANT const gpu::TensorMap map, std::uint8_t* out) {
  RUNGS_DYNAMIC_SHARED(Halves, s);
  const unsigned t = threadIdx.x;
  const std::uint32_t rank = ptx::cluster_rank();
  if (t == 0) {
    ptx::mbarrier_init(&s.landed, 1);
    ptx::mbarrier_init(&s.taken, 2);  // one arrival a block
    ptx::fence_mbarrier_init();
  }
  if (kBug == Pair::kNoClusterSync) {
    ptx::syncthreads();
  } else {
    ptx::cluster_arrive();
    ptx::cluster_wait();
  }
  for (unsigned lap = 0; lap < kLaps; lap++) {
    if (t == 0) {
      // Room in both blocks: each has told both.
      if (lap > 0 && kBug != Pair::kNoCredit) ptx::mbarrier_wait(&s.taken, (lap - 1) & 1);
      const bool half = kBug == Pair::kPeerNotExpecting && rank == 1;
      ptx::mbarrier_arrive_expect_tx(&s.landed, half ? 1024 : 2048);
      const std::uint16_t mask = kBug == Pair::kMaskTooWide     ? 7
                                 : kBug == Pair::kMaskOfOneself ? 1 << rank
                                                                : 3;
      ptx::tma_load_2d_multicast(s.bytes[rank], &map, &s.landed, 0,
                                 static_cast<int>(16 * lap + 8 * rank), mask);
    }
    if (kBug == Pair::kExitEarly && lap == kLaps - 1 && rank == 1) return;
    ptx::mbarrier_wait(&s.landed, kBug == Pair::kParityNeverFlips ? 0 : lap & 1);
    for (unsigned i = t; i < 2048; i += 64)
      out[(blockIdx.x * kLaps + lap) * 2048 + i] = s.bytes[i / 1024][i % 1024];
    ptx::syncthreads();
    if (t < 2) {
      const std::uint32_t to = kBug == Pair::kRemoteWrongRank ? rank : t;
      ptx::mbarrier_arrive_cluster(ptx::map_shared(ptx::shared_u32(&s.taken), to));
    }
  }
  if (kBug == Pair::kNoFinalSync) return;
  ptx::cluster_arrive();
  ptx::cluster_wait();
}

template <Pair kBug>
Trial pairs() {
  return [] {
    alignas(256) static std::uint8_t source[kLaps * 2048];
    for (unsigned i = 0; i < sizeof(source); i++)
      source[i] = static_cast<std::uint8_t>(i * 13 + i / 256);
    const auto map =
        encode_tensor_map({source, kLaps * 16, 128, 128, 8, 128, 1, gpu::Swizzle::kNone});
    std::vector<std::uint8_t> out(2 * sizeof(source), 0xee);
    Executor executor({4, 1});
    const gpu::LaunchConfig config{
        .grid = {2}, .block = {64}, .shared_bytes = sizeof(Halves), .cluster = {2}};
    Outcome outcome;
    outcome.report = run(executor, config, share_halves<kBug>, map, out.data());
    outcome.right = outcome.report.empty();
    for (std::size_t i = 0; i < out.size(); i++) {
      // With kExitEarly block 1 leaves its last tile unwritten: not what is judged.
      if (kBug == Pair::kExitEarly && i >= out.size() - 2048) break;
      outcome.right = outcome.right && out[i] == source[i % sizeof(source)];
    }
    return outcome;
  };
}

TEST(PlantedClusters, TheSoundPairIsRight) { expect_right(pairs<Pair::kNone>()); }
TEST(PlantedClusters, AMaskWiderThanTheCluster) {
  planted("multicast_mask_too_wide", "report: the mask names a block that the cluster lacks");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(pairs<Pair::kMaskTooWide>(), {"multicast mask 0007 in a cluster of 2"});
}
TEST(PlantedClusters, AMaskWithoutThePeer) {
  planted("multicast_mask_lacks_the_peer", "deadlock report: bytes still expected");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(pairs<Pair::kMaskOfOneself>(), {"deadlock", "bytes still expected 1024"});
}
TEST(PlantedClusters, ThePeersBarrierExpectsTooLittle) {
  planted("multicast_peer_not_expecting", "deadlock report");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(pairs<Pair::kPeerNotExpecting>(),
                {"deadlock", "an mbarrier at shared-memory offset"});
}
TEST(PlantedClusters, OnlyTheBlockIsSynchronised) {
  planted("no_cluster_barrier_after_init",
          "report with early landing: a barrier that is not initialised");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught_early(pairs<Pair::kNoClusterSync>());
}
TEST(PlantedClusters, ATileOverwrittenInThePeer) {
  planted("multicast_over_a_tile_in_use", "wrong result: the tile is poisoned when a copy starts");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(pairs<Pair::kNoCredit>(), {});
}
TEST(PlantedClusters, CreditGivenToOneself) {
  planted("remote_arrive_at_the_wrong_rank", "wrong result");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(pairs<Pair::kRemoteWrongRank>(), {});
}
TEST(PlantedClusters, TheSecondLapWaitsForTheFirst) {
  planted("cluster_parity_never_flips", "report: more arrivals than the count");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(pairs<Pair::kParityNeverFlips>(),
                {"more arrivals than its count of 1", "who arrives"});
}
TEST(PlantedClusters, ABlockEndsWhileItsPeerSends) {
  planted("cluster_exit_while_a_peer_writes", "report: TMA lands in a block that has ended");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(pairs<Pair::kExitEarly>(), {"TMA lands", "whose threads have all ended"});
}
TEST(PlantedClusters, NoClusterBarrierAtTheEnd) {
  planted("no_cluster_barrier_at_the_end", "report: arrival at a block that has ended");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(pairs<Pair::kNoFinalSync>(), {"mbarrier.arrive: block rank", "has ended"});
}

}  // namespace
}  // namespace rungs::emulator::testing
