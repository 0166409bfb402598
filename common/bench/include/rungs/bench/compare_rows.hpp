#pragma once
/// @file compare_rows.hpp
/// Two sets of rows side by side: `rungs bench --compare OLD`.

#include <rungs/ladder/results.hpp>

#include <string>
#include <vector>

namespace rungs::bench {

enum class Change {
  kSame,  ///< within the noise
  kFaster,
  kSlower,
  kAdded,    ///< only in the new rows
  kRemoved,  ///< only in the old rows
  kBroken,   ///< checked before, not any more
  kUnlike,   ///< timed on another machine and without a common peer: not comparable
};

/// One rung of one case, then and now.
struct Comparison {
  std::string operation;
  std::string rung;
  std::string case_name;
  double old_seconds = 0;
  double new_seconds = 0;
  /// Above 1: better now. By the ratio to the peer where both runs had the same one (it cancels
  /// what differs between two runs of a machine), by time otherwise.
  double gain = 0;
  bool by_peer = false;
  double noise = 0;  ///< a gain within 1 ± noise counts as none
  Change change = Change::kSame;
  std::string verdict;  ///< "1.08x faster", "within noise (0.99x, noise 5 %)", "broken: ..."
};

/// Compares rows of the metrics "time" and "emulation_time", in the order of `now`, then what was
/// removed. Noise is 5 %, or the sum of both runs' spreads if that is more.
std::vector<Comparison> compare_rows(const std::vector<ladder::Row>& old,
                                     const std::vector<ladder::Row>& now);

/// Whether anything became slower or broke: the exit status of `--compare`.
bool any_worse(const std::vector<Comparison>& comparisons);

}  // namespace rungs::bench
