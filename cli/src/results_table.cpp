#include "results_table.hpp"

#include <fmt/format.h>
#include <rungs/core/error.hpp>
#include <rungs/core/file.hpp>
#include <rungs/core/text.hpp>
#include <rungs/ladder/results.hpp>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

namespace rungs::cli {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> sorted_entries(const fs::path& folder, bool folders) {
  std::error_code failed;
  std::vector<fs::path> entries;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, failed)) {
    if (folders ? entry.is_directory() : entry.path().extension() == ".json")
      entries.push_back(entry.path());
  }
  if (failed) {
    RUNGS_THROW(kSystem, "cannot read the folder '", folder.string(), "': ", failed.message(),
                folders ? ". Name the folder that holds one folder a machine" : "");
  }
  std::sort(entries.begin(), entries.end());
  return entries;
}

/// What one file says of an operation.
struct Summary {
  std::string case_name;
  double naive_seconds = 0;
  std::string rung;
  double seconds = 0;
  std::string peer;
  std::optional<double> ratio;
  std::string commit;
  std::string date;
  bool from_tour = false;
};

using Key = std::pair<std::string, std::string>;  // stage, operation

/// The rung's gain over the naive one is written only for rungs: that tells them from peers.
std::map<Key, Summary> summarize(const std::vector<ladder::Row>& rows, bool from_tour) {
  std::set<std::pair<Key, std::string>> rungs;
  for (const ladder::Row& row : rows) {
    if (row.metric == "gain_over_naive") rungs.insert({{row.stage, row.operation}, row.rung});
  }
  std::map<Key, std::map<std::string, std::vector<const ladder::Row*>>> times;
  for (const ladder::Row& row : rows) {
    const Key key{row.stage, row.operation};
    if (row.metric == "time" && row.checked && rungs.count({key, row.rung}) > 0)
      times[key][row.case_name].push_back(&row);
  }
  std::map<Key, Summary> result;
  for (const auto& [key, cases] : times) {
    for (const auto& [case_name, contenders] : cases) {
      // Rows come in the order of the ladder, so the naive rung's is the first.
      const ladder::Row& naive = *contenders.front();
      const ladder::Row& best =
          **std::min_element(contenders.begin(), contenders.end(),
                             [](const auto* a, const auto* b) { return a->value < b->value; });
      Summary& summary = result[key];
      if (contenders.size() < 2 || !(naive.value > summary.naive_seconds)) continue;
      summary = {case_name,  naive.value, best.rung, best.value, best.peer,
                 best.ratio, best.commit, best.date, from_tour};
    }
    if (result[key].case_name.empty()) result.erase(key);
  }
  return result;
}

/// "Training …" of a tour's rows; empty without one.
std::string training_line(const std::vector<ladder::Row>& rows) {
  std::map<std::string, const ladder::Row*> of;
  for (const ladder::Row& row : rows) {
    if (row.operation == "train") of[row.metric] = &row;
  }
  if (of.count("held_out_loss") == 0 || of.count("bigram_entropy") == 0 ||
      of.count("tokens_per_second") == 0) {
    return "";
  }
  const ladder::Row& loss = *of["held_out_loss"];
  return fmt::format(
      "The tour's training ({}): held-out loss {:.3f} nats a byte{}, bigram entropy of the text "
      "{:.3f}; {} ({}, {}).\n",
      loss.case_name, loss.value, loss.checked ? "" : " (not judged)", of["bigram_entropy"]->value,
      format_quantity(of["tokens_per_second"]->value, "tokens/s"), loss.commit.substr(0, 7),
      loss.date.substr(0, 10));
}

std::string checks_line(const std::vector<ladder::Row>& rows) {
  int checks = 0;
  int passed = 0;
  std::set<std::string> stages;
  for (const ladder::Row& row : rows) {
    if (row.metric != "checked") continue;
    ++checks;
    passed += row.checked ? 1 : 0;
    stages.insert(row.stage.substr(0, 2));
  }
  if (checks == 0) return "";
  std::string list;
  for (const std::string& stage : stages) list += (list.empty() ? "" : ", ") + stage;
  return fmt::format("The tour checked {} of {} rungs and cases, in stages {} ({}, {}).\n", passed,
                     checks, list, rows.front().commit.substr(0, 7),
                     rows.front().date.substr(0, 10));
}

std::string machine_table(const fs::path& folder) {
  std::map<Key, Summary> operations;
  std::set<std::string> machines;
  std::string lines;
  for (const fs::path& path : sorted_entries(folder, false)) {
    std::vector<ladder::Row> rows;
    try {
      rows = ladder::from_json(file::read_text(path.string()));
    } catch (const Error& error) {
      RUNGS_THROW(kInvalidArgument, path.string(), ": ", error.message());
    }
    const bool tour = path.filename() == "tour.json";
    for (const ladder::Row& row : rows) machines.insert(row.machine);
    if (tour) lines += checks_line(rows) + training_line(rows);
    for (auto& [key, summary] : summarize(rows, tour)) {
      const auto known = operations.find(key);
      if (known == operations.end() ||
          std::pair(!summary.from_tour, summary.date) >
              std::pair(!known->second.from_tour, known->second.date)) {
        operations[key] = std::move(summary);
      }
    }
  }
  if (machines.empty()) return "";
  std::string names;
  for (const std::string& machine : machines) names += (names.empty() ? "" : "; ") + machine;
  std::string text = fmt::format("**{}** (`{}/`)\n\n", names, folder.filename().string());
  if (!operations.empty()) {
    text +=
        "| stage | operation, case | naive | best rung | gain | beside | commit, date |\n"
        "|---|---|--:|---|--:|---|---|\n";
  }
  for (const auto& [key, summary] : operations) {
    const std::string beside =
        summary.ratio ? fmt::format("{} x {:.2f}", summary.peer, *summary.ratio) : std::string("–");
    text += fmt::format("| {} | `{}`, {} | {} | `{}` {} | {:.1f}x | {} | {}, {} |\n",
                        key.first.substr(0, 2), key.second, summary.case_name,
                        format_seconds(summary.naive_seconds), summary.rung,
                        format_seconds(summary.seconds), summary.naive_seconds / summary.seconds,
                        beside, summary.commit.substr(0, 7), summary.date.substr(0, 10));
  }
  if (!operations.empty() && !lines.empty()) text += "\n";
  return text + lines;
}

}  // namespace

std::string results_table(const std::string& folder) {
  std::string text;
  for (const fs::path& machine : sorted_entries(folder, true)) {
    const std::string table = machine_table(machine);
    if (!table.empty()) text += (text.empty() ? "" : "\n") + table;
  }
  if (text.empty()) RUNGS_THROW(kInvalidArgument, "'", folder, "' holds no rows of any machine");
  return text;
}

}  // namespace rungs::cli
