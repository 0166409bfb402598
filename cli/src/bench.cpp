// `rungs bench`: every rung beside the peers, as rows.
#include "commands.hpp"
#include "report.hpp"
#include "screen.hpp"
#include "stages.hpp"
#include "usage.hpp"

#include <fmt/format.h>
#include <rungs/bench/compare_rows.hpp>
#include <rungs/bench/ladder_bench.hpp>
#include <rungs/bench/machine.hpp>
#include <rungs/core/error.hpp>
#include <rungs/core/file.hpp>
#include <rungs/core/progress.hpp>
#include <rungs/core/suggest.hpp>
#include <rungs/core/table.hpp>
#include <rungs/core/text.hpp>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

namespace rungs::cli {
namespace {

struct BenchOptions {
  std::string what;
  std::string filter;
  std::string peer;
  std::string cases = "all";
  int repetitions =
      0;  // 0: 50 on a GPU; 5 in the emulator, whose times are only a guard against its own slowing
  std::string json;
  std::string compare;
};

/// The operation with only those cases whose "operation case" contains `text`.
ladder::Operation keep_cases(ladder::Operation operation, const std::string& text) {
  std::vector<std::size_t> kept;
  for (std::size_t i = 0; i < operation.cases.size(); ++i) {
    if ((operation.name + " " + operation.cases[i].name).find(text) != std::string::npos)
      kept.push_back(i);
  }
  ladder::Operation result = operation;
  result.cases.clear();
  for (const std::size_t i : kept) result.cases.push_back(operation.cases[i]);
  result.supports = [kept, supports = operation.supports](std::size_t rung, std::size_t i,
                                                          const ladder::Machine& m) {
    return supports(rung, kept.at(i), m);
  };
  result.trial = [kept, trial = operation.trial](std::size_t rung, std::size_t i,
                                                 const ladder::Machine& m) {
    return trial(rung, kept.at(i), m);
  };
  result.run = [kept, run = operation.run](std::size_t rung, std::size_t i,
                                           const ladder::Machine& m,
                                           int times) { return run(rung, kept.at(i), m, times); };
  for (ladder::Peer& peer : result.peers) {
    peer.trial = [kept, trial = peer.trial](std::size_t i, const ladder::Machine& m) {
      return trial(kept.at(i), m);
    };
    peer.run = [kept, run = peer.run](std::size_t i, const ladder::Machine& m, int times) {
      return run(kept.at(i), m, times);
    };
  }
  return result;
}

std::vector<ladder::Operation> choose(const BenchOptions& options) {
  std::vector<ladder::Operation> chosen = find_operations(options.what);
  if (!options.filter.empty()) {
    for (ladder::Operation& operation : chosen)
      operation = keep_cases(std::move(operation), options.filter);
    chosen.erase(
        std::remove_if(chosen.begin(), chosen.end(),
                       [](const ladder::Operation& operation) { return operation.cases.empty(); }),
        chosen.end());
    if (chosen.empty()) {
      throw UsageError(
          fmt::format("no operation and case contains '{}' (--filter). 'rungs list' shows all",
                      options.filter));
    }
  }
  if (!options.peer.empty() && options.peer != "none") {
    std::vector<std::string> names;
    for (const ladder::Operation& operation : chosen) {
      for (const ladder::Peer& peer : operation.peers) names.push_back(peer.name);
    }
    if (std::find(names.begin(), names.end(), options.peer) == names.end()) {
      throw UsageError(fmt::format("no peer is called '{}' in these operations of this build{}",
                                   options.peer, did_you_mean(options.peer, names)));
    }
  }
  return chosen;
}

std::string number(double value, const char* format) {
  return std::isfinite(value) ? fmt::format(fmt::runtime(format), value) : "-";
}

/// @param emulated every operation ran on the emulated GPU: no gains, no ratios
/// @param mixed some did, others on the host
void show_lines(const bench::Report& result, bool emulated, bool mixed) {
  std::vector<std::string> headings{
      "operation",     "case",
      "rung or peer",  "checked",
      "error / bound", emulated ? "emulation time" : mixed ? "time or emulation time" : "time",
      "spread"};
  std::set<std::string> peers;
  for (const bench::Line& line : result.lines) {
    if (!line.peer.empty()) peers.insert(line.peer);
  }
  const std::string one_peer = peers.size() == 1 ? *peers.begin() : "peer";
  if (!emulated) headings.insert(headings.end(), {"gain over naive", one_peer + " time / ours"});
  Table table(headings);
  for (const bench::Line& line : result.lines) {
    const bool timed = std::isfinite(line.seconds);
    std::vector<std::string> cells{line.operation,
                                   line.case_name,
                                   line.is_peer ? line.contender + " (peer)" : line.contender,
                                   line.skipped   ? "-"
                                   : line.checked ? "yes"
                                                  : "FAILED",
                                   line.skipped ? "-" : number(line.error, "{:.2g}"),
                                   timed ? format_seconds(line.seconds) : "-",
                                   timed ? number(100 * line.spread, "{:.0f} %") : "-"};
    if (!emulated) {
      cells.push_back(number(line.gain_over_naive, "{:.1f}x"));
      const std::string ratio = number(line.ratio, "{:.2f}");
      cells.push_back(line.peer.empty() || ratio == "-" || peers.size() == 1
                          ? ratio
                          : fmt::format("{} ({})", ratio, line.peer));
    }
    table.add_row(std::move(cells));
  }
  write_table(table, 2);
  for (const bench::Line& line : result.lines) {
    if (line.note.empty()) continue;
    paragraph(
        fmt::format("{} {} {}: {}", line.operation, line.case_name, line.contender, line.note));
  }
}

/// What the old rows time and this run does not: a rung may have lost its case, or the run was
/// asked for less.
void show_vanished(const std::vector<bench::Comparison>& comparisons, const std::string& path) {
  std::vector<std::pair<std::string, std::string>> cases;  // and its rungs
  std::size_t count = 0;
  for (const bench::Comparison& one : comparisons) {
    if (one.change != bench::Change::kRemoved) continue;
    ++count;
    const std::string where = one.operation + " " + one.case_name;
    if (cases.empty() || cases.back().first != where) {
      cases.emplace_back(where, one.rung);
    } else {
      cases.back().second += ", " + one.rung;
    }
  }
  if (count == 0) return;
  paragraph(warn(fmt::format("{} of the timings in {} are not in this run:", count, path)));
  for (const auto& [where, rungs] : cases) paragraph(fmt::format("{}: {}", where, rungs), 4);
}

std::vector<ladder::Row> read_rows(const std::string& path) {
  const std::string text = file::read_text(path);
  try {
    return ladder::from_json(text);
  } catch (const Error& error) {
    RUNGS_THROW(kInvalidArgument, "--compare cannot use ", path, ": ", error.message(),
                ". It takes what 'rungs bench --json' wrote");
  }
}

/// @return whether something became slower or broke
bool show_comparison(const std::vector<ladder::Row>& old, const std::vector<ladder::Row>& now,
                     const std::string& path) {
  heading(fmt::format("Compared with {}", path));
  Table table({"operation", "case", "rung", "then", "now", "verdict"});
  const auto comparisons = bench::compare_rows(old, now);
  const auto seconds = [](double value) {
    return value > 0 ? format_seconds(value) : std::string("-");
  };
  for (const bench::Comparison& one : comparisons) {
    if (one.change == bench::Change::kRemoved) continue;
    table.add_row({one.operation, one.case_name, one.rung, seconds(one.old_seconds),
                   seconds(one.new_seconds), one.verdict});
  }
  write_table(table, 2);
  show_vanished(comparisons, path);
  return bench::any_worse(comparisons);
}

int run_bench(const BenchOptions& options) {
  Report report(options.json);
  std::optional<std::vector<ladder::Row>> old;
  if (!options.compare.empty()) old = read_rows(options.compare);
  const std::vector<ladder::Operation> operations = choose(options);
  const gpu::Device device = gpu::Device::open(0);
  device.make_current();
  const bool emulated = device.info().emulated;
  const auto on_host = std::count_if(operations.begin(), operations.end(),
                                     [](const auto& operation) { return operation.on_host; });
  const bool some_emulated = emulated && on_host < static_cast<std::ptrdiff_t>(operations.size());

  heading("Machine");
  for (const std::string& line : bench::describe(bench::machine_facts())) {
    // "CPU   AMD EPYC, ...": the name keeps its column.
    const std::size_t start = std::min(line.find_first_not_of(' ', line.find("  ")), line.size());
    write(fmt::format("  {}{}\n", line.substr(0, start), wrap(line.substr(start), start + 2)));
  }
  if (some_emulated) {
    paragraph(
        "GPU rungs run in the emulator: their times show how fast the emulator is and nothing "
        "about a GPU, so there are "
        "neither rates nor gains nor ratios.");
  }
  bench::Options how;
  how.cases = options.cases == "quick"  ? bench::Cases::kQuick
              : options.cases == "tour" ? bench::Cases::kTour
                                        : bench::Cases::kAll;
  how.repetitions = options.repetitions > 0 ? options.repetitions : emulated ? 5 : 50;
  how.peers = options.peer != "none";
  how.only_peer = how.peers ? options.peer : "";
  if (!emulated) how.roof_bytes = bench::measure_device_copy(device);
  std::unique_ptr<Progress> progress;
  how.progress = [&progress](const std::string& what, std::size_t done, std::size_t total) {
    if (progress == nullptr) progress = std::make_unique<Progress>("bench", total);
    progress->update(done, what);
  };
  const bench::Report result = bench::run_ladders(operations, {&device, 1}, how);
  progress.reset();

  heading(fmt::format("Median of {} repetitions", how.repetitions));
  show_lines(result, some_emulated && on_host == 0, some_emulated && on_host > 0);
  for (const bench::Line& line : result.lines) {
    if (line.skipped) continue;
    report.check(line.checked, fmt::format("{} {} {}: {}", line.operation, line.case_name,
                                           line.contender, line.note));
  }
  for (const ladder::Row& row : result.rows) report.add(row);
  report.write_rows();
  const bool worse = old && show_comparison(*old, result.rows, options.compare);
  const int status = report.summarize();
  if (worse) paragraph(bad("something became slower or broke since " + options.compare));
  return worse || result.failed > 0 ? 1 : status;
}

}  // namespace

void add_bench(CLI::App& program, Action& chosen) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App* command =
      program.add_subcommand("bench", "Time rungs beside each other and beside the peers");
  command->add_option("what", options->what,
                      "A stage (07, gemm) or an operation (gemm_bf16); nothing: all");
  command->add_option("--filter", options->filter,
                      "Only where 'OPERATION CASE' contains this text");
  command
      ->add_option("--cases", options->cases,
                   "quick, tour, or all that this machine can hold (all)")
      ->check(CLI::IsMember({"quick", "tour", "all"}));
  command->add_option("--peer", options->peer, "Only this peer, or none (every peer there is)");
  command
      ->add_option("--repetitions", options->repetitions,
                   "Of each, interleaved at random (50; emulated 5)")
      ->check(between(1, 100000));
  command->add_option("--json", options->json, "Write the result rows to this file");
  command->add_option(
      "--compare", options->compare,
      "Rows of an earlier run; exit status 1 if something is slower beyond the noise "
      "or broke. What only the earlier run has is listed");
  command->footer(
      "What fails its check is never timed.\n"
      "Examples:\n"
      "  rungs bench 07 --json rows.json\n"
      "  rungs bench gemm_bf16 --filter 512 --compare rows.json");
  command->callback([options, &chosen] { chosen = [options] { return run_bench(*options); }; });
}

}  // namespace rungs::cli
