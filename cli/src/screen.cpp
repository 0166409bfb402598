#include "screen.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <rungs/core/error.hpp>
#include <rungs/core/text.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

namespace rungs::cli {
namespace {

std::string colored(std::string_view text, const char* code) {
  static const bool wanted = [] {
    const char* no_color = std::getenv("NO_COLOR");
    return isatty(STDOUT_FILENO) == 1 && (no_color == nullptr || *no_color == '\0');
  }();
  return wanted ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : std::string(text);
}

/// Nothing when nobody says.
std::optional<std::size_t> known_columns() {
  long columns = 0;
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    columns = size.ws_col;
  } else if (const char* variable = std::getenv("COLUMNS")) {
    columns = std::strtol(variable, nullptr, 10);
  }
  if (columns <= 0) return std::nullopt;
  return static_cast<std::size_t>(std::clamp(columns, 40L, 200L));
}

[[noreturn]] void refuse_output() {
  RUNGS_THROW(kSystem, "cannot write to standard output: ", std::strerror(errno),
              ". What was to be said there is not complete");
}

}  // namespace

std::size_t screen_columns() { return known_columns().value_or(100); }

std::string good(std::string_view text) { return colored(text, "32"); }
std::string bad(std::string_view text) { return colored(text, "1;31"); }
std::string warn(std::string_view text) { return colored(text, "33"); }
std::string faint(std::string_view text) { return colored(text, "2"); }
std::string strong(std::string_view text) { return colored(text, "1"); }

namespace {

std::string wrap_line(std::string_view text, std::size_t indent, std::size_t columns) {
  std::string result;
  std::size_t used = indent;
  bool line_start = true;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (word.empty()) continue;
    const std::size_t width = display_width(word);
    if (!line_start && used + 1 + width > columns) {
      result += '\n';
      result.append(indent, ' ');
      used = indent;
      line_start = true;
    }
    if (!line_start) {
      result += ' ';
      ++used;
    }
    result += word;
    used += width;
    line_start = false;
  }
  return result;
}

}  // namespace

// A report has lines of its own; each is wrapped behind its own spaces.
std::string wrap(std::string_view text, std::size_t indent, std::size_t columns) {
  std::string result;
  for (bool first = true; first || !text.empty(); first = false) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::size_t spaces = std::min(line.find_first_not_of(' '), line.size());
    if (!first) result.append("\n").append(indent, ' ');
    result.append(spaces, ' ').append(wrap_line(line.substr(spaces), indent + spaces, columns));
  }
  return result;
}

void heading(std::string_view text) { write(fmt::format("\n{}\n", strong(text))); }

void paragraph(std::string_view text, std::size_t indent) {
  write(fmt::format("{:{}}{}\n", "", indent, wrap(text, indent)));
}

void write(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    refuse_output();
}

void write_table(const Table& table, std::size_t indent) {
  write(table.to_string(indent, known_columns().value_or(0)));
}

void finish_output() {
  if (std::ferror(stdout) != 0 || std::fflush(stdout) != 0) refuse_output();
}

}  // namespace rungs::cli
