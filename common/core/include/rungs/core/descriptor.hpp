#pragma once
/// @file descriptor.hpp
/// A file descriptor with one owner.

#include <rungs/config.hpp>

#include <utility>

namespace rungs {

/// Closes what it owns; -1: nothing. Moved, not copied.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) noexcept : fd_(fd) {}
  ~Descriptor() { reset(); }
  Descriptor(Descriptor&& other) noexcept : fd_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = other.release();
    }
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  [[nodiscard]] int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }
  /// Gives the descriptor to the caller.
  int release() noexcept { return std::exchange(fd_, -1); }
  void reset() noexcept { static_cast<void>(close()); }
  /// Closes and returns what close(2) returned: it reports delayed write errors on network file
  /// systems. 0 if there was nothing to close.
  int close() noexcept;

 private:
  int fd_ = -1;
};

}  // namespace rungs
