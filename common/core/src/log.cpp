#include <rungs/core/log.hpp>

#include "terminal_line.hpp"

#include <rungs/core/env.hpp>

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>

namespace rungs::log {
namespace {

constexpr int kUnset = -1;
thread_local int thread_rank = kUnset;

std::optional<Level> parse(const char* text) {
  for (const Level level : {Level::kError, Level::kWarn, Level::kInfo, Level::kDebug}) {
    if (std::strcmp(text, to_string(level)) == 0) return level;
  }
  return std::nullopt;
}

spdlog::level::level_enum to_spdlog(Level level) {
  switch (level) {
    case Level::kError:
      return spdlog::level::err;
    case Level::kWarn:
      return spdlog::level::warn;
    case Level::kInfo:
      return spdlog::level::info;
    case Level::kDebug:
      return spdlog::level::debug;
  }
  return spdlog::level::err;
}

struct State {
  std::mutex mutex;
  std::atomic<Level> level{Level::kWarn};
  std::function<void(Level, const std::string&)> sink;
  std::unique_ptr<spdlog::logger> logger;
  int process_rank = kUnset;
  std::string complaint;  // about the environment; written before the first line

  State() {
    const char* wanted = std::getenv("RUNGS_LOG");
    if (wanted != nullptr && *wanted != '\0') {
      const std::optional<Level> parsed = parse(wanted);
      if (parsed) {
        level = *parsed;
      } else {
        complaint =
            concat("RUNGS_LOG is '", wanted, "': use error, warn, info or debug; taken as warn");
      }
    }
    try {
      const RankEnvironment ranks = RankEnvironment::read();
      if (ranks.world_size > 1) process_rank = ranks.rank;
    } catch (const Error&) {
      // Whoever needs the ranks reports this; a log line only goes without its prefix.
      process_rank = kUnset;
    }
    const bool plain = std::getenv("NO_COLOR") != nullptr && *std::getenv("NO_COLOR") != '\0';
    auto terminal = std::make_shared<spdlog::sinks::stderr_color_sink_mt>(
        plain ? spdlog::color_mode::never : spdlog::color_mode::automatic);
    terminal->set_pattern("%H:%M:%S.%e %^%v%$");
    logger = std::make_unique<spdlog::logger>("rungs", std::move(terminal));
    logger->set_level(spdlog::level::trace);  // filtered here, by enabled()
    logger->flush_on(spdlog::level::trace);
  }
};

// Never destroyed: destructors of statics may still log.
State& state() {
  static auto* const instance = new State;
  return *instance;
}

void write_locked(State& s, Level level, const std::string& text) {
  const int rank = thread_rank != kUnset ? thread_rank : s.process_rank;
  const std::string prefix = rank < 0 ? std::string() : concat("[rank ", rank, "] ");
  if (s.sink) {
    s.sink(level, prefix + text);
    return;
  }
  rungs::detail::wipe_bar();
  s.logger->log(to_spdlog(level), concat(to_string(level), ' ', prefix, text));
}

}  // namespace

const char* to_string(Level level) noexcept {
  switch (level) {
    case Level::kError:
      return "error";
    case Level::kWarn:
      return "warn";
    case Level::kInfo:
      return "info";
    case Level::kDebug:
      return "debug";
  }
  return "unknown";
}

bool enabled(Level level) noexcept {
  try {
    return level <= state().level.load(std::memory_order_relaxed);
  } catch (...) {
    return false;
  }
}

void set_level(Level level) noexcept {
  try {
    state().level = level;
  } catch (...) {
    return;  // no memory for the logger: there is nothing to set a level of
  }
}

void set_rank(int rank) noexcept { thread_rank = rank < 0 ? kUnset : rank; }

void set_sink(std::function<void(Level, const std::string&)> sink) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.sink = std::move(sink);
}

void write(Level level, const std::string& text) noexcept {
  try {
    State& s = state();
    const std::lock_guard lock(s.mutex);
    if (!s.complaint.empty()) {
      const std::string complaint = std::move(s.complaint);
      s.complaint.clear();
      write_locked(s, Level::kWarn, complaint);
    }
    write_locked(s, level, text);
  } catch (...) {
    return;  // a message that cannot be written must not end a destructor
  }
}

}  // namespace rungs::log
