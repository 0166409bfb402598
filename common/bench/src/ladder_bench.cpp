#include <rungs/bench/ladder_bench.hpp>

#include "interleave.hpp"
#include "statistics.hpp"

#include <rungs/core/error.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <exception>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

namespace rungs::bench {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

bool chosen(const ladder::Case& c, const Options& options, bool emulated) {
  if (c.gpu_only && emulated) return false;
  switch (options.cases) {
    case Cases::kQuick:
      return c.in_quick;
    case Cases::kTour:
      return c.in_tour;
    case Cases::kAll:
      return true;
  }
  return true;
}

using Count = std::optional<std::uint64_t>;

struct Contender {
  Line line;
  std::unique_ptr<ladder::Trial> trial;
};

// One case of one operation: who takes part, their times, and the rows.
class CaseBench {
 public:
  CaseBench(const ladder::Operation& operation, std::size_t case_index,
            const ladder::Machine& machine, const Options& options)
      : operation_(operation),
        case_index_(case_index),
        machine_(machine),
        options_(options),
        emulated_(!operation.on_host && machine.device != nullptr &&
                  machine.device->info().emulated) {}

  void run(Report& report) {
    add_rungs();
    if (options_.peers) add_peers();
    if (options_.repetitions > 0) {
      if (emulated_) count_all();
      time_all();
    }
    compare();
    for (const Contender& contender : contenders_) add_to(report, contender.line);
  }

 private:
  Line new_line(std::string name, bool is_peer) const {
    Line line;
    line.operation = operation_.name;
    line.case_name = operation_.cases[case_index_].name;
    line.contender = std::move(name);
    line.is_peer = is_peer;
    line.seconds = line.spread = line.gain_over_naive = line.ratio = line.error = kNone;
    return line;
  }

  void skip(Line line, std::string why) {
    line.skipped = true;
    line.note = std::move(why);
    contenders_.push_back({std::move(line), nullptr});
  }

  void enter(Line line, std::unique_ptr<ladder::Trial> trial) {
    const ladder::Outcome& outcome = trial->outcome();
    line.checked = outcome.checked;
    line.error = outcome.bound > 0 ? outcome.error / outcome.bound : outcome.error;
    line.note = outcome.note;
    contenders_.push_back({std::move(line), std::move(trial)});
  }

  void add_rungs() {
    for (std::size_t rung = 0; rung < operation_.rungs.size(); ++rung) {
      Line line = new_line(operation_.rungs[rung].name, false);
      const ladder::Support support = operation_.supports(rung, case_index_, machine_);
      if (!support.ok) {
        skip(std::move(line), std::string(support.reason));
      } else {
        enter(std::move(line), operation_.trial(rung, case_index_, machine_));
      }
    }
  }

  void add_peers() {
    for (const ladder::Peer& peer : operation_.peers) {
      if (!options_.only_peer.empty() && options_.only_peer != peer.name) continue;
      Line line = new_line(peer.name, true);
      std::string why = peer.unavailable ? peer.unavailable(machine_) : std::string();
      if (!why.empty()) {
        skip(std::move(line), std::move(why));
      } else {
        enter(std::move(line), peer.trial(case_index_, machine_));
      }
    }
  }

  int repetitions_of(const ladder::Outcome& outcome) const {
    const double fit = options_.seconds_each / std::max(outcome.check_seconds, 1e-9);
    return static_cast<int>(std::clamp(fit, 1.0, static_cast<double>(options_.repetitions)));
  }

  void count_all() {
    for (Contender& contender : contenders_) {
      if (!contender.line.checked) continue;
      try {
        contender.line.counts = ladder::count_one_run(*contender.trial, *machine_.device);
      } catch (const std::exception& error) {
        fail_timing(contender.line, error.what());
      }
    }
  }

  static void fail_timing(Line& line, const std::string& text) {
    line.checked = false;
    line.note = concat("checked, but failed while being timed: ", text);
  }

  void time_all() {
    std::vector<detail::Timed> timed;
    std::vector<std::size_t> whose;
    for (std::size_t i = 0; i < contenders_.size(); ++i) {
      const Contender& contender = contenders_[i];
      if (!contender.line.checked) continue;
      detail::Timed& entry = timed.emplace_back();
      entry.name = concat(i, "_", contender.line.contender);
      entry.trial = contender.trial.get();
      entry.repetitions = repetitions_of(contender.trial->outcome());
      whose.push_back(i);
    }
    detail::time_interleaved(timed);
    for (std::size_t t = 0; t < timed.size(); ++t) {
      Line& line = contenders_[whose[t]].line;
      if (!timed[t].failure.empty()) {
        fail_timing(line, timed[t].failure);
        continue;
      }
      line.seconds = detail::quantile(timed[t].seconds, 0.5);
      const double range =
          detail::quantile(timed[t].seconds, 0.75) - detail::quantile(timed[t].seconds, 0.25);
      line.spread = range / line.seconds;
    }
  }

  // Gains and ratios compare times of this run only.
  void compare() {
    if (emulated_) return;
    const Line& naive = contenders_.front().line;
    const Line* fastest = nullptr;
    for (const Contender& contender : contenders_) {
      const Line& line = contender.line;
      if (!line.is_peer || std::isnan(line.seconds)) continue;
      if (fastest == nullptr || line.seconds < fastest->seconds) fastest = &line;
    }
    for (Contender& contender : contenders_) {
      Line& line = contender.line;
      if (line.is_peer) continue;
      line.gain_over_naive = naive.seconds / line.seconds;
      if (fastest == nullptr) continue;
      line.ratio = fastest->seconds / line.seconds;
      line.peer = fastest->contender;
    }
  }

  void add_to(Report& report, const Line& line) const {
    report.lines.push_back(line);
    if (line.skipped) return;
    if (!line.checked) ++report.failed;
    const auto add = [&](const char* metric, double value, const char* unit) -> ladder::Row& {
      ladder::Row row = ladder::make_row(operation_.stage, operation_.name);
      row.rung = line.contender;
      row.case_name = line.case_name;
      row.metric = metric;
      row.value = value;
      row.unit = unit;
      row.checked = line.checked;
      return report.rows.emplace_back(std::move(row));
    };
    add("error", line.error, "of bound");
    if (std::isnan(line.seconds)) return;
    ladder::Row& time = add(emulated_ ? "emulation_time" : "time", line.seconds, "s");
    if (!std::isnan(line.ratio)) {
      time.peer = line.peer;
      time.ratio = line.ratio;
    }
    add(emulated_ ? "emulation_time_spread" : "time_spread", line.spread, "of median");
    if (emulated_) {
      if (!line.counts) return;
      const auto add_count = [&](const char* metric, const Count& count, const char* unit) {
        if (count) add(metric, static_cast<double>(*count), unit);
      };
      add_count("launches", line.counts->launches, "launches");
      add_count("async_bytes", line.counts->async_bytes, "B");
      add_count("mma_flops", line.counts->mma_flops, "FLOP");
      add_count("barriers", line.counts->barriers, "barriers");
      return;
    }
    const ladder::Cost& cost = operation_.cases[case_index_].cost;
    if (cost.flops > 0) {
      add("flops", cost.flops / line.seconds, "FLOP/s");
      if (options_.roof_flops > 0)
        add("share_of_flops", cost.flops / line.seconds / options_.roof_flops, "of roof");
    }
    if (cost.bytes > 0) {
      add("bandwidth", cost.bytes / line.seconds, "B/s");
      if (options_.roof_bytes > 0) {
        add("share_of_bandwidth", cost.bytes / line.seconds / options_.roof_bytes, "of roof");
      }
    }
    if (!line.is_peer && !std::isnan(line.gain_over_naive))
      add("gain_over_naive", line.gain_over_naive, "x");
  }

  const ladder::Operation& operation_;
  std::size_t case_index_;
  const ladder::Machine& machine_;
  const Options& options_;
  bool emulated_;
  std::vector<Contender> contenders_;
};

}  // namespace

Report run_ladders(const std::vector<ladder::Operation>& operations, const ladder::Machine& machine,
                   const Options& options) {
  RUNGS_REQUIRE(options.repetitions >= 0, "bench: repetitions must be at least 0, got ",
                options.repetitions);
  const bool emulated = machine.device == nullptr || machine.device->info().emulated;
  std::vector<std::pair<const ladder::Operation*, std::size_t>> cases;
  for (const ladder::Operation& operation : operations) {
    for (std::size_t c = 0; c < operation.cases.size(); ++c) {
      if (chosen(operation.cases[c], options, emulated)) cases.emplace_back(&operation, c);
    }
  }
  Report report;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const auto& [operation, c] = cases[i];
    if (options.progress)
      options.progress(operation->name + " " + operation->cases[c].name, i, cases.size());
    CaseBench(*operation, c, machine, options).run(report);
  }
  if (options.progress) options.progress("", cases.size(), cases.size());
  return report;
}

}  // namespace rungs::bench
