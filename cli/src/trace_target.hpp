#pragma once
/// @file trace_target.hpp
/// What `rungs trace` is asked to trace.

#include <rungs/ladder/operation.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace rungs::cli {

/// A rung and a case of it.
struct TraceTarget {
  ladder::Operation operation;
  std::size_t rung = 0;
  std::size_t case_index = 0;
  [[nodiscard]] const std::string& rung_name() const { return operation.rungs[rung].name; }
  [[nodiscard]] const std::string& case_name() const { return operation.cases[case_index].name; }
};

/// @param what "operation/rung", "operation" (its highest rung) or "rung"
/// @param case_name empty: the operation's first case that the emulator holds
/// @throws UsageError naming what there is
TraceTarget find_target(const std::string& what, const std::string& case_name);

/// "1,2,3", "1,2" or "1"; nothing for "all". @throws UsageError
std::optional<std::array<unsigned, 3>> cta_of(const std::string& text);

/// "10:200", "10:" or ":200"; an empty text is everything. @throws UsageError
void steps_of(const std::string& text, std::uint64_t* from, std::uint64_t* to);

}  // namespace rungs::cli
