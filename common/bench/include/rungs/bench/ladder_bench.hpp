#pragma once
/// @file ladder_bench.hpp
/// Times every rung of an operation beside the peers, through Google Benchmark, and makes result
/// rows of it.

#include <rungs/gpu/counters.hpp>
#include <rungs/ladder/operation.hpp>
#include <rungs/ladder/results.hpp>

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace rungs::bench {

enum class Cases {
  kQuick,  ///< those marked in_quick
  kTour,   ///< those marked in_tour
  kAll,    ///< all that the machine can hold
};

struct Options {
  Cases cases = Cases::kAll;
  /// A contender is timed for about this long at most, but at least once: naive rungs of large
  /// cases take seconds a run.
  double seconds_each = 5;
  int repetitions = 50;   ///< of one iteration each; contenders of a case are interleaved at random
  bool peers = true;      ///< time the vendor libraries as well
  std::string only_peer;  ///< empty: every peer there is
  /// FLOP/s and bytes/s of this machine, if known: adds the share of the roof to the rows.
  double roof_flops = 0;
  double roof_bytes = 0;
  /// Called before each case: "gemm_bf16 512x512x512", cases done, cases in all; and once at the
  /// end with an empty text.
  std::function<void(const std::string& what, std::size_t done, std::size_t total)> progress;
};

/// What one contender did, for tables; the same numbers are in the rows.
struct Line {
  std::string operation;
  std::string case_name;
  std::string contender;  ///< the rung or the peer
  bool is_peer = false;
  bool checked = false;
  double error = 0;                     ///< largest error, in units of its bound
  double seconds = 0;                   ///< median; NaN if it was not timed
  double spread = 0;                    ///< interquartile range ÷ median
  double gain_over_naive = 0;           ///< NaN without the naive rung's time
  double ratio = 0;                     ///< fastest peer's time ÷ ours; NaN without a peer
  std::string peer;                     ///< that peer
  std::string note;                     ///< why it failed or was not run
  std::optional<gpu::Counters> counts;  ///< of one run, on an emulated device
  bool skipped = false;                 ///< not supported here, which is no failure
};

struct Report {
  std::vector<ladder::Row> rows;
  std::vector<Line> lines;
  int failed = 0;  ///< contenders whose output was wrong or that ended in an error
};

/// Runs all cases, one after the other: checks each contender once, then times those that passed.
/// @note On an emulated device a rung's time is the host's and says nothing about a GPU: its rows
///       have the metric "emulation_time", and there are neither rates nor gains nor ratios;
///       instead what one run did is counted: "launches", "async_bytes", "mma_flops", "barriers".
Report run_ladders(const std::vector<ladder::Operation>& operations, const ladder::Machine& machine,
                   const Options& options);

}  // namespace rungs::bench
