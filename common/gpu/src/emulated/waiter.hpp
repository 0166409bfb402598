#pragma once
/// @file waiter.hpp
/// A host thread's wait for a condition that another thread makes true under a mutex.

#include <rungs/core/deadline.hpp>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace rungs::gpu::detail {

/// The condition variable of one object, and how many threads sleep on it.
class Waiter {
 public:
  /// Call under the mutex after making the condition true. Costs nothing when nobody sleeps.
  void wake() {
    if (sleepers_ > 0) condition_.notify_all();
  }

  /// Spins, yields, then sleeps until `ready()`, which may be called with and without the mutex.
  /// @return false when the deadline passed first
  template <class Ready>
  bool wait(std::mutex& mutex, const Deadline& deadline, const Ready& ready) {
    // Long enough for a small kernel on an idle core; short beside the 50 µs that a sleep costs.
    constexpr int kSpins = 64;
    constexpr int kYields = 16;
    for (int i = 0; i < kSpins + kYields; ++i) {
      if (ready()) return true;
      if (i >= kSpins) std::this_thread::yield();
    }
    std::unique_lock lock(mutex);
    ++sleepers_;
    // A day at most: infinite durations overflow the clock.
    const auto remaining = std::clamp<std::chrono::duration<double>>(
        deadline.remaining(), std::chrono::seconds(0), std::chrono::hours(24));
    const bool reached = condition_.wait_for(lock, remaining, ready);
    --sleepers_;
    return reached;
  }

 private:
  std::condition_variable condition_;
  int sleepers_ = 0;
};

}  // namespace rungs::gpu::detail
