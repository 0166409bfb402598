#pragma once
/// @file results.hpp
/// The rows every command writes and docs/results holds.

#include <rungs/config.hpp>

#include <optional>
#include <string>
#include <vector>

namespace rungs::ladder {

/// One measured or checked value. `ratio` is peer time ÷ our time (above 1 is ahead), absent
/// without a peer.
struct Row {
  std::string stage;
  std::string operation;
  std::string rung;
  std::string case_name;
  std::string metric;  ///< "time", "flops", "gain_over_naive", "checked", "loss", ...
  double value = 0;
  std::string unit;
  bool checked = false;  ///< the output was verified in this run
  std::string peer;
  std::optional<double> ratio;
  std::string machine;  ///< "NVIDIA H200", "emulated Hopper on AMD EPYC, 2 cores"
  std::string commit;
  std::string date;  ///< ISO 8601, UTC
};

/// Fills machine, commit and date of a row from this process.
Row make_row(std::string stage, std::string operation);
/// What kind of machine this is, in words; never a host name.
std::string machine_name();
/// The CPU's model, without trademark signs and clock rate: "AMD EPYC 9B14".
std::string cpu_name();
/// Cores this process may use.
int core_count();
/// The source's commit: RUNGS_COMMIT from the environment, else what the build saw, else "unknown".
std::string commit_id();
/// Now, ISO 8601 in UTC: "2026-11-30T17:40:02Z".
std::string utc_now();

/// JSON text: {"rows": [...]}; keys are stage, operation, rung, case, metric, value, unit, checked,
/// peer, ratio, machine, commit, date. A value that is not finite becomes null.
std::string to_json(const std::vector<Row>& rows);
/// Reads what to_json() wrote; null as a value becomes NaN.
/// @throws Error kInvalidArgument with position and reason: no JSON, a key that is missing, unknown
///         or of another type
std::vector<Row> from_json(const std::string& text);
/// Writes rows to a file atomically. @throws Error kSystem naming the path
void write_rows(const std::string& path, const std::vector<Row>& rows);

}  // namespace rungs::ladder
