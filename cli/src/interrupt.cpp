#include "interrupt.hpp"

#include <signal.h>  // NOLINT(modernize-deprecated-headers): sigaction() is POSIX

#include <atomic>

namespace rungs::cli {
namespace {

std::atomic<int> arrived{0};
static_assert(std::atomic<int>::is_always_lock_free, "it is written by a signal handler");
struct sigaction old_interrupt;
struct sigaction old_terminate;

void note(int number) { arrived.store(number); }

}  // namespace

InterruptGuard::InterruptGuard() {
  arrived.store(0);
  struct sigaction action {};
  action.sa_handler = &note;
  // SA_RESETHAND: the second signal finds the default action, which ends the process.
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &old_interrupt);
  sigaction(SIGTERM, &action, &old_terminate);
}

InterruptGuard::~InterruptGuard() {
  sigaction(SIGINT, &old_interrupt, nullptr);
  sigaction(SIGTERM, &old_terminate, nullptr);
  arrived.store(0);
}

int InterruptGuard::signal() noexcept { return arrived.load(); }

}  // namespace rungs::cli
