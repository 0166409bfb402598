#pragma once
/// @file deadline.hpp
/// Every wait has an end. All deadlines stretch with RUNGS_TIMEOUT_SCALE (sanitizers, slow
/// machines).

#include <chrono>
#include <functional>
#include <string>

namespace rungs {

/// The factor from the environment variable RUNGS_TIMEOUT_SCALE, read once; 1 if unset.
/// @throws Error kInvalidArgument if the variable is not a number above 0
double timeout_scale();

/// A point in time after which waiting stops.
class Deadline {
 public:
  using Clock = std::chrono::steady_clock;
  /// `duration` from now, times timeout_scale().
  static Deadline after(std::chrono::duration<double> duration);
  /// What a wait uses when its caller names none: 60 s, scaled.
  static Deadline standard() { return after(std::chrono::seconds(60)); }
  [[nodiscard]] bool passed() const { return Clock::now() >= end_; }
  [[nodiscard]] std::chrono::duration<double> waited() const { return Clock::now() - start_; }
  [[nodiscard]] std::chrono::duration<double> remaining() const { return end_ - Clock::now(); }

 private:
  Deadline(Clock::time_point start, Clock::time_point end) : start_(start), end_(end) {}
  Clock::time_point start_;
  Clock::time_point end_;
};

/// A wait that first spins, then yields, then sleeps (up to 200 µs a turn): four ranks share two
/// cores.
class Backoff {
 public:
  /// Call once a failed poll.
  void pause() noexcept;
  /// Call after progress: start from spinning again.
  void reset() noexcept { turns_ = 0; }

 private:
  unsigned turns_ = 0;
};

/// Polls `ready` with a Backoff until it is true.
/// @throws Error kTimeout "<what()>: waited N s" when the deadline passes first
void wait_until(const std::function<bool()>& ready, const Deadline& deadline,
                const std::function<std::string()>& what);

}  // namespace rungs
