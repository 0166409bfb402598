// `rungs results`: the table of committed results, made from their JSON files, and put between two
// marks of a document, so that no figure there is typed by hand. The same for conformance: rows
// from reports of tests, and the page made of them.
#include "commands.hpp"
#include "conformance.hpp"
#include "results_table.hpp"
#include "screen.hpp"
#include "usage.hpp"

#include <fmt/format.h>
#include <rungs/core/error.hpp>
#include <rungs/core/file.hpp>

#include <memory>
#include <string>
#include <vector>

namespace rungs::cli {
namespace {

constexpr std::string_view kBegin = "<!-- results: made by `./rungs results --into ";
constexpr std::string_view kEnd = "<!-- end of results -->";

struct ResultsOptions {
  std::string folder = "docs/results";
  std::string into;
  std::vector<std::string> conformance;
  std::string to;
  std::string machine;
  std::string page;
  bool check = false;
};

/// `document` with `table` between its marks.
std::string with_table(const std::string& document, const std::string& table,
                       const std::string& path) {
  const std::size_t mark = document.find(kBegin);
  const std::size_t begin = mark == std::string::npos ? mark : document.find('\n', mark);
  const std::size_t end = begin == std::string::npos ? begin : document.find(kEnd, begin);
  if (end == std::string::npos) {
    RUNGS_THROW(kInvalidArgument, path, " has no lines '", std::string(kBegin), "…` -->' and '",
                std::string(kEnd), "' to put the table between");
  }
  return document.substr(0, begin + 1) + "\n" + table + "\n" + document.substr(end);
}

/// Rows from reports of tests, into the folder of their machine.
int write_conformance(const ResultsOptions& options) {
  if (options.to.empty()) {
    throw UsageError(
        "--conformance needs --to FOLDER, the machine's: docs/results/h200. See 'rungs results "
        "--help'");
  }
  const ConformanceRows rows = conformance_rows(options.conformance, options.machine);
  const auto put = [&](const char* name, const std::vector<ladder::Row>& of) {
    if (of.empty()) return;
    const std::string path = options.to + "/" + name;
    ladder::write_rows(path, of);
    paragraph(fmt::format("wrote {} rows to {}", of.size(), path));
  };
  put("conformance.json", rows.wrappers);
  put("planted.json", rows.bugs);
  if (!rows.untried.empty()) {
    std::string names;
    for (const std::string& name : rows.untried) names += (names.empty() ? "" : ", ") + name;
    paragraph(fmt::format("not tried in these reports, so without a row: {}", names));
  }
  return 0;
}

int write_page(const ResultsOptions& options) {
  const std::string wanted = conformance_page(options.folder);
  if (!options.check) {
    file::write_atomic(options.page, wanted);
    paragraph(fmt::format("wrote the conformance of {} into {}", options.folder, options.page));
    return 0;
  }
  if (file::read_text(options.page) == wanted) {
    paragraph(fmt::format("{} is the conformance page of {}", options.page, options.folder));
    return 0;
  }
  paragraph(
      bad(fmt::format("{} is not the conformance page of {}. Make it: ./rungs results {} "
                      "--page {}",
                      options.page, options.folder, options.folder, options.page)));
  return 1;
}

int run_results(const ResultsOptions& options) {
  if (options.check && options.into.empty() && options.page.empty())
    throw UsageError("--check needs --into FILE or --page FILE. See 'rungs results --help'");
  if (!options.conformance.empty()) return write_conformance(options);
  if (!options.page.empty()) return write_page(options);
  const std::string table = results_table(options.folder);
  if (options.into.empty()) {
    write(table);
    return 0;
  }
  const std::string document = file::read_text(options.into);
  const std::string wanted = with_table(document, table, options.into);
  if (document == wanted) {
    paragraph(fmt::format("{} holds the table of {}", options.into, options.folder));
    return 0;
  }
  if (options.check) {
    paragraph(
        bad(fmt::format("{} does not hold the table of {}. Put it there: ./rungs results "
                        "{} --into {}",
                        options.into, options.folder, options.folder, options.into)));
    return 1;
  }
  file::write_atomic(options.into, wanted);
  paragraph(fmt::format("wrote the table of {} into {}", options.folder, options.into));
  return 0;
}

}  // namespace

void add_results(CLI::App& program, Action& chosen) {
  auto options = std::make_shared<ResultsOptions>();
  CLI::App* command = program.add_subcommand(
      "results", "Make the table of committed results, or put it into a document");
  command->add_option("folder", options->folder,
                      "Holds one folder a machine with JSON rows (docs/results)");
  command->add_option("--into", options->into,
                      "Put the table between the two marks of this document");
  command->add_option("--conformance", options->conformance,
                      "Reports of test programs (--gtest_output=json:FILE) of one machine: make "
                      "rows of what they prove");
  command->add_option("--to", options->to, "Where those rows go: the machine's folder");
  command->add_option("--machine", options->machine, "Their machine, if it is not this one");
  command->add_option("--page", options->page, "Write the page of all machines' conformance");
  command->add_flag("--check", options->check,
                    "Change nothing; exit status 1 if the document holds another table");
  command->footer("Example: rungs results docs/results --into README.md");
  command->callback([options, &chosen] { chosen = [options] { return run_results(*options); }; });
}

}  // namespace rungs::cli
