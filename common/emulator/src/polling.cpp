// Loads that may be polls, and time.

#include "sanitizer.hpp"
#include "worker.hpp"

#include <chrono>

namespace rungs::emulator::model {
namespace {

// Lets the others run; the scheduler makes the thread runnable again when all have had their turn.
void spin(Thread& self, WaitKind kind, std::uint64_t value, Location where) {
  self.polls = 0;
  self.home().spinning.set(self.index());
  wait_for(self, kind, value, 0, where);
}

}  // namespace

// A thread that reads the value it has read before at one of its last addresses is polling. So a
// flag that is already set costs no switch, and a loop that looks at a flag and an abort flag in
// turn is recognised. A loop over more addresses yields after kMostPolls.
bool polled(const void* address, std::uint64_t value, Location where) {
  constexpr std::uint32_t kMostPolls = 256;
  const sanitizer::Mute mute;
  Thread& self = this_thread();
  const auto a = reinterpret_cast<std::uint64_t>(address);
  Thread::Poll* known = nullptr;
  for (Thread::Poll& poll : self.recent) {
    if (poll.address != address) continue;
    if (poll.value == value) {
      spin(self, WaitKind::kPoll, a, where);
      return true;
    }
    known = &poll;
  }
  if (known == nullptr) known = &self.recent[self.polls % Thread::kRecent];
  *known = {address, value};
  this_worker->progress++;
  const bool random =
      self.home().launch->options.seed != 0 && self.home().cluster->next_random() % 4 == 0;
  if (++self.polls < kMostPolls && !random) return false;
  spin(self, WaitKind::kPoll, a, where);
  return true;
}

void yield(Location where) {
  const sanitizer::Mute mute;
  spin(this_thread(), WaitKind::kYield, 0, where);
}

std::uint64_t clock_ns() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::steady_clock::now().time_since_epoch())
                                        .count());
}

}  // namespace rungs::emulator::model
