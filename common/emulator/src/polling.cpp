// Loads that may be polls, and time.

#include "sanitizer.hpp"
#include "trace_hooks.hpp"
#include "worker.hpp"

#include <chrono>

namespace rungs::emulator {
namespace model {
namespace {

// Lets the others run; the scheduler makes the thread runnable again when all have had their turn.
void spin(Thread& self, WaitKind kind, std::uint64_t value, Location where) {
  self.polls = 0;
  self.home().spinning.set(self.index());
  wait_for(self, kind, value, 0, where);
}

}  // namespace
}  // namespace model

void Worker::saw(const void* address, std::uint64_t value) {
  const std::uint64_t hash = reinterpret_cast<std::uint64_t>(address) * 0x9e3779b97f4a7c15ull;
  Thread::Poll& last = seen_[hash >> (64 - kSeenBits)];
  if (last.address == address && last.value != value) progress++;
  last = {address, value};
}

namespace model {

// A thread that reads the value it has read before at one of its last addresses is polling. So a
// flag that is already set costs no switch, and a loop that looks at a flag and an abort flag in
// turn is recognised. A loop over more addresses yields after kMostPolls. Only a value that has
// changed is progress, an address that was not looked at lately is none: else such a loop would go
// on for ever.
bool polled(const void* address, std::uint64_t value, Location where) {
  constexpr std::uint32_t kMostPolls = 256;
  const sanitizer::Mute mute;
  Thread& self = this_thread();
  const auto a = reinterpret_cast<std::uint64_t>(address);
  Thread::Poll* known = nullptr;
  for (Thread::Poll& poll : self.recent) {
    if (poll.address != address) continue;
    if (poll.value == value) {
      trace::polls(where);
      spin(self, WaitKind::kPoll, a, where);
      // The caller loads again and may then overwrite what it sees, so the change must count now.
      // Words have 4 or 8 bytes; for the upper half of the latter the next poll has to do.
      const auto low =
          __atomic_load_n(static_cast<const std::uint32_t*>(address), __ATOMIC_RELAXED);
      if (low != static_cast<std::uint32_t>(value)) this_worker->progress++;
      return true;
    }
    known = &poll;
  }
  trace::instruction("ld", where);
  if (known == nullptr) {
    known = &self.recent[self.polls % Thread::kRecent];
  } else {
    this_worker->progress++;
  }
  *known = {address, value};
  this_worker->saw(address, value);
  const bool random =
      self.home().launch->options.seed != 0 && self.home().cluster->next_random() % 4 == 0;
  if (++self.polls < kMostPolls && !random) return false;
  spin(self, WaitKind::kPoll, a, where);
  return true;
}

void yield(Location where) {
  const sanitizer::Mute mute;
  trace::instruction("nanosleep", where);
  spin(this_thread(), WaitKind::kYield, 0, where);
}

std::uint64_t clock_ns() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::steady_clock::now().time_since_epoch())
                                        .count());
}

}  // namespace model
}  // namespace rungs::emulator
