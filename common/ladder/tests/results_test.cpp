#include <rungs/core/error.hpp>
#include <rungs/core/file.hpp>
#include <rungs/ladder/results.hpp>

#include <gtest/gtest.h>

#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <string>

namespace rungs::ladder {
namespace {

Row sample() {
  Row row;
  row.stage = "07_gemm_hopper_blackwell";
  row.operation = "gemm_bf16";
  row.rung = "tiled";
  row.case_name = "64x64x64";
  row.metric = "time";
  row.value = 1.25e-4;
  row.unit = "s";
  row.checked = true;
  row.peer = "cublas";
  row.ratio = 0.5;
  row.machine = "a \"machine\" with µ";
  row.commit = "abc";
  row.date = "2026-11-30T00:00:00Z";
  return row;
}

std::string error_of(const std::string& text) {
  try {
    from_json(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.message();
  }
  return "no error";
}

TEST(Results, ExactText) {
  EXPECT_EQ(to_json({}), "{\"rows\": []}\n");
  EXPECT_EQ(
      to_json({sample()}),
      "{\"rows\": [\n"
      "  {\"stage\":\"07_gemm_hopper_blackwell\",\"operation\":\"gemm_bf16\",\"rung\":\"tiled\","
      "\"case\":\"64x64x64\",\"metric\":\"time\",\"value\":0.000125,\"unit\":\"s\",\"checked\":"
      "true,"
      "\"peer\":\"cublas\",\"ratio\":0.5,\"machine\":\"a \\\"machine\\\" with "
      "µ\",\"commit\":\"abc\","
      "\"date\":\"2026-11-30T00:00:00Z\"}\n]}\n");
}

TEST(Results, RoundTrip) {
  Row second = sample();
  second.ratio.reset();
  second.value = std::numeric_limits<double>::infinity();
  second.checked = false;
  const std::vector<Row> rows = from_json(to_json({sample(), second}));
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].value, 1.25e-4);
  EXPECT_EQ(rows[0].ratio, 0.5);
  EXPECT_EQ(rows[0].machine, sample().machine);
  EXPECT_TRUE(rows[0].checked);
  EXPECT_TRUE(std::isnan(rows[1].value)) << "infinity becomes null, null becomes NaN";
  EXPECT_FALSE(rows[1].ratio.has_value());
  EXPECT_FALSE(rows[1].checked);
}

TEST(Results, BadTextIsRefusedWithPositionAndReason) {
  EXPECT_EQ(
      error_of("{\"rows\": [\n  {]}").find("results are no JSON: parse error at line 2, column 4"),
      0u)
      << error_of("{\"rows\": [\n  {]}");
  EXPECT_EQ(error_of("[]"), "results: the document must be an object with the one key 'rows'");
  EXPECT_EQ(error_of("{\"rows\": 3}"), "results: 'rows' must be a list, it is number");
  EXPECT_EQ(error_of("{\"rows\": [5]}"), "results: row 0 is no object but number");
  const std::string good = to_json({sample()});
  const auto edited = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  EXPECT_EQ(error_of(edited("\"unit\":\"s\",", "")), "results: row 0 lacks the key 'unit'");
  EXPECT_EQ(error_of(edited("\"unit\"", "\"units\"")),
            "results: row 0 has the unknown key 'units'");
  EXPECT_EQ(error_of(edited("\"checked\":true", "\"checked\":1")),
            "results: 'checked' of row 0 must be true or false, it is number");
  EXPECT_EQ(error_of(edited("0.000125", "\"fast\"")),
            "results: 'value' of row 0 must be a number or null, it is string");
  EXPECT_EQ(error_of(edited("\"tiled\"", "null")),
            "results: 'rung' of row 0 must be a text, it is null");
}

TEST(Results, TextThatIsNoUtf8IsWrittenAnyway) {
  Row row = sample();
  row.machine = "bad \xff byte";
  EXPECT_EQ(from_json(to_json({row})).at(0).machine, "bad \xef\xbf\xbd byte");
}

TEST(Results, RowsKnowTheirMachine) {
  ::setenv("RUNGS_COMMIT", "c0ffee", 1);
  const Row row = make_row("stage", "operation");
  ::unsetenv("RUNGS_COMMIT");
  EXPECT_EQ(row.commit, "c0ffee");
  EXPECT_NE(commit_id(), "");
  std::string shape = row.date;
  for (char& c : shape) c = c >= '0' && c <= '9' ? '9' : c;
  EXPECT_EQ(shape, "9999-99-99T99:99:99Z") << row.date;
  EXPECT_FALSE(row.machine.empty());
  std::string host(256, '\0');
  ASSERT_EQ(::gethostname(host.data(), host.size()), 0);
  host.resize(host.find('\0'));
  EXPECT_EQ(row.machine.find(host), std::string::npos) << row.machine;
  EXPECT_GE(core_count(), 1);
  EXPECT_EQ(cpu_name().find('@'), std::string::npos) << cpu_name();
}

TEST(Results, Files) {
  const std::string path = (std::filesystem::temp_directory_path() /
                            ("rungs-results-" + std::to_string(::getpid()) + ".json"))
                               .string();
  write_rows(path, {sample()});
  EXPECT_EQ(from_json(file::read_text(path)).size(), 1u);
  std::filesystem::remove(path);
  try {
    write_rows("/nowhere/at/all.json", {});
    FAIL() << "written into a folder that does not exist";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kSystem);
    EXPECT_NE(error.message().find("/nowhere/at/all.json"), std::string::npos);
  }
}

}  // namespace
}  // namespace rungs::ladder
