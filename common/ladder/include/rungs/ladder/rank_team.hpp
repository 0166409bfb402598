#pragma once
/// @file rank_team.hpp
/// Threads that play the ranks of an operation, kept between runs so that a timing sees only the
/// work. The Prepared of an operation of several ranks owns one.

#include <rungs/config.hpp>

#include <functional>
#include <memory>

namespace rungs::ladder {

/// `ranks` threads, each asleep until run(). Log lines of a thread name its rank.
class RankTeam {
 public:
  /// @throws Error kInvalidArgument unless 1 <= ranks <= 1024; kSystem if a thread cannot start
  explicit RankTeam(int ranks);
  ~RankTeam();
  RankTeam(const RankTeam&) = delete;
  RankTeam& operator=(const RankTeam&) = delete;
  [[nodiscard]] int size() const noexcept;
  /// Calls body(rank) in every thread at once and returns when all have ended: what they wait for
  /// must have a deadline of its own.
  /// @throws the exception that came first, an Error with "rank N: " before its text
  void run(const std::function<void(int rank)>& body);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rungs::ladder
