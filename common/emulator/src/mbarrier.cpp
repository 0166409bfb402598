#include "mbarrier.hpp"

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

Block* owner(Block& block, std::uint32_t address, Location where) {
  const std::uint32_t rank = address >> 24;
  if (rank < block.cluster->blocks.size()) return block.cluster->blocks[rank].get();
  fail_async(block, where, "map_shared()", "mbarrier address of rank %u in a cluster of %zu", rank,
             block.cluster->blocks.size());
  return nullptr;
}

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
      block.mbarriers[word.index].offset == offset) {
    return &block.mbarriers[word.index];
  }
  const bool known = block.mbarriers.find(offset) != nullptr;
  fail_async(block, where,
             known
                 ? "a write past the end of the array before it, or shared memory reused too early"
                 : "mbarrier_init(), fence_mbarrier_init() and a barrier before the first use",
             "mbarrier at shared-memory offset %u is %s", offset,
             known ? "overwritten" : "not initialised");
  return nullptr;
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
  if (barrier->tx_bytes < -(std::int64_t{1} << 20)) {
    fail_async(block, where, "the bytes passed to mbarrier_arrive_expect_tx()",
               "mbarrier at shared-memory offset %u: its transaction count fell below -2^20",
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
  }
  barrier->count = barrier->pending = count;
  barrier->phase = 0;
  barrier->tx_bytes = 0;
  barrier->initialised_at = where;
  trace::mbarrier_init(block, *barrier, where);
  const Word word{kCookie ^ offset, barrier->index};
  __builtin_memcpy(block.shared.at(offset), &word, sizeof(word));
  sanitizer::access(block.shared.at(offset), sizeof(word), true);
}

void mbarrier_arrive(std::uint32_t address, std::uint32_t arrivals, std::uint32_t expect_bytes,
                     Location where) {
  const sanitizer::Mute mute;
  Block& block = *owner(this_thread().home(), address, where);
  MBarrier& barrier = *lookup(block, address & kOffsetMask, where);
  if (barrier.pending < arrivals) {
    fail(where, "who arrives, how often in a phase, and the count given to mbarrier_init()",
         "mbarrier at shared-memory offset %u: more arrivals than its count of %u in phase %u",
         barrier.offset, barrier.count, barrier.phase);
  }
  if (expect_bytes >= 1u << 20 || barrier.tx_bytes + expect_bytes >= 1 << 20) {
    fail(where, "the transaction count is below 2^20",
         "mbarrier at shared-memory offset %u: %u more bytes expected "
         "while %lld are pending",
         barrier.offset, expect_bytes, static_cast<long long>(barrier.tx_bytes));
  }
  sanitizer::release(&barrier.token);
  trace::mbarrier_arrives(arrivals != 0 ? "mbarrier.arrive" : "mbarrier.expect_tx", block, barrier,
                          arrivals, expect_bytes, where);
  barrier.tx_bytes += expect_bytes;
  barrier.pending -= arrivals;
  end_phase_if_complete(block, barrier);
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
