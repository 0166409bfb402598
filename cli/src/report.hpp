#pragma once
/// @file report.hpp
/// What a command found out: checks that passed or failed, and rows for --json.

#include <rungs/ladder/results.hpp>

#include <string>
#include <vector>

namespace rungs::cli {

/// Collects while a command runs, says it at the end.
class Report {
 public:
  /// @param json_path where write() puts the rows; empty: nowhere
  /// @throws Error kSystem at once if nothing can be written there: not after minutes of work
  explicit Report(std::string json_path);

  void passed() { ++passed_; }
  /// @param what one line for the summary: "gemm_bf16 tiled 64x64x64: element [3, 5]: got ..."
  void failed(std::string what) { failures_.push_back(std::move(what)); }
  void check(bool ok, const std::string& what);
  /// Somebody ended the run: neither passed nor failed, and named in the summary.
  void stopped(std::string what) { stopped_ = std::move(what); }
  /// A check that this run could not decide. It counts as neither passed nor failed, and is named
  /// in the summary.
  void undecided(std::string what) { undecided_.push_back(std::move(what)); }
  void add(ladder::Row row) { rows_.push_back(std::move(row)); }
  [[nodiscard]] const std::vector<ladder::Row>& rows() const noexcept { return rows_; }

  /// Writes the rows, if asked to.
  void write_rows() const;
  /// Prints failures and "N checks passed, M failed". @return the exit status: 0, or 1 if a check
  /// failed
  int summarize() const;

 private:
  std::string json_path_;
  int passed_ = 0;
  std::vector<std::string> failures_;
  std::vector<std::string> undecided_;
  std::string stopped_;
  std::vector<ladder::Row> rows_;
};

}  // namespace rungs::cli
