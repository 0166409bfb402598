#pragma once
// An event that ends a wait, and a wait with nanoseconds.

#include <rungs/core/descriptor.hpp>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <cstdint>
#include <ctime>
#include <span>

namespace rungs::verbs::soft {

// An event that poll() sees, until drain().
class WakeEvent {
 public:
  WakeEvent() : fd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}
  // From any thread. Fails only when the event has been signalled 2^64 times.
  void signal() noexcept { done(::write(fd_.get(), &kOne, sizeof(kOne))); }
  void drain() noexcept {
    std::uint64_t count;
    done(::read(fd_.get(), &count, sizeof(count)));
  }
  [[nodiscard]] int get() const noexcept { return fd_.get(); }
  explicit operator bool() const noexcept { return static_cast<bool>(fd_); }

 private:
  static constexpr std::uint64_t kOne = 1;
  static void done(ssize_t) noexcept {}
  Descriptor fd_;
};

// poll(), to the nanosecond: time-outs of the RC transport are fractions of a millisecond.
inline void poll_for(std::span<pollfd> fds, double seconds) {
  if (!(seconds > 0)) seconds = 0;
  if (seconds > 3600) seconds = 3600;
  timespec limit{};
  limit.tv_sec = static_cast<time_t>(seconds);
  limit.tv_nsec = static_cast<long>((seconds - static_cast<double>(limit.tv_sec)) * 1e9);
  ::ppoll(fds.data(), fds.size(), &limit, nullptr);  // an early return is allowed: EINTR is fine
}

}  // namespace rungs::verbs::soft
