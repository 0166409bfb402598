#include <rungs/core/progress.hpp>

#include "terminal_line.hpp"

#include <rungs/core/text.hpp>

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <utility>

namespace rungs {
namespace {

constexpr std::size_t kFallbackColumns = 80;
constexpr std::size_t kWidestBar = 30;
constexpr std::size_t kNarrowestBar = 8;

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

// POSIX: the first of these that is set decides.
bool locale_is_utf8() {
  for (const char* variable : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* text = std::getenv(variable);
    if (text == nullptr || *text == '\0') continue;
    const std::string value = text;
    return value.find("UTF-8") != std::string::npos || value.find("utf8") != std::string::npos;
  }
  return false;
}

bool stderr_redraws() {
  const char* kind = std::getenv("TERM");
  return ::isatty(STDERR_FILENO) == 1 && kind != nullptr && std::string_view(kind) != "dumb";
}

std::size_t terminal_columns() {
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kFallbackColumns;
  return size.ws_col;
}

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string repeat(std::string_view piece, std::size_t times) {
  std::string result;
  for (std::size_t i = 0; i < times; ++i) result += piece;
  return result;
}

}  // namespace

Progress::Progress(std::string label, std::uint64_t total, ProgressOptions options)
    : label_(std::move(label)),
      total_(total),
      options_(std::move(options)) {
  const bool is_stderr = options_.out == nullptr;
  if (is_stderr) options_.out = &std::cerr;
  if (!options_.terminal) options_.terminal = is_stderr && stderr_redraws();
  if (!options_.color) options_.color = !is_set("NO_COLOR");
  if (!options_.unicode) options_.unicode = locale_is_utf8();
  if (!options_.clock) options_.clock = steady_seconds;
  started_ = written_ = options_.clock();
  if (*options_.terminal) write(false);
}

Progress::~Progress() {
  try {
    finish(suffix_);
  } catch (...) {
    finished_ = true;  // a bar that cannot be drawn is no reason to end the work
  }
}

void Progress::update(std::uint64_t done, std::string_view suffix) {
  if (finished_) return;
  done_ = done;
  suffix_ = suffix;
  const double wait = *options_.terminal ? options_.redraw_seconds : options_.plain_seconds;
  if (options_.clock() - written_ < wait) return;
  write(false);
}

void Progress::finish(std::string_view suffix) {
  if (finished_) return;
  suffix_ = suffix;
  write(true);
  finished_ = true;
}

double Progress::seconds_used() const { return options_.clock() - started_; }

// "62 %  155/250  0:51 left  loss 2.41"
std::string Progress::facts(bool last) const {
  std::string text;
  if (total_ > 0) {
    const std::uint64_t percent = std::min(done_, total_) * 100 / total_;
    text = pad_left(std::to_string(percent), 3) + " %  " + std::to_string(done_) + "/" +
           std::to_string(total_);
  } else {
    text = std::to_string(done_);
  }
  if (last) {
    text += "  in " + format_clock(seconds_used());
  } else if (total_ > 0 && done_ > 0 && done_ <= total_) {
    const double left =
        seconds_used() * static_cast<double>(total_ - done_) / static_cast<double>(done_);
    text += "  " + format_clock(left) + " left";
  } else if (total_ == 0) {
    text += "  " + format_clock(seconds_used());
  }
  if (!suffix_.empty()) text += "  " + suffix_;
  return text;
}

std::string Progress::bar_line(bool last) const {
  // The last column stays free: some terminals wrap when it is written.
  const std::size_t columns = (options_.columns > 0 ? options_.columns : terminal_columns()) - 1;
  const std::string text = facts(last);
  const std::size_t fixed = display_width(label_) + 2 + display_width(text);
  std::string line = label_ + " ";
  const std::size_t room = columns > fixed ? columns - fixed : 0;
  if (total_ == 0 || room < kNarrowestBar) return cut_to_width(line + text, columns);
  const std::size_t length = std::min(room, kWidestBar);
  const auto filled = static_cast<std::size_t>(static_cast<double>(length) *
                                               static_cast<double>(std::min(done_, total_)) /
                                               static_cast<double>(total_));
  const bool color = *options_.color;
  if (color) line += "\x1b[32m";
  line += repeat(*options_.unicode ? "━" : "#", filled);
  if (color) line += "\x1b[90m";
  line += repeat(*options_.unicode ? "─" : ".", length - filled);
  if (color) line += "\x1b[0m";
  return line + " " + text;
}

void Progress::write(bool last) {
  std::ostream& out = *options_.out;
  const bool on_stderr = options_.out == &std::cerr;
  if (*options_.terminal) {
    out << "\r\x1b[K" << bar_line(last);
    if (last) out << '\n';
  } else {
    out << label_ << ": " << facts(last) << '\n';
  }
  out.flush();
  if (on_stderr && *options_.terminal) detail::set_bar_on_stderr(!last);
  written_ = options_.clock();
}

}  // namespace rungs
