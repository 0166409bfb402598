#include "mbarrier.hpp"

#include <rungs/emulator/model_memory.hpp>

#include "cluster_memory.hpp"
#include "report.hpp"
#include "sanitizer.hpp"
#include "trace_hooks.hpp"
#include "worker.hpp"

#include <cstring>

namespace rungs::emulator {
namespace {

constexpr std::uint32_t kCookie = 0x6d626172;
constexpr std::uint32_t kOffsetMask = 0xffffff;

// What the eight bytes of an initialised barrier hold.
struct Word {
  std::uint32_t cookie;
  std::uint32_t index;
};

// Null after reporting.
MBarrier* lookup(Block& block, std::uint32_t offset, Location where) {
  if (offset % 8 != 0 || !block.shared.contains(offset, 8)) {
    fail_async(block, where, "a uint64_t in shared memory",
               "mbarrier at shared-memory offset %u: %s", offset,
               offset % 8 != 0 ? "not 8-byte aligned" : "out of bounds");
    return nullptr;
  }
  const std::byte* memory = block.shared.at(offset);
  sanitizer::access(memory, sizeof(Word), false);
  Word word;
  __builtin_memcpy(&word, memory, sizeof(word));
  const bool cookie = word.cookie == (kCookie ^ offset);
  if (cookie && word.index < block.mbarriers.size() &&
      block.mbarriers[word.index].offset == offset && block.mbarriers[word.index].valid) {
    return &block.mbarriers[word.index];
  }
  const MBarrier* before = block.mbarriers.find(offset);
  if (before != nullptr && !before->valid) {
    fail_async(block, where, "a use of the barrier after the thread that ended it",
               "mbarrier at shared-memory offset %u was invalidated (mbarrier.inval at line %d)",
               offset, before->invalidated_at.line);
    return nullptr;
  }
  const bool known = before != nullptr;
  fail_async(block, where,
             known
                 ? "a write past the end of the array before it, or shared memory reused too early"
                 : "mbarrier_init(), fence_mbarrier_init() and a barrier before the first use",
             "mbarrier at shared-memory offset %u is %s", offset,
             known ? "overwritten" : "not initialised");
  return nullptr;
}

// Whether memory still holds what mbarrier_init() wrote.
bool intact(const Block& block, const MBarrier& barrier) {
  Word word;
  __builtin_memcpy(&word, block.shared.at(barrier.offset), sizeof(word));
  return barrier.valid && word.cookie == (kCookie ^ barrier.offset) && word.index == barrier.index;
}

// What an arrival returns: bits 0-19 pending arrivals before it, 20-41 phase, 42-56 the barrier's
// offset / 8, 61 whether pending_count() may be asked, 62-63 a mark.
constexpr std::uint64_t kTokenMark = std::uint64_t{2} << 62;
constexpr std::uint32_t kPhaseMask = (1u << 22) - 1;
std::uint64_t token_of(const MBarrier& barrier, bool counts) {
  return kTokenMark | std::uint64_t{counts} << 61 | std::uint64_t{barrier.offset / 8} << 42 |
         std::uint64_t{barrier.phase & kPhaseMask} << 20 | barrier.pending;
}

void end_phase_if_complete(Block& block, MBarrier& barrier) {
  if (barrier.pending != 0 || barrier.tx_bytes != 0) return;
  trace::mbarrier_phase_over(block, barrier);
  barrier.phase++;
  barrier.pending = barrier.count;
  this_worker->counters.barriers++;
  block.wake(barrier.waiting);
}

}  // namespace

MBarrier* MBarrierTable::find(std::uint32_t offset) {
  for (std::uint32_t i = 0; i < size_; i++) {
    if (barriers_[i].offset == offset) return &barriers_[i];
  }
  return nullptr;
}

MBarrier& MBarrierTable::add(std::uint32_t offset) {
  if (size_ == barriers_.size()) barriers_.emplace_back();
  MBarrier& barrier = barriers_[size_];
  barrier = MBarrier{};
  barrier.index = size_++;
  barrier.offset = offset;
  return barrier;
}

bool mbarrier_complete_tx(Block& block, std::uint32_t offset, std::uint32_t size_bytes,
                          Location where) {
  MBarrier* barrier = lookup(block, offset, where);
  if (barrier == nullptr) return false;
  sanitizer::release(&barrier->token);
  trace::mbarrier_receives(block, *barrier, size_bytes);
  barrier->tx_bytes -= size_bytes;
  if (barrier->tx_bytes <= -(std::int64_t{1} << 20)) {
    fail_async(block, where, "the bytes passed to mbarrier_arrive_expect_tx()",
               "mbarrier at shared-memory offset %u: its transaction count fell below -(2^20 - 1)",
               offset);
    return false;
  }
  end_phase_if_complete(block, *barrier);
  return true;
}

namespace model {

void mbarrier_init(std::uint32_t address, std::uint32_t count, Location where) {
  const sanitizer::Mute mute;
  Block& block = this_thread().home();
  const std::uint32_t offset = address & kOffsetMask;
  if (offset % 8 != 0 || !block.shared.contains(offset, 8)) {
    fail(where, "a uint64_t in shared memory", "mbarrier.init at shared-memory offset %u: %s",
         offset, offset % 8 != 0 ? "not 8-byte aligned" : "out of bounds");
  }
  if (count == 0 || count >= 1u << 20) {
    fail(where, "1 to 2^20 - 1 arrivals a phase", "mbarrier.init with a count of %u", count);
  }
  MBarrier* barrier = block.mbarriers.find(offset);
  if (barrier == nullptr) {
    barrier = &block.mbarriers.add(offset);
  } else if (barrier->waiting.any(block.word_count)) {
    fail(where, "two initialisations of one barrier",
         "mbarrier.init at shared-memory offset %u with waiters", offset);
  } else if (intact(block, *barrier)) {
    fail(where,
         "one thread initialises a barrier, once; mbarrier_inval() before its memory is reused",
         "mbarrier.init at shared-memory offset %u, which holds a barrier already (initialised at "
         "line %d)",
         offset, barrier->initialised_at.line);
  }
  barrier->valid = true;
  barrier->count = barrier->pending = count;
  barrier->phase = 0;
  barrier->tx_bytes = 0;
  barrier->initialised_at = where;
  trace::mbarrier_init(block, *barrier, where);
  const Word word{kCookie ^ offset, barrier->index};
  __builtin_memcpy(block.shared.at(offset), &word, sizeof(word));
  sanitizer::access(block.shared.at(offset), sizeof(word), true);
}

void mbarrier_inval(std::uint32_t address, Location where) {
  const sanitizer::Mute mute;
  Block& block = this_thread().home();
  MBarrier& barrier = *lookup(block, address & kOffsetMask, where);
  if (barrier.waiting.any(block.word_count)) {
    fail(where, "a barrier between the last wait and mbarrier_inval()",
         "mbarrier.inval at shared-memory offset %u with waiters", barrier.offset);
  }
  if (barrier.tx_bytes != 0) {
    fail(where, "a wait for the asynchronous copies before mbarrier_inval()",
         "mbarrier.inval at shared-memory offset %u with a transaction count of %lld",
         barrier.offset, static_cast<long long>(barrier.tx_bytes));
  }
  trace::instruction("mbarrier.inval", where, barrier.offset);
  barrier.valid = false;
  barrier.invalidated_at = where;
  constexpr Word kNone{};
  __builtin_memcpy(block.shared.at(barrier.offset), &kNone, sizeof(kNone));
  sanitizer::access(block.shared.at(barrier.offset), sizeof(kNone), true);
}

std::uint64_t mbarrier_update(const MbarrierUpdate& update, const char* instruction,
                              Location where) {
  const sanitizer::Mute mute;
  Block& self = this_thread().home();
  Block& block = *remote_block(self, update.address, instruction, where);
  MBarrier& barrier = *lookup(block, update.address & kOffsetMask, where);
  const std::uint32_t arrivals = update.arrivals;
  if (barrier.pending < arrivals) {
    fail(where, "who arrives, how often in a phase, and the count given to mbarrier_init()",
         "mbarrier at shared-memory offset %u: more arrivals than its count of %u in phase %u",
         barrier.offset, barrier.count, barrier.phase);
  }
  if (update.expect_bytes >= 1u << 20 || barrier.tx_bytes + update.expect_bytes >= 1 << 20) {
    fail(where, "the transaction count is below 2^20",
         "mbarrier at shared-memory offset %u: %u more bytes expected "
         "while %lld are pending",
         barrier.offset, update.expect_bytes, static_cast<long long>(barrier.tx_bytes));
  }
  if (update.complete_bytes >= 1u << 20 ||
      barrier.tx_bytes - update.complete_bytes <= -(std::int64_t{1} << 20)) {
    fail(where, "the transaction count is above -2^20",
         "mbarrier at shared-memory offset %u: %s of %u bytes while %lld are pending",
         barrier.offset, instruction, update.complete_bytes,
         static_cast<long long>(barrier.tx_bytes));
  }
  const std::int64_t tx_bytes = barrier.tx_bytes + update.expect_bytes - update.complete_bytes;
  if (update.no_complete && barrier.pending == arrivals && tx_bytes == 0) {
    fail(where, "mbarrier_arrive() for the arrival that may end the phase",
         "mbarrier at shared-memory offset %u: %s of %u is the last arrival of phase %u",
         barrier.offset, instruction, arrivals, barrier.phase);
  }
  if (!update.relaxed) sanitizer::release(&barrier.token);
  trace::mbarrier_arrives(instruction, block, barrier, arrivals, update.expect_bytes, where);
  const std::uint64_t token = token_of(barrier, update.no_complete);
  barrier.tx_bytes = tx_bytes;
  barrier.pending -= arrivals;
  if (update.drop) barrier.count -= arrivals;  // of the phases to come; never more than pending
  end_phase_if_complete(block, barrier);
  return token;
}

void mbarrier_arrive(std::uint32_t address, std::uint32_t arrivals, std::uint32_t expect_bytes,
                     Location where) {
  MbarrierUpdate update{.address = address};
  update.arrivals = arrivals;
  update.expect_bytes = expect_bytes;
  mbarrier_update(update, arrivals == 0 ? "mbarrier.expect_tx" : "mbarrier.arrive", where);
}

std::uint32_t mbarrier_pending_count(std::uint64_t token, Location where) {
  if (token >> 62 != kTokenMark >> 62 || (token >> 61 & 1) == 0) {
    const sanitizer::Mute mute;
    fail(where, "a token that mbarrier_arrive_no_complete() returned",
         "mbarrier.pending_count of %llx, which no arrive.noComplete returned",
         static_cast<unsigned long long>(token));
  }
  return static_cast<std::uint32_t>(token & 0xfffff);
}

bool mbarrier_test_token(std::uint32_t address, std::uint64_t token, bool wait, Location where) {
  const sanitizer::Mute mute;
  Block& block = this_thread().home();
  const std::uint32_t offset = address & kOffsetMask;
  const MBarrier& barrier = *lookup(block, offset, where);
  const auto phase = static_cast<std::uint32_t>(token >> 20) & kPhaseMask;
  const std::uint32_t behind = (barrier.phase - phase) & kPhaseMask;
  if (token >> 62 != kTokenMark >> 62 || (token >> 42 & 0x7fff) != offset / 8 || behind > 1) {
    fail(where,
         "the token of an arrival at this barrier, in its current phase or in the one before",
         "mbarrier at shared-memory offset %u, phase %u: a wait with token %llx of %s", offset,
         barrier.phase, static_cast<unsigned long long>(token),
         behind > 1 && (token >> 42 & 0x7fff) == offset / 8 ? "another phase" : "another barrier");
  }
  return mbarrier_test(address, phase & 1, wait, where);
}

bool mbarrier_test(std::uint32_t address, std::uint32_t parity, bool wait, Location where) {
  const sanitizer::Mute mute;
  Thread& self = this_thread();
  Block& block = self.home();
  if (address >> 24 != block.rank) {
    fail(where, "threads wait on barriers of their own block",
         "mbarrier wait on a barrier of block rank %u", address >> 24);
  }
  if (parity > 1) fail(where, "phase & 1", "mbarrier wait for parity %u", parity);
  const std::uint32_t offset = address & kOffsetMask;
  MBarrier* barrier = lookup(block, offset, where);
  trace::mbarrier_waits(wait ? "mbarrier.wait" : "mbarrier.try_wait", *barrier, parity, where);
  while ((barrier->phase & 1) == parity) {
    if (wait) {
      barrier->waiting.set(self.index());
      wait_for(self, WaitKind::kMbarrier, offset, static_cast<std::uint8_t>(parity), where);
    } else {
      block.spinning.set(self.index());
      wait_for(self, WaitKind::kTryWait, offset, static_cast<std::uint8_t>(parity), where);
    }
    barrier = lookup(block, offset, where);
    if (!wait) break;
  }
  if ((barrier->phase & 1) == parity) return false;
  if (!wait) this_worker->progress++;
  sanitizer::acquire(&barrier->token);
  return true;
}

}  // namespace model
}  // namespace rungs::emulator
