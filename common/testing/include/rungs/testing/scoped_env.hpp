#pragma once
/// @file scoped_env.hpp
/// Environment variables of one test, put back at its end.

#include <rungs/config.hpp>

#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace rungs::testing {

/// @note the environment belongs to the process: one thread at a time
class ScopedEnv {
 public:
  ScopedEnv() = default;
  ScopedEnv(const std::string& name, const std::string& value) { set(name, value); }
  ~ScopedEnv() {
    for (auto it = saved_.rbegin(); it != saved_.rend(); ++it) apply(it->first, it->second);
  }
  ScopedEnv(const ScopedEnv&) = delete;
  ScopedEnv& operator=(const ScopedEnv&) = delete;
  void set(const std::string& name, const std::string& value) {
    save(name);
    apply(name, value);
  }
  void unset(const std::string& name) {
    save(name);
    apply(name, std::nullopt);
  }

 private:
  void save(const std::string& name) {
    const char* value = std::getenv(name.c_str());
    saved_.emplace_back(name, value == nullptr ? std::nullopt : std::optional<std::string>(value));
  }
  static void apply(const std::string& name, const std::optional<std::string>& value) {
    if (value) {
      ::setenv(name.c_str(), value->c_str(), 1);
    } else {
      ::unsetenv(name.c_str());
    }
  }
  std::vector<std::pair<std::string, std::optional<std::string>>> saved_;
};

}  // namespace rungs::testing
