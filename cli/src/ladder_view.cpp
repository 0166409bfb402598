#include "ladder_view.hpp"

#include "interrupt.hpp"
#include "screen.hpp"

#include <fmt/format.h>
#include <rungs/core/error.hpp>
#include <rungs/core/progress.hpp>
#include <rungs/core/table.hpp>
#include <rungs/core/text.hpp>
#include <rungs/gpu/counters.hpp>

#include <algorithm>
#include <chrono>
#include <optional>
#include <vector>

namespace rungs::cli {
namespace {

/// One rung on one case.
struct Climbed {
  std::string check;  ///< cell: "yes", "FAILED", or "-"
  std::string error;  ///< cell: largest error in units of the bound
  std::optional<gpu::Counters> work;
  std::optional<double> seconds;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

/// Median of some runs: fewer than asked for when they take long, as a naive rung's do, but three.
double time_rung(ladder::Trial& trial, int repetitions) {
  constexpr double kEnoughSeconds = 1;
  std::vector<double> seconds;
  const auto start = std::chrono::steady_clock::now();
  do {
    seconds.push_back(trial.time_once());
  } while (static_cast<int>(seconds.size()) < repetitions &&
           (seconds.size() < 3 || std::chrono::steady_clock::now() - start <
                                      std::chrono::duration<double>(kEnoughSeconds)));
  return median(std::move(seconds));
}

/// A table of which columns that say nothing (a dash in every row) are left out.
class Columns {
 public:
  explicit Columns(std::vector<std::string> headings) : headings_(std::move(headings)) {}
  void add_row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  [[nodiscard]] Table table() const {
    std::vector<std::size_t> kept;
    for (std::size_t i = 0; i < headings_.size(); ++i) {
      const bool says =
          std::any_of(rows_.begin(), rows_.end(), [i](const auto& row) { return row[i] != "-"; });
      if (says) kept.push_back(i);
    }
    const auto keep = [&kept](const std::vector<std::string>& cells) {
      std::vector<std::string> result;
      result.reserve(kept.size());
      for (const std::size_t i : kept) result.push_back(cells[i]);
      return result;
    };
    Table table(keep(headings_));
    for (const auto& row : rows_) table.add_row(keep(row));
    return table;
  }

 private:
  std::vector<std::string> headings_;
  std::vector<std::vector<std::string>> rows_;
};

class Climb {
 public:
  Climb(const ladder::Operation& operation, const ladder::Machine& machine,
        const ClimbOptions& options, Report& report)
      : operation_(operation),
        machine_(machine),
        options_(options),
        report_(report) {}

  void run() {
    introduce();
    std::vector<std::size_t> cases;
    for (std::size_t i = 0; i < operation_.cases.size(); ++i) {
      const ladder::Case& one = operation_.cases[i];
      const bool wanted = options_.quick ? one.in_quick : one.in_tour;
      if (wanted && !(one.gpu_only && emulated())) cases.push_back(i);
    }
    if (cases.empty()) {
      report_.failed(fmt::format("{}: no case of it is marked for this tour", operation_.name));
      return;
    }
    Progress progress(operation_.name, cases.size() * operation_.rungs.size());
    std::uint64_t done = 0;
    for (const std::size_t case_index : cases) {
      std::optional<double> naive_seconds;
      for (std::size_t rung = 0; rung < operation_.rungs.size() && InterruptGuard::signal() == 0;
           ++rung) {
        progress.update(done++, fmt::format("{}, {}", operation_.rungs[rung].name,
                                            operation_.cases[case_index].name));
        const Climbed climbed = climb_one(rung, case_index);
        if (rung == 0) naive_seconds = climbed.seconds;
        add_table_row(rung, case_index, climbed, naive_seconds);
      }
    }
    progress.update(done);
    progress.finish();
    if (done > 0) write_table(table_.table(), 2);
    for (const std::string& note : notes_) paragraph(note, 4);
  }

 private:
  [[nodiscard]] bool emulated() const { return machine_.device->info().emulated; }
  /// An emulated GPU's time says nothing: its work is counted. The host's own time is meant.
  [[nodiscard]] bool counted() const { return emulated() && !operation_.on_host; }

  void introduce() const {
    heading(fmt::format("{} · {}", operation_.stage.substr(0, 2), operation_.name));
    std::size_t width = 0;
    for (const auto& rung : operation_.rungs) width = std::max(width, display_width(rung.name));
    for (const auto& rung : operation_.rungs) {
      write(fmt::format("  {}  {}\n", pad_right(rung.name, width), wrap(rung.adds, width + 4)));
    }
    paragraph(
        fmt::format("checked against: {}; allowed: {}", operation_.oracle, operation_.error_bound));
  }

  Climbed climb_one(std::size_t rung, std::size_t case_index) {
    const std::string name = fmt::format("{} {} {}", operation_.name, operation_.rungs[rung].name,
                                         operation_.cases[case_index].name);
    const ladder::Support support = operation_.supports(rung, case_index, machine_);
    if (!support.ok) {
      notes_.push_back(fmt::format("{} on {}: {}", operation_.rungs[rung].name,
                                   operation_.cases[case_index].name, support.reason));
      return {"-", "-", std::nullopt, std::nullopt};
    }
    const auto trial = operation_.trial(rung, case_index, machine_);
    const ladder::Outcome& outcome = trial->outcome();
    add_row(rung, case_index, "checked", outcome.checked ? 1 : 0, "", outcome.checked);
    if (!outcome.checked) {
      report_.failed(fmt::format("{}: {}", name, outcome.note));
      return {"FAILED", fmt::format("{:.2g}", outcome.error), std::nullopt, std::nullopt};
    }
    Climbed climbed{"yes", fmt::format("{:.2g}", outcome.error / outcome.bound), std::nullopt,
                    std::nullopt};
    try {
      if (counted()) {
        climbed.work = ladder::count_one_run(*trial, *machine_.device);
        add_work_rows(rung, case_index, *climbed.work);
      } else {
        climbed.seconds = time_rung(*trial, options_.repetitions);
        add_row(rung, case_index, "time", *climbed.seconds, "s", true);
      }
      report_.passed();
    } catch (const Error& error) {
      report_.failed(fmt::format("{}: passed its check, then failed in a second run: {}", name,
                                 error.message()));
      climbed.check = "FAILED";
    }
    return climbed;
  }

  void add_table_row(std::size_t rung, std::size_t case_index, const Climbed& climbed,
                     const std::optional<double>& naive_seconds) {
    const ladder::Case& one = operation_.cases[case_index];
    std::vector<std::string> cells{one.name, operation_.rungs[rung].name, climbed.check,
                                   climbed.error};
    if (counted()) {
      const auto cell = [&](const std::optional<std::uint64_t>& value,
                            std::string_view unit) -> std::string {
        if (!climbed.work || !value || *value == 0) return "-";
        return unit.empty() ? std::to_string(*value)
                            : format_quantity(static_cast<double>(*value), unit);
      };
      const gpu::Counters work = climbed.work.value_or(gpu::Counters{});
      cells.push_back(cell(work.async_bytes, "B"));
      cells.push_back(cell(work.mma_flops, "FLOP"));
      cells.push_back(cell(work.barriers, ""));
      cells.push_back(cell(work.launches, ""));
    } else if (climbed.seconds) {
      const double seconds = *climbed.seconds;
      cells.push_back(format_seconds(seconds));
      const double moved = one.cost.bytes > 0 ? one.cost.bytes : one.cost.wire_bytes;
      cells.push_back(one.cost.flops > 0 ? format_quantity(one.cost.flops / seconds, "FLOP/s")
                      : moved > 0        ? format_quantity(moved / seconds, "B/s")
                                         : "-");
      cells.push_back(naive_seconds ? fmt::format("{:.1f}x", *naive_seconds / seconds) : "-");
      if (naive_seconds)
        add_row(rung, case_index, "gain_over_naive", *naive_seconds / seconds, "x", true);
    } else {
      cells.insert(cells.end(), 3, "-");
    }
    table_.add_row(std::move(cells));
  }

  void add_work_rows(std::size_t rung, std::size_t case_index, const gpu::Counters& work) {
    add_row(rung, case_index, "launches", static_cast<double>(work.launches), "", true);
    const auto add = [&](const char* metric, const std::optional<std::uint64_t>& value,
                         const char* unit) {
      if (value) add_row(rung, case_index, metric, static_cast<double>(*value), unit, true);
    };
    add("async_bytes", work.async_bytes, "B");
    add("mma_flops", work.mma_flops, "FLOP");
    add("barriers", work.barriers, "");
  }

  void add_row(std::size_t rung, std::size_t case_index, const char* metric, double value,
               const char* unit, bool checked) {
    ladder::Row row = ladder::make_row(operation_.stage, operation_.name);
    row.rung = operation_.rungs[rung].name;
    row.case_name = operation_.cases[case_index].name;
    row.metric = metric;
    row.value = value;
    row.unit = unit;
    row.checked = checked;
    report_.add(std::move(row));
  }

  const ladder::Operation& operation_;
  const ladder::Machine& machine_;
  const ClimbOptions& options_;
  Report& report_;
  std::vector<std::string> notes_;
  Columns table_{counted()
                     ? std::vector<std::string>{"case", "rung", "checked", "error/bound",
                                                "TMA copies", "MMA work", "barriers", "launches"}
                     : std::vector<std::string>{"case", "rung", "checked", "error/bound", "time",
                                                "rate", "gain over naive"}};
};

}  // namespace

void climb(const ladder::Operation& operation, const ladder::Machine& machine,
           const ClimbOptions& options, Report& report) {
  Climb(operation, machine, options, report).run();
}

}  // namespace rungs::cli
