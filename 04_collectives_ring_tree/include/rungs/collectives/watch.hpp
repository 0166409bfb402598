#pragma once
/// @file watch.hpp
/// The host's side of communication that failed: what a kernel reports, what the group hears, what
/// the caller aborts.

#include <rungs/bootstrap/group.hpp>
#include <rungs/collectives/communicator.hpp>
#include <rungs/collectives/kernel_args.hpp>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace rungs::collectives {

/// Host-mapped words that kernels and host share.
///
///     word    writer                            reader
///     abort   host; a kernel that gave up       kernels that wait
///     fault   the first kernel that gives up    host
struct Control {
  alignas(128) std::uint32_t abort;
  alignas(128) gpu::Fault fault;
};

/// What a Watch must be told.
struct WatchOptions {
  double timeout_seconds = 0;  ///< of the kernels' waits, for the texts
  /// Puts a fault record into words: "all_reduce (collective 3 ...): rank 1 waited ... for rank 2".
  std::function<std::string(const gpu::Fault&)> describe;
  /// One more thing that may fail, or nothing: looked at together with the rest. May be empty.
  std::function<std::optional<std::string>()> lost_otherwise = {};
};

/// Looks every few milliseconds whether a peer was lost, which it turns into the abort word, and
/// whether a kernel gave up, which it tells the group. The first failure counts.
class Watch {
 public:
  /// @param control outlives this object; zeroed here
  Watch(bootstrap::Group& group, Control& control, WatchOptions options);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  /// This rank gives up. Any thread.
  void abort(const std::string& reason) noexcept;
  /// The first failure. Any thread.
  [[nodiscard]] std::optional<AsyncError> error();
  /// Throws the first failure, if there is one.
  void check();
  /// Throws it if it may have spoilt what the kernels have done: a wait gave up, or this rank
  /// aborted. A peer that went when all was done spoils nothing.
  void check_results();

 private:
  void run();
  void look();
  void fail(ErrorCode code, const std::string& text);
  [[nodiscard]] bool kernel_gave_up() const;
  [[nodiscard]] AsyncError compose() const;

  bootstrap::Group& group_;
  Control& control_;
  WatchOptions options_;
  std::mutex mutex_;
  std::optional<AsyncError> first_;  // its text without what a kernel waited for
  bool aborted_here_ = false;
  bool stop_ = false;
  std::condition_variable wake_;
  std::thread thread_;
};

}  // namespace rungs::collectives
