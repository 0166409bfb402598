#pragma once
/// @file ranks.hpp
/// Runs a function as several ranks, as threads or as processes, within a time limit. Outcomes are
/// values: `EXPECT_EQ(failures(run_threads(4, body)), "")`.

#include <rungs/config.hpp>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace rungs::testing {

/// How one rank ended.
struct RankOutcome {
  int rank = 0;
  bool ok = false;
  /// Empty if ok: the exception's text, "exit status 3", "killed by signal 11 (Segmentation fault)"
  /// or "still running after 5 s: killed".
  std::string text;
};

inline constexpr std::chrono::duration<double> kRankLimit = std::chrono::seconds(60);

/// Calls body(rank) in `ranks` threads at once. Log lines of a thread name its rank.
/// @param limit scaled by RUNGS_TIMEOUT_SCALE. A thread cannot be killed: if one is still running
///        then, the process is aborted with a text that names the ranks
std::vector<RankOutcome> run_threads(int ranks, const std::function<void(int rank)>& body,
                                     std::chrono::duration<double> limit = kRankLimit);

/// Calls body(rank) in `ranks` forked processes, with torchrun's variables set. A rank fails by an
/// exception: EXPECT in a child is not seen by the parent. Ranks still running at the limit are
/// killed, and so is whatever they started.
/// @note fork before this process uses a device: a child has only the forking thread
std::vector<RankOutcome> run_processes(int ranks, const std::function<void(int rank)>& body,
                                       std::chrono::duration<double> limit = kRankLimit);

/// One line a failed rank; empty when all ended well.
std::string failures(const std::vector<RankOutcome>& outcomes);

}  // namespace rungs::testing
