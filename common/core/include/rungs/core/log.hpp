#pragma once
/// @file log.hpp
/// One line a message, on standard error: "17:40:02.123 warn [rank 3] text". RUNGS_LOG says from
/// which level on.

#include <rungs/core/error.hpp>

#include <functional>
#include <string>

namespace rungs::log {

enum class Level { kError, kWarn, kInfo, kDebug };

/// "error", "warn", "info", "debug".
const char* to_string(Level level) noexcept;

/// Whether a message of this level is written. From RUNGS_LOG=error|warn|info|debug, warn by
/// default.
bool enabled(Level level) noexcept;
/// Overrides RUNGS_LOG for the process.
void set_level(Level level) noexcept;

/// The rank that this thread's lines name; negative: none. Threads that set none use the process's
/// rank (rungs/core/env.hpp) when it was started with more than one.
void set_rank(int rank) noexcept;

/// Where lines go instead of standard error (tests); an empty function restores it. `line` has rank
/// and text.
void set_sink(std::function<void(Level level, const std::string& line)> sink);

/// Writes one line whatever the level. Thread-safe; never throws: destructors use it.
void write(Level level, const std::string& text) noexcept;

namespace detail {
template <class... Parts>
void write_parts(Level level, const Parts&... parts) noexcept {
  if (!enabled(level)) return;
  try {
    write(level, concat(parts...));
  } catch (...) {
    write(level, "a message could not be formatted: out of memory");
  }
}
}  // namespace detail

template <class... Parts>
void error(const Parts&... parts) noexcept {
  detail::write_parts(Level::kError, parts...);
}
template <class... Parts>
void warn(const Parts&... parts) noexcept {
  detail::write_parts(Level::kWarn, parts...);
}
template <class... Parts>
void info(const Parts&... parts) noexcept {
  detail::write_parts(Level::kInfo, parts...);
}
template <class... Parts>
void debug(const Parts&... parts) noexcept {
  detail::write_parts(Level::kDebug, parts...);
}

}  // namespace rungs::log
