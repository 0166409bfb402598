#include <rungs/core/deadline.hpp>

#include <rungs/core/error.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <thread>

namespace rungs {
namespace {

double read_timeout_scale() {
  const char* text = std::getenv("RUNGS_TIMEOUT_SCALE");
  if (text == nullptr || *text == '\0') return 1.0;
  char* end = nullptr;
  const double scale = std::strtod(text, &end);
  RUNGS_REQUIRE(*end == '\0' && std::isfinite(scale) && scale > 0, "RUNGS_TIMEOUT_SCALE is '", text,
                "': set a number above 0, such as 4, or unset it");
  return scale;
}

// A century: now() plus this never overflows the clock.
constexpr double kLongestSeconds = 100.0 * 365 * 24 * 3600;

}  // namespace

double timeout_scale() {
  // A throwing initialiser is retried at the next call, so a bad value fails every wait, not only
  // the first.
  static const double scale = read_timeout_scale();
  return scale;
}

Deadline Deadline::after(std::chrono::duration<double> duration) {
  const double seconds = duration.count() * timeout_scale();
  RUNGS_REQUIRE(!std::isnan(seconds), "deadline: the duration is not a number");
  const std::chrono::duration<double> bounded(std::clamp(seconds, 0.0, kLongestSeconds));
  const Clock::time_point now = Clock::now();
  return {now, now + std::chrono::duration_cast<Clock::duration>(bounded)};
}

void Backoff::pause() noexcept {
  constexpr unsigned kSpins = 64;        // a few microseconds: the answer of a rank that is running
  constexpr unsigned kYields = 64 + 32;  // lets a rank run that shares this core
  const unsigned turn = turns_;
  if (turns_ < 1u << 20) ++turns_;
  if (turn < kSpins) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
    return;
  }
  if (turn < kYields) {
    std::this_thread::yield();
    return;
  }
  // 10 µs more a turn, up to 200: short waits stay short, long ones cost no core.
  const unsigned steps = std::min(turn - kYields + 1, 20u);
  std::this_thread::sleep_for(std::chrono::microseconds(10 * steps));
}

void wait_until(const std::function<bool()>& ready, const Deadline& deadline,
                const std::function<std::string()>& what) {
  Backoff backoff;
  while (!ready()) {
    if (deadline.passed()) {
      // The last word belongs to the condition: this thread may have slept past the end while it
      // came true.
      if (ready()) return;
      RUNGS_THROW(kTimeout, what(), ": waited ", deadline.waited().count(), " s");
    }
    backoff.pause();
  }
}

}  // namespace rungs
