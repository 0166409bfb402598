// Bugs planted in messages through global memory: flags, lines, rings. Where memory
// order is at stake only ThreadSanitizer sees the bug (x86 keeps the order that a GPU may not), and
// where both sides are atomic nobody does. Every kernel is right with kNone.

#include "planted.hpp"

#include <rungs/gpu/kernel.hpp>
#include <rungs/ptx/atomic.hpp>
#include <rungs/ptx/memory.hpp>
#include <rungs/ptx/sync.hpp>
#include <rungs/ptx/vector.hpp>

namespace rungs::emulator::testing {
namespace {

using rungs::testing::planted;
using Words = std::vector<std::uint32_t>;

// ------------------------------------------------------------------------------- data and a flag

enum class Message {
  kNone,
  kRelaxedStore,     // the flag is stored without release
  kRelaxedLoad,      // the flag is loaded without acquire
  kBothRelaxed,      // data, too, by relaxed accesses: no race, no order
  kFlagBeforeBlock,  // the flag is raised before the other threads have stored
  kDataBeforeFlag,   // the reader takes the data, then waits
};

constexpr unsigned kCount = 256;

// flag · raised by the writing block's thread 0 · awaited by the reading block's thread 0
template <Message kBug>
RUNGS_KERNEL(64)
send_message(std::uint32_t* data, std::uint32_t* flag, std::uint32_t* out) {
  const unsigned t = threadIdx.x;
  if (blockIdx.x == 1) {  // block 0 is there before: both are resident at once
    if (kBug == Message::kFlagBeforeBlock && t == 0) ptx::st_release_gpu(flag, 1u);
    for (unsigned i = t; i < kCount; i += 64) {
      if (kBug == Message::kBothRelaxed) {
        ptx::st_relaxed_gpu(&data[i], 3 * i + 1);
      } else {
        data[i] = 3 * i + 1;
      }
    }
    ptx::syncthreads();
    if (t != 0 || kBug == Message::kFlagBeforeBlock) return;
    if (kBug == Message::kRelaxedStore || kBug == Message::kBothRelaxed) {
      ptx::st_relaxed_gpu(flag, 1u);
    } else {
      ptx::st_release_gpu(flag, 1u);
    }
    return;
  }
  const std::uint32_t early = kBug == Message::kDataBeforeFlag ? data[t] : 0;
  if (t == 0) {
    if (kBug == Message::kRelaxedLoad || kBug == Message::kBothRelaxed) {
      while (ptx::ld_relaxed_gpu(flag) == 0) {
      }
    } else {
      while (ptx::ld_acquire_gpu(flag) == 0) {
      }
    }
  }
  ptx::syncthreads();
  for (unsigned i = t; i < kCount; i += 64) {
    const bool taken = kBug == Message::kDataBeforeFlag && i == t;
    out[i] = taken                           ? early
             : kBug == Message::kBothRelaxed ? ptx::peek_relaxed_gpu(&data[i])
                                             : data[i];
  }
}

template <Message kBug>
Trial message() {
  return [] {
    Words data(kCount, 0), flag(1, 0), out(kCount, 0xdeadbeef);
    Executor executor({4, 1});
    Outcome outcome;
    outcome.report = run(executor, {.grid = {2}, .block = {64}, .cooperative = true},
                         send_message<kBug>, data.data(), flag.data(), out.data());
    outcome.right = outcome.report.empty();
    for (unsigned i = 0; i < kCount; i++) outcome.right = outcome.right && out[i] == 3 * i + 1;
    return outcome;
  };
}

TEST(PlantedMemory, TheSoundMessageIsRight) { expect_right(message<Message::kNone>()); }
TEST(PlantedMemory, DataTakenBeforeTheFlag) {
  planted("data_read_before_the_flag", "wrong result: the reader runs first");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(message<Message::kDataBeforeFlag>(), {});
}
TEST(PlantedMemory, FlagStoredRelaxed) {
  planted("flag_stored_relaxed", "ThreadSanitizer: data race");
  expect_sanitizer_sees("ThreadSanitizer", message<Message::kNone>(),
                        message<Message::kRelaxedStore>(), {"data race", "send_message"});
}
TEST(PlantedMemory, FlagLoadedRelaxed) {
  planted("flag_loaded_relaxed", "ThreadSanitizer: data race");
  expect_sanitizer_sees("ThreadSanitizer", message<Message::kNone>(),
                        message<Message::kRelaxedLoad>(), {"data race", "send_message"});
}
TEST(PlantedMemory, FlagRaisedBeforeTheBlockHasStored) {
  planted("flag_raised_before_the_barrier", "ThreadSanitizer: data race");
  expect_sanitizer_sees("ThreadSanitizer", message<Message::kNone>(),
                        message<Message::kFlagBeforeBlock>(), {"data race", "send_message"});
}
TEST(PlantedMemory, DataAndFlagRelaxed) {
  planted("data_and_flag_relaxed",
          "nothing: relaxed accesses are no race, and x86 keeps the order that a GPU may not");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_missed(message<Message::kBothRelaxed>());
}

// --------------------------------------------------------------------------------- a peer's flag

// One device stores, another reads: the scope must be the system's.
template <bool kSystem>
RUNGS_KERNEL(32)
tell_peer(std::uint32_t* data, std::uint32_t* flag) {
  if (threadIdx.x != 0) return;
  *data = 7;
  if (kSystem) {
    ptx::st_release_sys(flag, 1u);
  } else {
    ptx::st_release_gpu(flag, 1u);
  }
}
RUNGS_KERNEL(32)
hear_peer(const std::uint32_t* data, const std::uint32_t* flag, std::uint32_t* out) {
  if (threadIdx.x != 0) return;
  while (ptx::ld_acquire_sys(flag) == 0) {
  }
  *out = *data;
}

template <bool kSystem>
Trial peers() {
  return [] {
    std::uint32_t data = 0, flag = 0, out = 0;
    Executor writer({4, 1}), reader({4, 1});
    Completion heard;
    reader.submit(
        make_request("hear_peer", {.grid = {1}, .block = {32}}, hear_peer, &data, &flag, &out),
        heard.callback());
    Outcome outcome;
    outcome.report = run(writer, {.grid = {1}, .block = {32}}, tell_peer<kSystem>, &data, &flag);
    outcome.report += heard.wait();
    outcome.right = outcome.report.empty() && out == 7;
    return outcome;
  };
}

TEST(PlantedMemory, TheSoundPeerIsHeard) { expect_right(peers<true>()); }
TEST(PlantedMemory, ScopeOfOneDeviceForAPeersFlag) {
  planted("scope_gpu_where_sys_is_due",
          "nothing: on the host every atomic access has the scope of the system");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_missed(peers<false>());
}

// ------------------------------------------------------------------------- lines that hold flags

enum class Line {
  kNone,
  kOneFlag,       // looks at the flag of one half of 8 bytes only
  kSameFlag,      // the flag does not tell one round from the next
  kFlagLaneFirst  // LL128: the lane with the flag stores before the others have
};

// lines · data and flag in each half of 8 bytes, written by block 0, read by block 1 · echo: free
template <Line kBug>
RUNGS_KERNEL(64)
send_lines(ptx::U32x4* lines, std::uint32_t* echo, std::uint32_t* wrong, unsigned rounds) {
  const unsigned t = threadIdx.x;
  for (std::uint32_t round = 1; round <= rounds; round++) {
    const std::uint32_t flag = kBug == Line::kSameFlag ? 1 : round;
    if (blockIdx.x == 0) {
      ptx::st_volatile_v4(&lines[t], {t * 1000 + round, flag, t * 1000 + round + 500, flag});
      while (ptx::ld_relaxed_gpu(&echo[t]) != round) {
      }
    } else {
      ptx::U32x4 line = ptx::ld_volatile_v4(&lines[t]);
      while (line.y != flag || (kBug != Line::kOneFlag && line.w != flag))
        line = ptx::ld_volatile_v4(&lines[t]);
      if (line.x != t * 1000 + round || line.z != line.x + 500) ptx::atomic_add_gpu(wrong, 1u);
      ptx::st_relaxed_gpu(&echo[t], round);
    }
  }
}

// LL128: 32 lanes send lines of 8 x 16 bytes; the last word of a line is its flag. flags lie with
// the data, and the lane that stores them must come last (st.release stands for NVLink's promise).
template <Line kBug>
RUNGS_KERNEL(32)
send_wide_lines(ptx::U32x4* lines, std::uint32_t* flags, std::uint32_t* wrong) {
  const unsigned lane = threadIdx.x, line = lane / 8;
  if (blockIdx.x == 1) {
    const auto raise = [&] {
      if (lane % 8 == 0) ptx::st_release_gpu(&flags[line], 1u);
    };
    if (kBug == Line::kFlagLaneFirst) raise();
    ptx::st_volatile_v4(&lines[lane], {lane, lane + 1, lane + 2, lane + 3});
    ptx::syncwarp();
    if (kBug != Line::kFlagLaneFirst) raise();
  } else {
    while (ptx::ld_acquire_gpu(&flags[line]) == 0) {
    }
    const ptx::U32x4 got = ptx::ld_volatile_v4(&lines[lane]);
    if (got.x != lane || got.w != lane + 3) ptx::atomic_add_gpu(wrong, 1u);
  }
}

template <Line kBug>
Trial lines() {
  return [] {
    struct alignas(16) Memory {
      ptx::U32x4 lines[64] = {};
      std::uint32_t echo[64] = {};
      std::uint32_t wrong = 0;
    } memory;
    Executor executor({4, 1});
    Outcome outcome;
    if constexpr (kBug == Line::kFlagLaneFirst) {
      outcome.report = run(executor, {.grid = {2}, .block = {32}, .cooperative = true},
                           send_wide_lines<kBug>, memory.lines, memory.echo, &memory.wrong);
    } else {
      outcome.report = run(executor, {.grid = {2}, .block = {64}, .cooperative = true},
                           send_lines<kBug>, memory.lines, memory.echo, &memory.wrong, 6u);
    }
    outcome.right = outcome.report.empty() && memory.wrong == 0;
    return outcome;
  };
}

TEST(PlantedMemory, TheSoundLinesAreRight) { expect_right(lines<Line::kNone>()); }
TEST(PlantedMemory, OneFlagForTwoHalves) {
  planted("ll_looks_at_one_flag", "wrong result: the halves of a line are stored apart");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(lines<Line::kOneFlag>(), {});
}
TEST(PlantedMemory, TheSameFlagEveryRound) {
  planted("ll_flag_of_the_last_round",
          "watchdog report: the line of a round was taken for that of another");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(lines<Line::kSameFlag>(), {"no progress", "polling address"});
}
TEST(PlantedMemory, TheFlagLaneComesFirst) {
  planted("ll128_flag_lane_first", "wrong result: other threads run between the lanes' stores");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(lines<Line::kFlagLaneFirst>(), {});
}

// ---------------------------------------------------------------------------- a ring with credit

enum class Ring { kNone, kNoCredit, kCreditTooEarly, kOneSlotTooMany };

constexpr unsigned kSlots = 4, kSteps = 24;

struct Link {
  std::uint32_t slots[kSlots][32];
  std::uint32_t sent;
  std::uint32_t taken;
};

// sent · written by block 0 · awaited by block 1; taken · the reverse. They only grow.
template <Ring kBug>
RUNGS_KERNEL(32)
send_ring(Link* link, std::uint32_t* out) {
  const unsigned lane = threadIdx.x;
  for (unsigned step = 0; step < kSteps; step++) {
    std::uint32_t* const slot = &link->slots[step % kSlots][lane];
    if (blockIdx.x == 0) {
      const unsigned room = kSlots + (kBug == Ring::kOneSlotTooMany ? 1 : 0);
      if (kBug != Ring::kNoCredit) {
        while (ptx::ld_acquire_gpu(&link->taken) + room <= step) {
        }
      }
      ptx::st_relaxed_gpu(slot, 100 * step + lane);
      ptx::syncwarp();
      if (lane == 0) ptx::st_release_gpu(&link->sent, step + 1);
    } else {
      while (ptx::ld_acquire_gpu(&link->sent) <= step) {
      }
      if (kBug == Ring::kCreditTooEarly && lane == 0) ptx::st_release_gpu(&link->taken, step + 1);
      for (int i = 0; i < 8; i++) ptx::nanosleep(10);  // a slow reader
      out[32 * step + lane] = ptx::peek_relaxed_gpu(slot);
      ptx::syncwarp();
      if (kBug != Ring::kCreditTooEarly && lane == 0) ptx::st_release_gpu(&link->taken, step + 1);
    }
  }
}

template <Ring kBug>
Trial ring() {
  return [] {
    Link link{};
    Words out(32 * kSteps, 0xdeadbeef);
    Executor executor({4, 1});
    Outcome outcome;
    outcome.report = run(executor, {.grid = {2}, .block = {32}, .cooperative = true},
                         send_ring<kBug>, &link, out.data());
    outcome.right = outcome.report.empty();
    for (unsigned i = 0; i < out.size(); i++)
      outcome.right = outcome.right && out[i] == 100 * (i / 32) + i % 32;
    return outcome;
  };
}

TEST(PlantedMemory, TheSoundRingIsRight) { expect_right(ring<Ring::kNone>()); }
TEST(PlantedMemory, ASlotWithoutCredit) {
  planted("ring_slot_without_credit", "wrong result: the sender runs until it must wait");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(ring<Ring::kNoCredit>(), {});
}
TEST(PlantedMemory, CreditBeforeTheSlotIsRead) {
  planted("ring_credit_before_the_read", "wrong result");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(ring<Ring::kCreditTooEarly>(), {});
}
TEST(PlantedMemory, OneSlotMoreThanThereIs) {
  planted("ring_of_one_slot_too_many", "wrong result: the sender runs until it must wait");
  RUNGS_PLANTED_NEEDS_PLAIN_BUILD();
  expect_caught(ring<Ring::kOneSlotTooMany>(), {});
}

}  // namespace
}  // namespace rungs::emulator::testing
