#include "screen.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <rungs/core/text.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace rungs::cli {
namespace {

std::string colored(std::string_view text, const char* code) {
  static const bool wanted = [] {
    const char* no_color = std::getenv("NO_COLOR");
    return isatty(STDOUT_FILENO) == 1 && (no_color == nullptr || *no_color == '\0');
  }();
  return wanted ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : std::string(text);
}

}  // namespace

std::size_t screen_columns() {
  std::size_t columns = 100;
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    columns = size.ws_col;
  } else if (const char* variable = std::getenv("COLUMNS")) {
    const long value = std::strtol(variable, nullptr, 10);
    if (value > 0) columns = static_cast<std::size_t>(value);
  }
  return std::clamp<std::size_t>(columns, 40, 200);
}

std::string good(std::string_view text) { return colored(text, "32"); }
std::string bad(std::string_view text) { return colored(text, "1;31"); }
std::string warn(std::string_view text) { return colored(text, "33"); }
std::string faint(std::string_view text) { return colored(text, "2"); }
std::string strong(std::string_view text) { return colored(text, "1"); }

std::string wrap(std::string_view text, std::size_t indent, std::size_t columns) {
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

void heading(std::string_view text) { write(fmt::format("\n{}\n", strong(text))); }

void paragraph(std::string_view text, std::size_t indent) {
  write(fmt::format("{:{}}{}\n", "", indent, wrap(text, indent)));
}

void write(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

}  // namespace rungs::cli
