// Barriers of a block.

#include "report.hpp"
#include "sanitizer.hpp"
#include "trace_hooks.hpp"
#include "worker.hpp"

namespace rungs::emulator::model {

namespace {

// Any use, rules included.
[[gnu::noinline]] void meet(int id, int threads, bool wait, Location where) {
  const sanitizer::Mute mute;
  Thread& self = this_thread();
  Block& block = self.home();
  if (id < 0 || id > 15) fail(where, "a block has barriers 0 to 15", "barrier id %d", id);
  NamedBarrier& barrier = block.barriers[id];
  auto expected = static_cast<unsigned>(threads);
  if (threads < 0) {
    expected = block.thread_count;
  } else {
    if (threads == 0 || threads % 32 != 0) {
      fail(where, "barriers count whole warps",
           "barrier %d for %d threads, not a positive multiple of 32", id, threads);
    }
    const unsigned whole = (block.thread_count + 31) / 32 * 32;
    if (expected > whole) {
      fail(where, "the thread count passed to bar_sync() and bar_arrive()",
           "barrier %d for %d threads in a block of %u", id, threads, block.thread_count);
    }
    if (expected > block.thread_count) expected = block.thread_count;  // the last warp is not full
  }
  if (barrier.arrived == 0) {
    barrier.expected = expected;
    // Without the last; the first one passes by below.
    if (block.plain && expected == block.thread_count && expected > 2 && !trace::on())
      barrier.plain_arrivals = expected - 1;
  } else if (barrier.expected != expected) {
    fail(where, "all arrivals of a phase must name the same count",
         "barrier %d for %u threads, but an earlier arrival of this phase said %u", id, expected,
         barrier.expected);
  }
  trace::meets(wait ? "bar.sync" : "bar.arrive", &barrier, true, wait, where, id);
  sanitizer::release(&barrier.token);
  if (barrier.plain_arrivals > 0) barrier.plain_arrivals--;
  if (++barrier.arrived == expected) {
    barrier.arrived = 0;
    trace::met(&barrier);
    this_worker->counters.barriers++;
    block.wake(barrier.waiting);
  } else if (wait) {
    barrier.waiting.set(self.index());
    wait_for(self, WaitKind::kBarrier, static_cast<std::uint64_t>(id), 0, where);
  }
  if (wait) sanitizer::acquire(&barrier.token);
}

}  // namespace

// The common case by itself, as short as it goes: a thread arrives at __syncthreads(), is neither
// the first nor the last one, and the next thread can go on. Threads mostly come by in order.
void block_barrier(int id, int threads, bool wait, Location where) {
  Thread& self = this_thread();
  Block& block = self.home();
  if (threads >= 0 || !wait || static_cast<unsigned>(id) > 15)
    return meet(id, threads, wait, where);
  NamedBarrier& barrier = block.barriers[id];
  Thread* const next = successor(self, block);
  if (barrier.plain_arrivals == 0 || next == nullptr) return meet(id, -1, true, where);
  barrier.plain_arrivals--;
  barrier.arrived++;
  barrier.waiting.set(self.index());
  note_wait(self, WaitKind::kBarrier, static_cast<std::uint64_t>(id), 0, where);
  hand_over(self, *next, block);
}

}  // namespace rungs::emulator::model
