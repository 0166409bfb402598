// The page docs/results/conformance.md, from the rows of all machines.
#include "conformance.hpp"

#include <fmt/format.h>
#include <rungs/core/error.hpp>
#include <rungs/core/file.hpp>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>

namespace rungs::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kWrapper = "conformance/";
constexpr std::string_view kBug = "planted/";
constexpr std::string_view kNothing = "nothing: ";

struct Machine {
  std::string folder;
  std::vector<ladder::Row> wrappers;
  std::vector<ladder::Row> bugs;
};

std::vector<ladder::Row> rows_of(const fs::path& path) {
  if (!fs::exists(path)) return {};
  try {
    return ladder::from_json(file::read_text(path.string()));
  } catch (const Error& error) {
    RUNGS_THROW(kInvalidArgument, path.string(), ": ", error.message());
  }
}

std::vector<Machine> read_machines(const std::string& folder) {
  std::error_code failed;
  std::vector<Machine> machines;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, failed)) {
    if (!entry.is_directory()) continue;
    Machine machine{entry.path().filename().string(), rows_of(entry.path() / "conformance.json"),
                    rows_of(entry.path() / "planted.json")};
    if (!machine.wrappers.empty() || !machine.bugs.empty()) machines.push_back(std::move(machine));
  }
  if (failed) {
    RUNGS_THROW(kSystem, "cannot read the folder '", folder, "': ", failed.message(),
                ". Name the folder that holds one folder a machine");
  }
  std::sort(machines.begin(), machines.end(),
            [](const Machine& a, const Machine& b) { return a.folder < b.folder; });
  return machines;
}

/// "`h200`: NVIDIA H200 (0123456, 2026-12-01)".
std::string source_line(const Machine& machine, const std::vector<ladder::Row>& rows) {
  const ladder::Row& row = rows.front();
  return fmt::format("`{}`: {} ({}, {})", machine.folder, row.machine, row.commit.substr(0, 7),
                     row.date.substr(0, 10));
}

std::string wrapper_table(const std::vector<Machine>& machines) {
  std::map<std::string, std::map<std::string, const ladder::Row*>> cells;  // wrapper, folder
  std::string head = "| wrapper |", rule = "|---|", sources;
  for (const Machine& machine : machines) {
    if (machine.wrappers.empty()) continue;
    head += fmt::format(" `{}` |", machine.folder);
    rule += "---|";
    sources += fmt::format("- {}\n", source_line(machine, machine.wrappers));
    for (const ladder::Row& row : machine.wrappers)
      cells[row.operation.substr(kWrapper.size())][machine.folder] = &row;
  }
  if (cells.empty()) return "";
  std::string text = "\n## Wrappers\n\n" + sources + "\n" + head + "\n" + rule + "\n";
  for (const auto& [wrapper, of] : cells) {
    text += fmt::format("| `{}` |", wrapper);
    for (const Machine& machine : machines) {
      if (machine.wrappers.empty()) continue;
      const auto cell = of.find(machine.folder);
      if (cell == of.end()) {
        text += " – |";
      } else if (!cell->second->checked) {
        text += " **fails** |";
      } else {
        const auto tests = static_cast<int>(cell->second->value);
        text += fmt::format(" right, {} test{} |", tests, tests == 1 ? "" : "s");
      }
    }
    text += "\n";
  }
  return text;
}

std::string bug_table(const Machine& machine) {
  std::string caught, missed;
  int count = 0;
  for (const ladder::Row& row : machine.bugs) {
    const std::string name = row.operation.substr(kBug.size());
    const bool said = row.case_name.starts_with(kNothing);
    const std::string why = said ? row.case_name.substr(kNothing.size()) : row.case_name;
    if (row.checked) {
      ++count;
      caught += fmt::format("| `{}` | {} |\n", name, why);
    } else {
      missed += fmt::format("| `{}` | {} |\n", name, said ? why : "its test fails: " + why);
    }
  }
  const std::size_t all = machine.bugs.size();
  std::string text = fmt::format("\n## Planted bugs\n\n{}: {} of {} are caught ({:.0f} %).\n",
                                 source_line(machine, machine.bugs), count, all,
                                 100.0 * count / static_cast<double>(all));
  if (!caught.empty()) text += "\n| planted bug | caught by |\n|---|---|\n" + caught;
  if (!missed.empty()) text += "\n| planted bug that goes unnoticed | why |\n|---|---|\n" + missed;
  return text;
}

}  // namespace

std::string conformance_page(const std::string& folder) {
  const std::vector<Machine> machines = read_machines(folder);
  if (machines.empty()) {
    RUNGS_THROW(kInvalidArgument, "'", folder,
                "' holds no conformance.json or planted.json of any machine");
  }
  std::string text =
      "# Conformance and planted bugs\n\n"
      "Made by `./rungs results --page docs/results/conformance.md` from the rows in this folder; "
      "a "
      "test compares. A wrapper of `common/ptx` is right on a machine if all conformance tests "
      "that "
      "name it passed there: the same source, the whole output compared with an oracle. A planted "
      "bug is a right kernel with one mistake, in `common/emulator/tests/planted_*_test.cpp`; "
      "[Break it](../break_it.md) makes exercises of them.\n";
  text += wrapper_table(machines);
  for (const Machine& machine : machines) {
    if (!machine.bugs.empty()) text += bug_table(machine);
  }
  return text;
}

}  // namespace rungs::cli
