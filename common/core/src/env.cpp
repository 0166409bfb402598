#include <rungs/core/env.hpp>

#include <rungs/core/error.hpp>

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <system_error>

namespace rungs::env {

std::optional<std::string> text(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

std::string string(const char* name, const std::string& otherwise) {
  return text(name).value_or(otherwise);
}

std::int64_t integer(const char* name, std::int64_t otherwise, std::int64_t min, std::int64_t max) {
  const std::optional<std::string> value = text(name);
  if (!value) return otherwise;
  std::int64_t parsed = 0;
  const char* end = value->data() + value->size();
  const std::from_chars_result result = std::from_chars(value->data(), end, parsed);
  RUNGS_REQUIRE(result.ec == std::errc() && result.ptr == end && parsed >= min && parsed <= max,
                "environment variable ", name, " is '", *value,
                "': it must be a whole number from ", min, " to ", max);
  return parsed;
}

double number(const char* name, double otherwise, double min, double max) {
  const std::optional<std::string> value = text(name);
  if (!value) return otherwise;
  char* end = nullptr;
  const double parsed = std::strtod(value->c_str(), &end);
  RUNGS_REQUIRE(*end == '\0' && std::isfinite(parsed) && parsed >= min && parsed <= max,
                "environment variable ", name, " is '", *value, "': it must be a number from ", min,
                " to ", max);
  return parsed;
}

bool flag(const char* name, bool otherwise) {
  const std::optional<std::string> value = text(name);
  if (!value) return otherwise;
  for (const char* yes : {"1", "true", "yes", "on"}) {
    if (*value == yes) return true;
  }
  for (const char* no : {"0", "false", "no", "off"}) {
    if (*value == no) return false;
  }
  RUNGS_THROW(kInvalidArgument, "environment variable ", name, " is '", *value,
              "': it must be 1, true, yes, on, 0, false, no or off");
}

}  // namespace rungs::env
