// `rungs results`: the table from rows, the document it is put into, and the README's own.
#include "program.hpp"

#include <gtest/gtest.h>
#include <rungs/ladder/results.hpp>

#include <filesystem>

namespace rungs::cli {
namespace {

ladder::Row row(const char* rung, const char* case_name, const char* metric, double value) {
  ladder::Row row;
  row.stage = "07_gemm_hopper_blackwell";
  row.operation = "gemm_bf16";
  row.rung = rung;
  row.case_name = case_name;
  row.metric = metric;
  row.value = value;
  row.checked = true;
  row.machine = "a machine";
  row.commit = "0123456789ab";
  row.date = "2026-11-30T18:00:00Z";
  return row;
}

void add_times(std::vector<ladder::Row>& rows, const char* case_name, double naive, double mine) {
  for (const auto& [rung, seconds] : {std::pair{"naive", naive}, std::pair{"mine", mine}}) {
    rows.push_back(row(rung, case_name, "time", seconds));
    rows.push_back(row(rung, case_name, "gain_over_naive", naive / seconds));
  }
  rows[rows.size() - 2].peer = "cublas";
  rows[rows.size() - 2].ratio = 0.5;
  rows.push_back(row("cublas", case_name, "time", mine / 2));  // no gain: a peer, not a rung
}

/// A folder with one machine, whose bench has two cases.
std::string made_up(const Folder& folder) {
  std::filesystem::create_directories(folder.file("results/machine"));
  std::vector<ladder::Row> rows;
  add_times(rows, "small", 2e-3, 1e-3);
  add_times(rows, "large", 9e-3, 3e-3);
  ladder::write_rows(folder.file("results/machine/gemm.json"), rows);
  return folder.file("results");
}

constexpr const char* kLine =
    "| 07 | `gemm_bf16`, large | 9.00 ms | `mine` 3.00 ms | 3.0x | cublas x 0.50 | 0123456, "
    "2026-11-30 |\n";

TEST(Results, ALineHasTheLargestCaseAndTheFastestRung) {
  const Folder folder;
  const Ended ended = run({"results", made_up(folder)});
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_TRUE(contains(ended.out, {"**a machine** (`machine/`)", kLine}));
  EXPECT_TRUE(lacks(ended.out, "small"));
}

TEST(Results, WhatFailedItsCheckIsNotInTheTable) {
  const Folder folder;
  const std::string results = made_up(folder);
  std::vector<ladder::Row> rows = ladder::from_json(read_file(results + "/machine/gemm.json"));
  for (ladder::Row& one : rows) one.checked = one.rung != "mine";
  ladder::write_rows(results + "/machine/gemm.json", rows);
  EXPECT_TRUE(lacks(run({"results", results}).out, "gemm_bf16"));
}

TEST(Results, ADocumentIsRewrittenBetweenItsMarksOnly) {
  const Folder folder;
  const std::string results = made_up(folder);
  const std::string document = folder.file("page.md");
  const std::string begin = "before\n<!-- results: made by `./rungs results --into page.md` -->\n";
  const std::string end = "<!-- end of results -->\nafter\n";
  write_file(document, begin + "| old |\n" + end);
  const std::vector<std::string> words{"results", results, "--into", document};
  std::vector<std::string> check = words;
  check.emplace_back("--check");

  const Ended stale = run(check);
  EXPECT_EQ(stale.status, 1) << stale.out;
  EXPECT_TRUE(contains(stale.out, {"does not hold the table"}));
  EXPECT_TRUE(contains(read_file(document), {"| old |"}));
  EXPECT_EQ(run(words).status, 0);
  const std::string text = read_file(document);
  EXPECT_TRUE(contains(text, {kLine}));
  EXPECT_TRUE(lacks(text, "old"));
  EXPECT_EQ(text.substr(0, begin.size()), begin);
  EXPECT_EQ(text.substr(text.size() - end.size()), end);
  EXPECT_EQ(run(check).status, 0);
}

TEST(Results, WhatIsMissingIsNamed) {
  const Folder folder;
  const std::string results = made_up(folder);
  write_file(folder.file("page.md"), "no marks\n");
  const Ended no_marks = run({"results", results, "--into", folder.file("page.md")});
  EXPECT_EQ(no_marks.status, 1);
  EXPECT_TRUE(contains(no_marks.err, {"page.md", "end of results"}));
  const Ended no_folder = run({"results", folder.file("none")});
  EXPECT_EQ(no_folder.status, 1);
  EXPECT_TRUE(contains(no_folder.err, {"none", "No such file"}));
  EXPECT_EQ(run({"results", results, "--check"}).status, 2);
  write_file(results + "/machine/broken.json", "{");
  EXPECT_TRUE(contains(run({"results", results}).err, {"broken.json"}));
}

/// The committed block is what the command makes of the committed rows.
TEST(Results, TheReadmeHoldsTheTableOfTheCommittedRows) {
  const std::string root = RUNGS_ROOT;
  const Ended ended =
      run({"results", root + "/docs/results", "--into", root + "/README.md", "--check"});
  EXPECT_EQ(ended.status, 0) << ended.out << ended.err;
}

}  // namespace
}  // namespace rungs::cli
