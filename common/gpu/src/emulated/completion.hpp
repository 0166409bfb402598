#pragma once
/// @file completion.hpp
/// How one piece of work starts the next: on the thread that finished it, without a hand-off.

#include <rungs/config.hpp>

#include <cstddef>
#include <string>

namespace rungs::gpu::detail {

/// Who is told that a piece of work has ended.
class Completable {
 public:
  /// The work numbered `index` has ended: start what waited for it.
  virtual void completed(std::size_t index) noexcept = 0;
  /// It ended with this report; completed() follows.
  virtual void failed(std::size_t index, const std::string& report) = 0;

 protected:
  ~Completable() = default;
};

/// Whom to tell, and about which work. 16 trivially copyable bytes: std::function stores a lambda
/// that holds one without allocating.
struct Completion {
  Completable* owner = nullptr;
  std::size_t index = 0;

  void finish(const std::string& report) const;
};

/// Calls owner->completed(index) on this thread: at once, or, inside another such call, after it.
/// So a long queue never becomes a deep call stack, and nobody is destroyed by its own callee.
void complete(const Completion& completion);

}  // namespace rungs::gpu::detail
