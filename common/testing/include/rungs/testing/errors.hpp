#pragma once
/// @file errors.hpp
/// What a call throws, as text: for tests that look at what an error says.

#include <rungs/config.hpp>
#include <rungs/core/error.hpp>

#include <functional>
#include <string>
#include <string_view>

namespace rungs::testing {

/// "Timeout: text" of the Error that `call` throws; "nothing" if it returns.
inline std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return concat(to_string(error.code()), ": ", error.message());
  }
  return "nothing";
}

inline bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace rungs::testing
