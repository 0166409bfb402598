#include "conformance.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <rungs/core/error.hpp>
#include <rungs/core/file.hpp>

#include <map>
#include <sstream>

namespace rungs::cli {
namespace {

constexpr std::string_view kNothing = "nothing: ";  // how a test says that a bug goes unnoticed

struct Tally {
  int passed = 0;
  int failed = 0;
  std::string caught_by;
};
using Tallies = std::map<std::string, Tally>;

void count(const nlohmann::json& test, Tally& tally) {
  if (test.contains("failures")) {
    tally.failed++;
  } else if (test.value("result", "") == "COMPLETED") {
    tally.passed++;
  }
}

void read_report(const std::string& path, Tallies& wrappers, Tallies& bugs) {
  const std::string text = file::read_text(path);
  try {
    const nlohmann::json report = nlohmann::json::parse(text);
    for (const auto& suite : report.at("testsuites")) {
      for (const auto& test : suite.at("testsuite")) {
        std::istringstream names(test.value("conforms", ""));
        for (std::string name; names >> name;) count(test, wrappers[name]);
        const std::string bug = test.value("planted", "");
        if (bug.empty()) continue;
        bugs[bug].caught_by = test.value("caught_by", "");
        count(test, bugs[bug]);
      }
    }
  } catch (const nlohmann::json::exception& error) {
    RUNGS_THROW(kInvalidArgument, path, " is no report of GoogleTest (", error.what(),
                "): write one with --gtest_output=json:FILE");
  }
}

ladder::Row make(const std::string& stage, const std::string& operation, const std::string& machine,
                 const Tally& tally) {
  ladder::Row row = ladder::make_row(stage, operation);
  if (!machine.empty()) row.machine = machine;
  row.metric = "checked";
  row.value = tally.passed;
  row.unit = "tests";
  row.checked = tally.passed > 0 && tally.failed == 0;
  return row;
}

}  // namespace

ConformanceRows conformance_rows(const std::vector<std::string>& reports,
                                 const std::string& machine) {
  Tallies wrappers, bugs;
  for (const std::string& path : reports) read_report(path, wrappers, bugs);
  if (wrappers.empty() && bugs.empty()) {
    RUNGS_THROW(kInvalidArgument, "no test in ", reports.front(), reports.size() > 1 ? " …" : "",
                " notes a wrapper or a planted bug (rungs/testing/conforms.hpp)");
  }
  ConformanceRows rows;
  for (const auto& [name, tally] : wrappers) {
    if (tally.passed + tally.failed > 0)
      rows.wrappers.push_back(make("common/ptx", "conformance/" + name, machine, tally));
  }
  for (const auto& [name, tally] : bugs) {
    if (tally.passed + tally.failed == 0) {
      rows.untried.push_back(name);
      continue;
    }
    ladder::Row row = make("common/emulator", "planted/" + name, machine, tally);
    row.case_name = tally.caught_by;
    row.checked = row.checked && !tally.caught_by.starts_with(kNothing);
    rows.bugs.push_back(std::move(row));
  }
  return rows;
}

}  // namespace rungs::cli
