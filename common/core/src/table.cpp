#include <rungs/core/table.hpp>

#include <rungs/core/error.hpp>
#include <rungs/core/text.hpp>

#include <algorithm>
#include <string_view>
#include <utility>

namespace rungs {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_blank(std::string_view cell) { return cell.empty() || cell == "-" || cell == "–"; }

// "12", "-3.5 ms", "+1", "1.20x".
bool is_number(std::string_view cell) {
  if (!cell.empty() && (cell[0] == '-' || cell[0] == '+')) cell.remove_prefix(1);
  return !cell.empty() && is_digit(cell[0]);
}

std::string one_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '\n' || c == '\r' || c == '\t'; }, ' ');
  return text;
}

}  // namespace

Table::Table(std::vector<std::string> headings) : headings_(std::move(headings)) {
  RUNGS_REQUIRE(!headings_.empty(), "table: no headings");
}

Table& Table::add_row(std::vector<std::string> cells) {
  RUNGS_REQUIRE(cells.size() == headings_.size(), "table: a row of ", cells.size(), " cells under ",
                headings_.size(), " headings");
  for (std::string& cell : cells) cell = one_line(std::move(cell));
  rows_.push_back(std::move(cells));
  return *this;
}

std::string Table::to_string(std::size_t indent) const {
  const std::size_t columns = headings_.size();
  std::vector<std::size_t> width(columns);
  std::vector<bool> right(columns);
  for (std::size_t c = 0; c < columns; ++c) {
    width[c] = display_width(headings_[c]);
    for (const auto& row : rows_) width[c] = std::max(width[c], display_width(row[c]));
    right[c] = std::any_of(rows_.begin(), rows_.end(),
                           [c](const auto& row) { return is_number(row[c]); }) &&
               std::all_of(rows_.begin(), rows_.end(),
                           [c](const auto& row) { return is_number(row[c]) || is_blank(row[c]); });
  }
  std::string result;
  const auto add_line = [&](const std::vector<std::string>& cells) {
    std::string line(indent, ' ');
    for (std::size_t c = 0; c < columns; ++c) {
      if (c > 0) line += "  ";
      line += right[c] ? pad_left(cells[c], width[c]) : pad_right(cells[c], width[c]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    result += line + '\n';
  };
  add_line(headings_);
  std::vector<std::string> rule;
  for (const std::size_t w : width) rule.emplace_back(w, '-');
  add_line(rule);
  for (const auto& row : rows_) add_line(row);
  return result;
}

}  // namespace rungs
