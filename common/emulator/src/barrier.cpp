// Barriers of a block.

#include "report.hpp"
#include "sanitizer.hpp"
#include "trace_hooks.hpp"
#include "worker.hpp"

namespace rungs::emulator::model {

void block_barrier(int id, int threads, bool wait, Location where) {
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
  } else if (barrier.expected != expected) {
    fail(where, "all arrivals of a phase must name the same count",
         "barrier %d for %u threads, but an earlier arrival of this phase said %u", id, expected,
         barrier.expected);
  }
  trace::meets(wait ? "bar.sync" : "bar.arrive", &barrier, true, wait, where, id);
  sanitizer::release(&barrier.token);
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

}  // namespace rungs::emulator::model
