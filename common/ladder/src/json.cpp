#include <rungs/core/error.hpp>
#include <rungs/ladder/results.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string_view>

namespace rungs::ladder {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::string_view, 13> kKeys{
    "stage",   "operation", "rung",  "case",    "metric", "value", "unit",
    "checked", "peer",      "ratio", "machine", "commit", "date"};

Json number_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json to_object(const Row& row) {
  Json object;
  object["stage"] = row.stage;
  object["operation"] = row.operation;
  object["rung"] = row.rung;
  object["case"] = row.case_name;
  object["metric"] = row.metric;
  object["value"] = number_or_null(row.value);
  object["unit"] = row.unit;
  object["checked"] = row.checked;
  object["peer"] = row.peer;
  object["ratio"] = row.ratio ? number_or_null(*row.ratio) : Json(nullptr);
  object["machine"] = row.machine;
  object["commit"] = row.commit;
  object["date"] = row.date;
  return object;
}

// Reads the members of one row; errors name the row and the key.
class Reader {
 public:
  Reader(const Json& object, std::size_t index) : object_(object), index_(index) {
    RUNGS_REQUIRE(object.is_object(), "results: row ", index, " is no object but ",
                  object.type_name());
    for (const auto& [key, value] : object.items()) {
      const bool known = std::find(kKeys.begin(), kKeys.end(), key) != kKeys.end();
      RUNGS_REQUIRE(known, "results: row ", index, " has the unknown key '", key, "'");
    }
  }

  std::string text(const char* key) const {
    const Json& value = member(key);
    RUNGS_REQUIRE(value.is_string(), wrong(key, "a text", value));
    return value.get<std::string>();
  }
  bool boolean(const char* key) const {
    const Json& value = member(key);
    RUNGS_REQUIRE(value.is_boolean(), wrong(key, "true or false", value));
    return value.get<bool>();
  }
  std::optional<double> number(const char* key) const {
    const Json& value = member(key);
    if (value.is_null()) return std::nullopt;
    RUNGS_REQUIRE(value.is_number(), wrong(key, "a number or null", value));
    return value.get<double>();
  }

 private:
  const Json& member(const char* key) const {
    const auto found = object_.find(key);
    RUNGS_REQUIRE(found != object_.end(), "results: row ", index_, " lacks the key '", key, "'");
    return *found;
  }
  std::string wrong(const char* key, const char* wanted, const Json& value) const {
    return concat("results: '", key, "' of row ", index_, " must be ", wanted, ", it is ",
                  value.type_name());
  }

  const Json& object_;
  std::size_t index_;
};

Row to_row(const Json& object, std::size_t index) {
  const Reader reader(object, index);
  Row row;
  row.stage = reader.text("stage");
  row.operation = reader.text("operation");
  row.rung = reader.text("rung");
  row.case_name = reader.text("case");
  row.metric = reader.text("metric");
  row.value = reader.number("value").value_or(std::numeric_limits<double>::quiet_NaN());
  row.unit = reader.text("unit");
  row.checked = reader.boolean("checked");
  row.peer = reader.text("peer");
  row.ratio = reader.number("ratio");
  row.machine = reader.text("machine");
  row.commit = reader.text("commit");
  row.date = reader.text("date");
  return row;
}

Json parse(const std::string& text) {
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& error) {
    // "[json.exception.parse_error.101] parse error at line 2, column 7: ..." without the
    // exception's number.
    const std::string_view what = error.what();
    const std::size_t end = what.find("] ");
    RUNGS_THROW(kInvalidArgument, "results are no JSON: ",
                end == std::string_view::npos ? what : what.substr(end + 2));
  }
}

}  // namespace

// One row a line: results are committed, and a diff should show rows.
std::string to_json(const std::vector<Row>& rows) {
  std::string text = "{\"rows\": [";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    text += i == 0 ? "\n  " : ",\n  ";
    text += to_object(rows[i]).dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  return text + (rows.empty() ? "]}\n" : "\n]}\n");
}

std::vector<Row> from_json(const std::string& text) {
  const Json document = parse(text);
  RUNGS_REQUIRE(document.is_object() && document.size() == 1 && document.contains("rows"),
                "results: the document must be an object with the one key 'rows'");
  const Json& list = document["rows"];
  RUNGS_REQUIRE(list.is_array(), "results: 'rows' must be a list, it is ", list.type_name());
  std::vector<Row> rows;
  for (std::size_t i = 0; i < list.size(); ++i) rows.push_back(to_row(list[i], i));
  return rows;
}

}  // namespace rungs::ladder
