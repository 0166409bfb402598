// Bugs planted in bulk copies in and out of shared memory, in accesses to another block's shared
// memory, and in the exchange of registers. Every kernel is right with kNone.

#include "planted.hpp"

#include <rungs/gpu/kernel.hpp>
#include <rungs/ptx/bulk.hpp>
#include <rungs/ptx/cluster.hpp>
#include <rungs/ptx/cluster_async.hpp>
#include <rungs/ptx/fence.hpp>
#include <rungs/ptx/mbarrier.hpp>
#include <rungs/ptx/mbarrier_token.hpp>
#include <rungs/ptx/sync.hpp>

namespace rungs::emulator::testing {
namespace {

using rungs::testing::planted;
using Words = std::vector<std::uint32_t>;

// ---------------------------------------------------------------- through shared memory and back

enum class Bulk {
  kNone,
  kNoFence,           // the results are stored, no fence.proxy.async, then the copy out
  kNoBarrier,         // fences, but no barrier: the copy starts before all have stored
  kNoWaitRead,        // results overwritten while they are copied out
  kWaitReadOffByOne,  // two groups may be under way where there are two buffers
  kWaitByAnother,     // a thread waits that has issued nothing
  kNoCommit,
  kNoWaitAtTheEnd,
  kSizeInElements,   // copies out a quarter of the tile
  kExpectsElements,  // expects a quarter of the bytes
  kAddsForStores,    // a reduction where a copy is due
  kDropsForArrives,  // arrive_drop, so that the next phase is complete too early
};

constexpr unsigned kWords = 256, kTiles = 6, kTileBytes = kWords * 4;

struct alignas(128) Tiles {
  std::uint32_t in[kWords];
  std::uint32_t out[2][kWords];
  std::uint64_t full;
  std::uint64_t taken;
};

// out[i] = 2 in[i] + 1, a tile at a time: one buffer in, two out.
template <Bulk kBug>
RUNGS_KERNEL(64)
through_shared(const std::uint32_t* in, std::uint32_t* out) {
  RUNGS_DYNAMIC_SHARED(Tiles, s);
  const unsigned t = threadIdx.x;
  const bool leads = t == 0;
  const auto load = [&](unsigned tile) {
    ptx::mbarrier_arrive_expect_tx(&s.full,
                                   kBug == Bulk::kExpectsElements ? kTileBytes / 4 : kTileBytes);
    ptx::bulk_load(s.in, in + tile * kWords, kTileBytes, &s.full);
  };
  if (leads) {
    ptx::mbarrier_init(&s.full, 1);
    ptx::mbarrier_init(&s.taken, 64);
    ptx::fence_mbarrier_init();
  }
  ptx::syncthreads();
  if (leads) load(0);
  for (unsigned i = 0; i < kTiles; i++) {
    ptx::mbarrier_wait(&s.full, i & 1);
    std::uint32_t values[kWords / 64];
    for (unsigned j = 0; j < kWords / 64; j++) values[j] = 2 * s.in[64 * j + t] + 1;
    if (kBug == Bulk::kDropsForArrives) {
      static_cast<void>(ptx::mbarrier_arrive_drop(&s.taken));
    } else {
      ptx::mbarrier_arrive(&s.taken);
    }
    if (leads) {
      ptx::mbarrier_wait(&s.taken, i & 1);
      if (i + 1 < kTiles) load(i + 1);
      if constexpr (kBug == Bulk::kWaitReadOffByOne) {
        ptx::bulk_wait_read<2>();
      } else if constexpr (kBug != Bulk::kNoWaitRead && kBug != Bulk::kWaitByAnother) {
        ptx::bulk_wait_read<1>();
      }
    }
    if (kBug == Bulk::kWaitByAnother && t == 1) ptx::bulk_wait_read<1>();
    ptx::syncthreads();
    for (unsigned j = 0; j < kWords / 64; j++) s.out[i % 2][64 * j + t] = values[j];
    if (kBug != Bulk::kNoFence) ptx::fence_proxy_async();
    if (kBug != Bulk::kNoBarrier) ptx::syncthreads();
    if (leads) {
      const unsigned bytes = kBug == Bulk::kSizeInElements ? kTileBytes / 4 : kTileBytes;
      if constexpr (kBug == Bulk::kAddsForStores) {
        ptx::bulk_reduce<gpu::BulkReduction::kAdd, gpu::TensorElement::kU32>(out + i * kWords,
                                                                             s.out[i % 2], bytes);
      } else {
        ptx::bulk_store(out + i * kWords, s.out[i % 2], bytes);
      }
      if (kBug != Bulk::kNoCommit) ptx::bulk_commit();
    }
  }
  if (leads && kBug != Bulk::kNoWaitAtTheEnd) ptx::bulk_wait<0>();
}

template <Bulk kBug>
Trial bulk() {
  return [] {
    alignas(256) static std::uint32_t in[kTiles * kWords], out[kTiles * kWords];
    for (unsigned i = 0; i < kTiles * kWords; i++) {
      in[i] = 7 * i + 3;
      out[i] = 0xdeadbeef;
    }
    Executor executor({4, 1});
    const gpu::LaunchConfig config{.grid = {1}, .block = {64}, .shared_bytes = sizeof(Tiles)};
    Outcome outcome;
    outcome.report = run(executor, config, through_shared<kBug>,
                         static_cast<const std::uint32_t*>(in), static_cast<std::uint32_t*>(out));
    outcome.right = outcome.report.empty();
    for (unsigned i = 0; i < kTiles * kWords; i++)
      outcome.right = outcome.right && out[i] == 2 * (7 * i + 3) + 1;
    return outcome;
  };
}

TEST(PlantedBulk, TheSoundCopyIsRight) { expect_right(bulk<Bulk::kNone>()); }
TEST(PlantedBulk, NoFenceBeforeTheCopyOut) {
  planted("no_proxy_fence_before_a_bulk_store", "report of the fence epoch");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(bulk<Bulk::kNoFence>(), {"proxy: ", "fence_proxy_async()"});
}
TEST(PlantedBulk, NoBarrierBeforeTheCopyOut) {
  planted("bulk_store_before_all_have_stored",
          "report: the source was overwritten before it was read");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(bulk<Bulk::kNoBarrier>(), {"race: the source of cp.async.bulk", "was overwritten"});
}
TEST(PlantedBulk, ResultsOverwrittenWhileTheyAreCopied) {
  planted("bulk_store_source_overwritten",
          "nothing: a copy out lands before the next copy in does, also in late order");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_missed(bulk<Bulk::kNoWaitRead>());
}
TEST(PlantedBulk, OneGroupTooManyUnderWay) {
  planted("bulk_wait_read_off_by_one",
          "nothing: a copy out lands before the next copy in does, also in late order");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_missed(bulk<Bulk::kWaitReadOffByOne>());
}
TEST(PlantedBulk, AnotherThreadWaits) {
  planted("bulk_wait_by_another_thread",
          "nothing: a copy out lands before the next copy in does, also in late order");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_missed(bulk<Bulk::kWaitByAnother>());
}
TEST(PlantedBulk, NoCommit) {
  planted("no_bulk_commit", "report: copies of a block that has ended");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(bulk<Bulk::kNoCommit>(), {"whose threads have all ended", "bulk_wait_read<0>()"});
}
TEST(PlantedBulk, NoWaitAtTheEnd) {
  planted("no_bulk_wait_before_the_end", "report: copies of a block that has ended");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(bulk<Bulk::kNoWaitAtTheEnd>(),
                {"whose threads have all ended", "bulk_wait_read<0>()"});
}
TEST(PlantedBulk, ASizeInElements) {
  planted("bulk_size_in_elements", "wrong result");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(bulk<Bulk::kSizeInElements>(), {});
}
TEST(PlantedBulk, ExpectsElements) {
  planted("expect_tx_in_elements", "deadlock report: a phase ends on a quarter of its bytes");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(bulk<Bulk::kExpectsElements>(),
                {"deadlock", "an mbarrier at shared-memory offset"});
}
TEST(PlantedBulk, AReductionForACopy) {
  planted("bulk_reduction_for_a_copy", "wrong result: the output is poisoned by the test");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(bulk<Bulk::kAddsForStores>(), {});
}
TEST(PlantedBulk, DropsForArrives) {
  planted("arrive_drop_for_arrive", "report: more arrivals than the count");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(bulk<Bulk::kDropsForArrives>(), {"more arrivals than its count of 0"});
}

// ----------------------------------------------------------------- another block's shared memory

enum class Peer {
  kNone,
  kNoneReadsLate,  // right: the peer's words are read last
  kNoBarrier,      // reads before the peer has written
  kOwnMemory,      // the address is not mapped: one's own words
  kExitEarly,      // no cluster barrier behind the reads
  kOwnBarrier,     // st.async completes at a barrier of another block than its data's
  kExpectTooLittle,
  kNoWait,  // st.async's words are read without a wait
};

struct Shelf {
  std::uint32_t words[64];
  std::uint32_t gifts[64];
  std::uint64_t landed;
};

// Each block reads its peer's words and sends it others with st.async.
template <Peer kBug>
RUNGS_KERNEL(64)
exchange(std::uint32_t* out) {
  RUNGS_SHARED(Shelf, s);
  const unsigned t = threadIdx.x;
  const std::uint32_t rank = ptx::cluster_rank(), peer = rank ^ 1;
  if (t == 0) {
    ptx::mbarrier_init(&s.landed, 1);
    ptx::fence_mbarrier_init();
    ptx::mbarrier_arrive_expect_tx(&s.landed, kBug == Peer::kExpectTooLittle ? 128 : 256);
  }
  if (kBug == Peer::kNoBarrier) {
    ptx::cluster_arrive();
    ptx::cluster_wait();
  }
  s.words[t] = 100 * rank + t;
  if (kBug != Peer::kNoBarrier) {
    ptx::cluster_arrive();
    ptx::cluster_wait();
  }
  const auto read = [&] {
    const std::uint32_t from = kBug == Peer::kOwnMemory ? rank : peer;
    return ptx::ld_shared_cluster<std::uint32_t>(
        ptx::map_shared(ptx::shared_u32(&s.words[63 - t]), from));
  };
  constexpr bool kLate = kBug == Peer::kNoneReadsLate || kBug == Peer::kExitEarly;
  std::uint32_t word = kLate ? 0 : read();
  ptx::st_async(
      ptx::map_shared(ptx::shared_u32(&s.gifts[t]), peer), 1000 * rank + t,
      ptx::map_shared(ptx::shared_u32(&s.landed), kBug == Peer::kOwnBarrier ? rank : peer));
  if (kBug != Peer::kNoWait) ptx::mbarrier_wait(&s.landed, 0);
  if (kLate) word = read();
  out[blockIdx.x * 64 + t] = word + s.gifts[t];
  if (kBug == Peer::kExitEarly) return;
  ptx::cluster_arrive();
  ptx::cluster_wait();
}

template <Peer kBug>
Trial peers() {
  return [] {
    Words out(128, 0xdeadbeef);
    Executor executor({4, 1});
    const gpu::LaunchConfig config{.grid = {2}, .block = {64}, .cluster = {2}};
    Outcome outcome;
    outcome.report = run(executor, config, exchange<kBug>, out.data());
    outcome.right = outcome.report.empty();
    for (unsigned i = 0; i < 128; i++) {
      const unsigned peer = i / 64 ^ 1, t = i % 64;
      outcome.right = outcome.right && out[i] == 100 * peer + 63 - t + 1000 * peer + t;
    }
    return outcome;
  };
}

TEST(PlantedPeers, TheSoundExchangeIsRight) {
  expect_right(peers<Peer::kNone>());
  expect_right(peers<Peer::kNoneReadsLate>());
}
TEST(PlantedPeers, ReadBeforeThePeerHasWritten) {
  planted("peer_read_before_the_cluster_barrier", "wrong result: shared memory starts as NaN");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(peers<Peer::kNoBarrier>(), {});
}
TEST(PlantedPeers, ItsOwnMemoryForThePeers) {
  planted("peer_address_not_mapped", "wrong result");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(peers<Peer::kOwnMemory>(), {});
}
TEST(PlantedPeers, ABlockEndsWhileItsPeerReads) {
  planted("cluster_exit_while_a_peer_reads", "report: the block has ended");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(peers<Peer::kExitEarly>(), {"has ended"});
}
TEST(PlantedPeers, ABarrierOfAnotherBlockThanTheData) {
  planted("st_async_barrier_of_another_block", "report: data and barrier in two blocks");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(peers<Peer::kOwnBarrier>(),
                {"st.async to block rank 0 with a barrier of block rank 1"});
}
TEST(PlantedPeers, ExpectsHalfOfTheStores) {
  planted("st_async_expects_too_little", "report: st.async lands in a block that has ended");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(peers<Peer::kExpectTooLittle>(), {"st.async: block rank", "has ended"});
}
TEST(PlantedPeers, StoresReadWithoutAWait) {
  planted("st_async_read_without_a_wait", "report: st.async lands in a block that has ended");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(peers<Peer::kNoWait>(), {"st.async: block rank", "has ended"});
}

// ------------------------------------------------------------------------------------- registers

enum class Registers { kNone, kNobodyGives, kPartOfTheGroup };

template <Registers kBug>
RUNGS_KERNEL(384, 1)
take_registers(std::uint32_t* out) {
  if (threadIdx.x < 128) {
    if (kBug == Registers::kNone) ptx::setmaxnreg_dec<40>();
    if (kBug == Registers::kPartOfTheGroup && threadIdx.x < 32) ptx::setmaxnreg_dec<40>();
  } else {
    ptx::setmaxnreg_inc<232>();
  }
  out[threadIdx.x] = threadIdx.x;
}

template <Registers kBug>
Trial registers() {
  return [] {
    Words out(384, 0xdeadbeef);
    Executor executor({4, 1});
    Outcome outcome;
    outcome.report = run(executor, {.grid = {1}, .block = {384}}, take_registers<kBug>, out.data());
    outcome.right = outcome.report.empty();
    for (unsigned i = 0; i < 384; i++) outcome.right = outcome.right && out[i] == i;
    return outcome;
  };
}

TEST(PlantedRegisters, TheSoundExchangeIsRight) { expect_right(registers<Registers::kNone>()); }
TEST(PlantedRegisters, NobodyGivesThem) {
  planted("setmaxnreg_inc_without_dec", "deadlock report: registers free in the block");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(registers<Registers::kNobodyGives>(), {"deadlock", "setmaxnreg.inc to 232"});
}
TEST(PlantedRegisters, PartOfAWarpgroupGivesThem) {
  planted("setmaxnreg_by_part_of_a_warpgroup", "deadlock report: registers free in the block");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(registers<Registers::kPartOfTheGroup>(), {"deadlock", "setmaxnreg.inc to 232"});
}

}  // namespace
}  // namespace rungs::emulator::testing
