#include <rungs/core/table.hpp>

#include <rungs/core/error.hpp>
#include <rungs/core/text.hpp>

#include <algorithm>
#include <numeric>
#include <string_view>
#include <utility>

namespace rungs {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_blank(std::string_view cell) { return cell.empty() || cell == "-" || cell == "–"; }

// "12", "-3.5 ms", "+1", "1.20x", "1,234", "9.5e-05", but not "512x256".
bool is_number(std::string_view cell) {
  if (!cell.empty() && (cell[0] == '-' || cell[0] == '+')) cell.remove_prefix(1);
  if (cell.empty() || !is_digit(cell[0])) return false;
  cell.remove_prefix(std::min(cell.find_first_not_of("0123456789.,:"), cell.size()));
  if (cell.size() > 2 && cell[0] == 'e' && (cell[1] == '-' || cell[1] == '+')) {
    cell.remove_prefix(2);
    cell.remove_prefix(std::min(cell.find_first_not_of("0123456789"), cell.size()));
  }
  return std::none_of(cell.begin(), cell.end(), is_digit);
}

// Where a line may end: at spaces, and behind an underscore: selective_|signalling.
std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of(" _"), text.size());
    const bool underscore = end < text.size() && text[end] == '_';
    if (end > 0 || underscore) words.push_back(text.substr(0, end + (underscore ? 1 : 0)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

std::size_t longest_word(std::string_view text) {
  std::size_t longest = 0;
  for (const std::string_view word : words_of(text))
    longest = std::max(longest, display_width(word));
  return longest;
}

// The cell's lines; at least one.
std::vector<std::string> broken(const std::string& cell, std::size_t width) {
  if (display_width(cell) <= width) return {cell};
  std::vector<std::string> lines;
  const char* end = nullptr;  // of the word before
  for (const std::string_view word : words_of(cell)) {
    const std::string_view space = word.data() == end ? "" : " ";
    if (lines.empty() || display_width(lines.back()) + space.size() + display_width(word) > width) {
      lines.emplace_back(word);
    } else {
      lines.back() += space;
      lines.back() += word;
    }
    end = word.data() + word.size();
  }
  return lines;
}

// Takes from the widest column that may be narrower until all fit, or none may.
void narrow(std::vector<std::size_t>& width, const std::vector<std::size_t>& least,
            std::size_t columns) {
  for (auto used = std::accumulate(width.begin(), width.end(), std::size_t{0}); used > columns;
       --used) {
    std::size_t widest = width.size();
    for (std::size_t c = 0; c < width.size(); ++c) {
      const bool may = width[c] > least[c];
      if (may && (widest == width.size() || width[c] > width[widest])) widest = c;
    }
    if (widest == width.size()) return;
    --width[widest];
  }
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

std::string Table::to_string(std::size_t indent, std::size_t columns) const {
  std::size_t gap = 2;
  const std::size_t count = headings_.size();
  std::vector<std::size_t> width(count);
  std::vector<std::size_t> least(count);
  std::vector<bool> right(count);
  for (std::size_t c = 0; c < count; ++c) {
    right[c] = std::any_of(rows_.begin(), rows_.end(),
                           [c](const auto& row) { return is_number(row[c]); }) &&
               std::all_of(rows_.begin(), rows_.end(),
                           [c](const auto& row) { return is_number(row[c]) || is_blank(row[c]); });
    width[c] = display_width(headings_[c]);
    least[c] = longest_word(headings_[c]);
    for (const auto& row : rows_) {
      width[c] = std::max(width[c], display_width(row[c]));
      least[c] = std::max(least[c], right[c] ? display_width(row[c]) : longest_word(row[c]));
    }
  }
  if (columns > 0) {
    std::size_t fixed = indent + gap * (count - 1);
    if (std::accumulate(least.begin(), least.end(), fixed) > columns) {
      gap = 1;
      fixed = indent + gap * (count - 1);
    }
    narrow(width, least, columns > fixed ? columns - fixed : 0);
  }
  std::string result;
  const auto add_row = [&](const std::vector<std::string>& cells) {
    std::vector<std::vector<std::string>> lines;
    std::size_t height = 1;
    for (std::size_t c = 0; c < count; ++c) {
      lines.push_back(broken(cells[c], width[c]));
      height = std::max(height, lines.back().size());
    }
    for (std::size_t i = 0; i < height; ++i) {
      std::string line(indent, ' ');
      for (std::size_t c = 0; c < count; ++c) {
        if (c > 0) line.append(gap, ' ');
        const std::string piece = i < lines[c].size() ? lines[c][i] : std::string();
        line += right[c] ? pad_left(piece, width[c]) : pad_right(piece, width[c]);
      }
      line.erase(line.find_last_not_of(' ') + 1);
      result += line + '\n';
    }
  };
  add_row(headings_);
  std::vector<std::string> rule;
  rule.reserve(count);
  for (const std::size_t w : width) rule.emplace_back(w, '-');
  add_row(rule);
  for (const auto& row : rows_) add_row(row);
  return result;
}

}  // namespace rungs
