#pragma once
/// @file mailbox.hpp
/// Where the control thread puts what arrives and the rank's own thread waits for it.

#include "bootstrap/frame.hpp"

#include <rungs/bootstrap/group.hpp>
#include <rungs/core/deadline.hpp>
#include <rungs/core/error.hpp>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace rungs::bootstrap::detail {

/// Why the group is broken. Spread to every rank, so that each can say it.
struct News {
  ErrorCode code = ErrorCode::kPeerLost;  ///< of the error that waiting calls throw
  Lost lost;
};

/// How a wait ended.
enum class Arrival { kReady, kLost, kLeft, kTimeout };

/// What one rank said to "which call are you in?".
struct Whereabouts {
  int rank = 0;
  std::uint64_t entered = 0;  ///< collective calls begun
};

class Mailbox {
 public:
  explicit Mailbox(int ranks);

  // The control thread's side.

  /// Sorts a frame into its queue.
  void deliver(int from, Frame&& frame);
  /// Counts the connections over which `from` may still send.
  void inbound_opened(int from);
  void inbound_closed(int from);
  /// The rank said goodbye after so many collective calls. @return false: known before
  bool leave(int rank, std::uint64_t operations);
  /// The group is broken; the first reason stays. @return false: it was broken before
  bool lose(const News& news);
  void answer_where(std::uint64_t query, std::vector<Whereabouts> all);

  // The rank's side.

  /// The next collective frame from a rank. kLeft: some rank has left without making this call, and
  /// who_left() says which.
  Arrival wait_collective(int from, std::uint64_t operation, const Deadline& deadline,
                          Frame& frame);
  /// The next message (or descriptor) with this tag. kLeft: `from` has left and sent none.
  Arrival wait_message(FrameType type, int from, std::uint64_t tag, const Deadline& deadline,
                       Frame& frame);
  /// Until somebody is lost or `rank` has left, at most until the deadline.
  void wait_gone(int rank, const Deadline& deadline);
  std::optional<std::vector<Whereabouts>> wait_where(std::uint64_t query, const Deadline& deadline);
  /// Messages of other tags that wait from this rank.
  std::size_t unexpected_from(int from);

  // Any thread.

  /// Null while all is well. Never blocks.
  [[nodiscard]] const News* news() const noexcept { return news_.load(std::memory_order_acquire); }
  /// Readable once news() is there.
  [[nodiscard]] int lost_fd() const noexcept { return lost_event_.fd(); }
  [[nodiscard]] std::optional<std::uint64_t> left_after(int rank);
  [[nodiscard]] int who_left() const noexcept { return who_left_; }

 private:
  using Ready = std::function<bool()>;
  Arrival wait(std::unique_lock<std::mutex>& lock, const Ready& ready, const Ready& left,
               const Deadline& deadline);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::deque<Frame>> collective_;  // by sender
  std::map<std::pair<int, std::uint64_t>, std::deque<Frame>> messages_;
  std::map<std::pair<int, std::uint64_t>, std::deque<Frame>> fds_;
  std::vector<int> inbound_;
  std::vector<std::optional<std::uint64_t>> left_;
  std::optional<std::pair<std::uint64_t, std::vector<Whereabouts>>> where_;
  int who_left_ = -1;  // the rank's thread only
  std::unique_ptr<const News> news_owner_;
  std::atomic<const News*> news_{nullptr};
  Event lost_event_;
};

}  // namespace rungs::bootstrap::detail
