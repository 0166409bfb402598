// Bugs planted where blocks share words of global memory: counters, tickets, locks; and at the
// edges of arrays. Every kernel is right with kNone.

#include "planted.hpp"

#include <rungs/gpu/kernel.hpp>
#include <rungs/ptx/atomic.hpp>
#include <rungs/ptx/fence.hpp>
#include <rungs/ptx/memory.hpp>
#include <rungs/ptx/sync.hpp>
#include <rungs/ptx/vector.hpp>

#include <memory>

namespace rungs::emulator::testing {
namespace {

using rungs::testing::planted;
using Words = std::vector<std::uint32_t>;

// ------------------------------------------------------------------------------ counts, last one

enum class Count { kNone, kLoadAndStore, kPlain, kNoFence, kNotReset };

// Every block leaves its part and takes a ticket; the last one adds the parts up.
template <Count kBug>
RUNGS_KERNEL(64)
last_block_adds(std::uint32_t* counter, std::uint32_t* ticket, std::uint32_t* parts,
                std::uint32_t* out) {
  const unsigned t = threadIdx.x;
  if (kBug == Count::kLoadAndStore) {
    const std::uint32_t before = ptx::peek_relaxed_gpu(counter);
    std::uint32_t sum = 1;
    for (int step = 16; step > 0; step /= 2) sum += ptx::shfl_xor(~0u, sum, step);
    if (t % 32 == 0) ptx::st_relaxed_gpu(counter, before + sum);
  } else if (kBug == Count::kPlain) {
    *counter = *counter + 1;
  } else {
    ptx::atomic_add_gpu(counter, 1u);
  }
  if (t != 0) return;
  parts[blockIdx.x] = blockIdx.x + 1;
  if (kBug != Count::kNoFence) ptx::fence_acq_rel_gpu();
  if (ptx::atomic_add_gpu(ticket, 1u) != gridDim.x - 1) return;
  if (kBug != Count::kNoFence) ptx::fence_acq_rel_gpu();
  std::uint32_t sum = 0;
  for (unsigned i = 0; i < gridDim.x; i++) sum += parts[i];
  *out += sum;
  if (kBug != Count::kNotReset) ptx::st_relaxed_gpu(ticket, 0u);
}

template <Count kBug>
Trial count() {
  return [] {
    std::uint32_t counter = 0, ticket = 0, out = 0;
    Words parts(8, 0);
    Executor executor({4, 1});
    Outcome outcome;
    for (int i = 0; i < 2; i++) {
      outcome.report += run(executor, {.grid = {8}, .block = {64}}, last_block_adds<kBug>, &counter,
                            &ticket, parts.data(), &out);
    }
    outcome.right = outcome.report.empty() && counter == 2 * 8 * 64 && out == 2 * 36;
    return outcome;
  };
}

TEST(PlantedCounters, TheSoundCountIsRight) { expect_right(count<Count::kNone>()); }
TEST(PlantedCounters, CountedByLoadAndStore) {
  planted("lost_update_by_load_and_store", "wrong result: warps run in turn");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(count<Count::kLoadAndStore>(), {});
}
TEST(PlantedCounters, CountedWithoutAtomics) {
  planted("lost_update_by_plain_access", "ThreadSanitizer: data race");
  expect_sanitizer_sees("ThreadSanitizer", count<Count::kNone>(), count<Count::kPlain>(),
                        {"data race", "last_block_adds"});
}
TEST(PlantedCounters, TheLastBlockReadsWithoutAFence) {
  planted("no_fence_before_the_ticket", "ThreadSanitizer: data race");
  expect_sanitizer_sees("ThreadSanitizer", count<Count::kNone>(), count<Count::kNoFence>(),
                        {"data race", "last_block_adds"});
}
TEST(PlantedCounters, TheTicketIsNotReset) {
  planted("ticket_not_reset", "wrong result of the second launch");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(count<Count::kNotReset>(), {});
}

// --------------------------------------------------------------------------- locks and residency

enum class Lock { kNone, kNeverReleased, kPlainSpin };

// lock · taken with cas, released by the holder
template <Lock kBug>
RUNGS_KERNEL(32)
take_lock(std::uint32_t* lock, std::uint32_t* counter) {
  if (threadIdx.x != 0) return;
  if (kBug == Lock::kPlainSpin) {
    if (blockIdx.x == 1) ptx::st_release_gpu(lock, 1u);
    while (*static_cast<volatile std::uint32_t*>(lock) == 0) {
    }
    return;
  }
  while (ptx::atomic_cas_gpu(lock, 0u, 1u) != 0) {
  }
  ptx::fence_acq_rel_gpu();
  ptx::st_relaxed_gpu(counter, ptx::peek_relaxed_gpu(counter) + 1);
  ptx::fence_acq_rel_gpu();
  if (kBug != Lock::kNeverReleased) ptx::atomic_exchange_gpu(lock, 0u);
}

template <Lock kBug>
Trial lock() {
  return [] {
    std::uint32_t word = 0, counter = 0;
    Executor executor({4, 1});
    Outcome outcome;
    outcome.report = run(executor, {.grid = {4}, .block = {32}, .cooperative = true},
                         take_lock<kBug>, &word, &counter);
    outcome.right = outcome.report.empty() && counter == 4;
    return outcome;
  };
}

TEST(PlantedCounters, TheSoundLockIsRight) { expect_right(lock<Lock::kNone>()); }
TEST(PlantedCounters, ALockThatIsNeverReleased) {
  planted("lock_never_released", "watchdog report: every thread polls in vain");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(lock<Lock::kNeverReleased>(), {"no progress", "planted_counters_test.cpp:"});
}
TEST(PlantedCounters, ASpinOnAnOrdinaryLoad) {
  planted("spin_on_a_plain_load",
          "nothing: a loop without a wrapper never gives the processor back; the launch hangs");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  if (std::getenv("RUNGS_PLANTED") != nullptr) {
    const ScopedOptions scope({Async::kLate, 0, kImpatience});
    static_cast<void>(lock<Lock::kPlainSpin>()());
    return;
  }
  const auto hung = rungs::testing::rerun_self("RUNGS_PLANTED=wrong timeout 3",
                                               "PlantedCounters.ASpinOnAnOrdinaryLoad");
  EXPECT_NE(hung.status, 0) << "it ends by now: say so, and by what:" << hung.output;
  EXPECT_EQ(hung.output.find("[  FAILED"), std::string::npos) << hung.output;
}

enum class Wave { kNone, kWaitsForALaterBlock };

// The first block waits for the last one; the others hold its place on the device.
template <Wave kBug>
RUNGS_KERNEL(32)
wait_for_the_last(std::uint32_t* flag) {
  if (threadIdx.x != 0) return;
  if (blockIdx.x == gridDim.x - 1) ptx::st_release_gpu(flag, 1u);
  while (ptx::ld_acquire_gpu(flag) == 0) {
  }
}

template <Wave kBug>
Trial wave(unsigned blocks) {
  return [blocks] {
    std::uint32_t flag = 0;
    Executor executor({4, 1});
    Outcome outcome;
    outcome.report = run(executor, {.grid = {blocks}, .block = {32}, .shared_bytes = 200 * 1024},
                         wait_for_the_last<kBug>, &flag);
    outcome.right = outcome.report.empty();
    return outcome;
  };
}

TEST(PlantedCounters, TheSoundWaveIsRight) { expect_right(wave<Wave::kNone>(4)); }
TEST(PlantedCounters, AWaitForABlockThatFindsNoRoom) {
  planted("wait_for_a_block_that_is_not_resident", "watchdog report: does not fit beside it");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(wave<Wave::kWaitsForALaterBlock>(5), {"no progress", "does not fit"});
}

// -------------------------------------------------------------------- what AddressSanitizer sees

enum class Bounds { kNone, kNoTail, kSharedPastTheEnd, kMisaligned };

template <Bounds kBug>
RUNGS_KERNEL(64)
scale(const std::uint32_t* in, std::uint32_t* out, unsigned n) {
  RUNGS_SHARED_ARRAY(std::uint32_t, staged, 64);
  const unsigned i = blockIdx.x * 64 + threadIdx.x;
  staged[threadIdx.x] = i < n ? in[i] : 0;
  ptx::syncthreads();
  const unsigned from = kBug == Bounds::kSharedPastTheEnd ? threadIdx.x + 1 : threadIdx.x;
  const std::uint32_t value = (&staged[0])[from];
  if (kBug == Bounds::kMisaligned) {
    if (i % 4 == 0 && i + 4 < n)
      *reinterpret_cast<ptx::U32x4*>(out + i + 1) = {2 * i + 2, 2 * i + 4, 2 * i + 6, 2 * i + 8};
    if (i == 0) out[0] = 0;
    return;
  }
  if (i < n || kBug == Bounds::kNoTail) out[i] = 2 * value;
}

template <Bounds kBug>
Trial bounds() {
  return [] {
    constexpr unsigned kLength = 101;
    const auto in = std::make_unique<std::uint32_t[]>(kLength);
    const auto out = std::make_unique<std::uint32_t[]>(kLength);
    for (unsigned i = 0; i < kLength; i++) in[i] = i;
    Executor executor({4, 1});
    Outcome outcome;
    outcome.report = run(executor, {.grid = {2}, .block = {64}}, scale<kBug>,
                         static_cast<const std::uint32_t*>(in.get()), out.get(), kLength);
    outcome.right = outcome.report.empty();
    for (unsigned i = 0; i < kLength; i++) outcome.right = outcome.right && out[i] == 2 * i;
    return outcome;
  };
}

TEST(PlantedCounters, TheSoundBoundsAreKept) { expect_right(bounds<Bounds::kNone>()); }
TEST(PlantedCounters, ATailWithoutACheck) {
  planted("store_past_the_end_of_a_tensor", "AddressSanitizer: heap-buffer-overflow");
  expect_sanitizer_sees("AddressSanitizer", bounds<Bounds::kNone>(), bounds<Bounds::kNoTail>(),
                        {"AddressSanitizer", "scale"});
}
TEST(PlantedCounters, SharedMemoryPastTheEnd) {
  planted("shared_memory_past_the_end", "AddressSanitizer: use-after-poison");
  expect_sanitizer_sees("AddressSanitizer", bounds<Bounds::kNone>(),
                        bounds<Bounds::kSharedPastTheEnd>(), {"AddressSanitizer", "scale"});
}
TEST(PlantedCounters, AVectorAccessOffItsAlignment) {
  planted("misaligned_vector_access", "UndefinedBehaviorSanitizer: misaligned address");
  expect_sanitizer_sees("AddressSanitizer", bounds<Bounds::kNone>(), bounds<Bounds::kMisaligned>(),
                        {"misaligned address"});
}

}  // namespace
}  // namespace rungs::emulator::testing
