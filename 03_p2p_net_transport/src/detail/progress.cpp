#include "detail/progress.hpp"

#include <rungs/core/deadline.hpp>

#include <algorithm>
#include <chrono>
#include <utility>

namespace rungs::transport::detail {

ProgressThread::ProgressThread(std::function<std::optional<bootstrap::Lost>()> lost,
                               std::function<void()> begin)
    : lost_(std::move(lost)),
      begin_(std::move(begin)),
      thread_([this] { run(); }) {}

ProgressThread::~ProgressThread() {
  {
    const std::lock_guard lock(wake_mutex_);
    stopping_ = true;
    ++wakes_;
  }
  woken_.notify_all();
  thread_.join();
}

void ProgressThread::add(Driven& driven) {
  visitors_.fetch_add(1);
  const std::lock_guard lock(links_mutex_);
  visitors_.fetch_sub(1);
  links_.push_back(&driven);
}

void ProgressThread::remove(Driven& driven) noexcept {
  visitors_.fetch_add(1);
  const std::lock_guard lock(links_mutex_);
  visitors_.fetch_sub(1);
  std::erase(links_, &driven);
}

void ProgressThread::wake() {
  {
    const std::lock_guard lock(wake_mutex_);
    ++wakes_;
  }
  woken_.notify_one();
}

// Goes to sleep only if nobody called wake() since `seen` was read, which was before the last look
// at the links: a message submitted in between is not overslept. Before that it stays up for as
// long as a short answer takes: being woken costs tens of microseconds.
void ProgressThread::sleep_until_woken(std::uint64_t seen) {
  constexpr int kYields = 64;
  for (int i = 0; i < kYields; ++i) {
    if (wakes_.load(std::memory_order_acquire) != seen) return;
    std::this_thread::yield();
  }
  std::unique_lock lock(wake_mutex_);
  woken_.wait(lock, [&] { return wakes_.load() != seen; });
}

bool ProgressThread::turn(bool look_for_loss) {
  while (visitors_.load() > 0) std::this_thread::yield();
  const std::lock_guard lock(links_mutex_);
  const auto lost = look_for_loss ? lost_() : std::nullopt;
  bool moved = false;
  busy_ = false;
  for (Driven* link : links_) {
    moved = link->advance() || moved;
    if (lost) link->lost(*lost);
    busy_ = link->busy() || busy_;
  }
  return moved;
}

void ProgressThread::run() {
  using Clock = std::chrono::steady_clock;
  constexpr auto kLossInterval = std::chrono::milliseconds(1);
  begin_();
  Clock::time_point next_look = Clock::now();
  Backoff backoff;
  for (;;) {
    const std::uint64_t seen = wakes_.load(std::memory_order_acquire);
    if (stopping_.load()) return;
    const Clock::time_point now = Clock::now();
    const bool look = now >= next_look;
    if (look) next_look = now + kLossInterval;
    if (turn(look)) {
      backoff.reset();
    } else if (busy_) {
      backoff.pause();  // the peer does not ring: spin, yield, then look every 200 µs
    } else {
      sleep_until_woken(seen);
      backoff.reset();
    }
  }
}

}  // namespace rungs::transport::detail
