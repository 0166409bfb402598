#pragma once
/// @file interrupt.hpp
/// Ctrl-C that lets the current step end.

namespace rungs::cli {

/// While one lives, the first SIGINT or SIGTERM is noted instead of ending the process; a second
/// one ends it at once. One at a time.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  /// The signal that arrived while one lives, or 0.
  [[nodiscard]] static int signal() noexcept;
};

}  // namespace rungs::cli
