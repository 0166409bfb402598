// `rungs results --conformance` and `--page`: rows from reports of tests, the page, and whether
// every wrapper of rungs/ptx is named by a test.
#include "program.hpp"

#include <gtest/gtest.h>
#include <rungs/ladder/results.hpp>

#include <algorithm>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <sstream>

namespace rungs::cli {
namespace {

namespace fs = std::filesystem;

/// A report as GoogleTest writes it, of tests given as their members.
std::string report(const std::vector<std::string>& tests) {
  std::string text =
      R"({"tests": 1, "name": "AllTests", "testsuites": [{"name": "S", "testsuite": [)";
  for (std::size_t i = 0; i < tests.size(); i++) {
    text +=
        (i > 0 ? ", " : "") + std::string(R"({"name": "T", "status": "RUN", )") + tests[i] + "}";
  }
  return text + "]}]}";
}
constexpr const char* kDone = R"("result": "COMPLETED", )";
constexpr const char* kSkipped = R"("result": "SKIPPED", )";
constexpr const char* kFailed = R"("result": "COMPLETED", "failures": [{"failure": "x"}], )";

std::string conforms(const std::string& state, const std::string& wrappers) {
  return state + R"("conforms": ")" + wrappers + "\"";
}
std::string planted(const std::string& state, const std::string& bug, const std::string& by) {
  return state + R"("planted": ")" + bug + R"(", "caught_by": ")" + by + "\"";
}

struct Made {
  std::map<std::string, ladder::Row> wrappers, bugs;
  Ended ended;
};

Made made_of(const Folder& folder, const std::vector<std::string>& reports) {
  std::vector<std::string> words{"results", "--conformance"};
  for (std::size_t i = 0; i < reports.size(); i++) {
    words.push_back(folder.file("report" + std::to_string(i) + ".json"));
    write_file(words.back(), reports[i]);
  }
  fs::create_directories(folder.file("results/machine"));
  words.insert(words.end(), {"--to", folder.file("results/machine"), "--machine", "a machine"});
  Made made;
  made.ended = run(words);
  const auto read = [&](const char* name, std::map<std::string, ladder::Row>& rows) {
    const std::string path = folder.file(std::string("results/machine/") + name);
    if (!fs::exists(path)) return;
    for (const ladder::Row& row : ladder::from_json(read_file(path))) rows[row.operation] = row;
  };
  read("conformance.json", made.wrappers);
  read("planted.json", made.bugs);
  return made;
}

TEST(Conformance, AWrapperIsRightIfAllItsTestsPassed) {
  const Folder folder;
  const Made made = made_of(
      folder, {report({conforms(kDone, "ld st"), conforms(kDone, "st"), conforms(kFailed, "red"),
                       conforms(kDone, "red"), conforms(kSkipped, "never")})});
  ASSERT_EQ(made.ended.status, 0) << made.ended.err;
  ASSERT_EQ(made.wrappers.size(), 3u);  // what never ran has no row
  EXPECT_TRUE(made.wrappers.at("conformance/ld").checked);
  EXPECT_EQ(made.wrappers.at("conformance/st").value, 2);
  EXPECT_FALSE(made.wrappers.at("conformance/red").checked);
  EXPECT_EQ(made.wrappers.at("conformance/ld").machine, "a machine");
  EXPECT_TRUE(made.bugs.empty());
}

TEST(Conformance, ABugIsCaughtInWhicheverBuildItsTestRan) {
  const Folder folder;
  const Made made =
      made_of(folder, {report({planted(kDone, "a", "report"), planted(kSkipped, "b", "TSan"),
                               planted(kDone, "c", "nothing: weak memory"),
                               planted(kFailed, "d", "report"), planted(kSkipped, "e", "ASan")}),
                       report({planted(kSkipped, "a", "report"), planted(kDone, "b", "TSan")})});
  ASSERT_EQ(made.ended.status, 0) << made.ended.err;
  EXPECT_TRUE(contains(made.ended.out, {"not tried", "without a row: e"}));
  ASSERT_EQ(made.bugs.size(), 4u);
  EXPECT_TRUE(made.bugs.at("planted/a").checked);
  EXPECT_TRUE(made.bugs.at("planted/b").checked);
  EXPECT_FALSE(made.bugs.at("planted/c").checked);
  EXPECT_FALSE(made.bugs.at("planted/d").checked);
  EXPECT_EQ(made.bugs.at("planted/b").case_name, "TSan");

  const std::string page = folder.file("page.md"), results = folder.file("results");
  EXPECT_EQ(run({"results", results, "--page", page, "--check"}).status, 1);
  ASSERT_EQ(run({"results", results, "--page", page}).status, 0);
  EXPECT_EQ(run({"results", results, "--page", page, "--check"}).status, 0);
  EXPECT_TRUE(contains(read_file(page), {"2 of 4 are caught (50 %)", "| `b` | TSan |",
                                         "| `c` | weak memory |", "| `d` | its test fails"}));
  write_file(page, "other\n");
  const Ended stale = run({"results", results, "--page", page, "--check"});
  EXPECT_EQ(stale.status, 1);
  EXPECT_TRUE(contains(stale.out, {"is not the conformance page", "--page"}));
}

TEST(Conformance, WhatIsNoReportIsNamed) {
  const Folder folder;
  EXPECT_TRUE(contains(made_of(folder, {"{}"}).ended.err, {"report0.json", "no report"}));
  EXPECT_TRUE(contains(made_of(folder, {report({})}).ended.err, {"notes a wrapper"}));
  EXPECT_EQ(run({"results", "--conformance", folder.file("report0.json")}).status, 2);
  EXPECT_TRUE(contains(run({"results", folder.file("results"), "--page", folder.file("p")}).err,
                       {"holds no conformance.json"}));
}

/// The committed page is what the command makes of the committed rows.
TEST(Conformance, ThePageIsThatOfTheCommittedRows) {
  const std::string results = std::string(RUNGS_ROOT) + "/docs/results";
  const Ended ended = run({"results", results, "--page", results + "/conformance.md", "--check"});
  EXPECT_EQ(ended.status, 0) << ended.out << ended.err;
}

std::string all_of(const fs::path& folder, const std::string& extension) {
  std::string text;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == extension) text += read_file(entry.path().string());
  }
  return text;
}

std::set<std::string> matches(const std::string& text, const std::regex& pattern, int group) {
  std::set<std::string> found;
  for (auto i = std::sregex_iterator(text.begin(), text.end(), pattern);
       i != std::sregex_iterator(); ++i)
    found.insert((*i)[group]);
  return found;
}

/// What the headers declare at the left margin, outside their `namespace detail`: functions, and
/// what a macro makes of the name that it is given first.
std::set<std::string> wrappers_of(const std::string& headers) {
  std::string text;
  bool detail = false;
  std::istringstream lines(headers);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("namespace detail")) detail = true;
    if (!detail) text += line + "\n";
    if (line.starts_with("}  // namespace detail")) detail = false;
  }
  std::set<std::string> found =
      matches(text, std::regex("\nRUNGS_(DEVICE|HD) [^;{()]*?([a-z_][a-z_0-9]*)\\("), 2);
  found.merge(matches(text, std::regex("\nRUNGS_[A-Z_0-9]+\\(([a-z]+_[a-z_0-9]*)[,)]"), 1));
  return found;
}

TEST(Conformance, EveryWrapperIsNamedByATest) {
  const fs::path ptx = fs::path(RUNGS_ROOT) / "common/ptx";
  const std::set<std::string> wrappers = wrappers_of(all_of(ptx / "include/rungs/ptx", ".hpp"));
  EXPECT_GT(wrappers.size(), 50u);
  std::set<std::string> named;
  const std::regex notes(R"((conforms\(|kWrappers\s*=)\s*("[a-z_0-9 "\n]+"))");
  for (std::string text : matches(all_of(ptx / "tests", ".cpp"), notes, 2)) {
    // Neighbouring literals are one: "a b " "c" names a, b and c.
    text = std::regex_replace(text, std::regex("\"\\s*\"|\""), "");
    std::istringstream words(text);
    for (std::string word; words >> word;) named.insert(word);
  }
  const std::map<std::string, std::string> excused{
      {"bulk_reduction_exists", "which reductions there are: no instruction"},
      {"atom_dec", "a gap: red_dec is compared, what atom_dec returns is not"},
      {"wgmma_name", "part of an instruction's text"},
      {"multimem_ld_reduce_add_v4", "emulated only"},
      {"multimem_red_add_v4", "emulated only"},
      {"multimem_st", "emulated only"},
      {"multimem_st_v4", "emulated only"},
      {"fence_proxy_alias", "emulated only: two addresses of one memory come with multimem"},
      {"fence_proxy_async_global", "no output of its own; no test mixes proxies on global memory"},
      {"fence_tensor_map_acquire_gpu", "no test writes a tensor map on the device"},
      {"fence_tensor_map_release_gpu", "no test writes a tensor map on the device"},
  };
  for (const std::string& wrapper : wrappers) {
    EXPECT_TRUE(named.count(wrapper) > 0 || excused.count(wrapper) > 0)
        << wrapper << " of rungs/ptx is named by no test in common/ptx/tests";
  }
  for (const auto& [name, reason] : excused) {
    EXPECT_EQ(named.count(name), 0u) << name << " is tested by now, no excuse: " << reason;
  }
}

}  // namespace
}  // namespace rungs::cli
