#include "trace_target.hpp"

#include "stages.hpp"
#include "usage.hpp"

#include <fmt/format.h>
#include <rungs/core/suggest.hpp>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>
#include <vector>

namespace rungs::cli {
namespace {

std::string list_of(const std::vector<std::string>& names, const char* between = ", ") {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : between) + name;
  return text;
}

std::vector<std::string> rungs_of(const ladder::Operation& operation) {
  std::vector<std::string> names;
  for (const auto& rung : operation.rungs) names.push_back(rung.name);
  return names;
}

/// The rung's number; the number of rungs if there is none of the name.
std::size_t index_of(const ladder::Operation& operation, std::string_view rung) {
  const auto found = std::find_if(operation.rungs.begin(), operation.rungs.end(),
                                  [&](const auto& one) { return one.name == rung; });
  return static_cast<std::size_t>(found - operation.rungs.begin());
}

[[noreturn]] void complain_of(const std::string& what,
                              const std::vector<ladder::Operation>& operations) {
  std::vector<std::string> candidates;
  for (const ladder::Operation& operation : operations) {
    candidates.push_back(operation.name);
    for (const auto& rung : operation.rungs) {
      candidates.push_back(operation.name + "/" + rung.name);
      candidates.push_back(rung.name);
    }
  }
  const std::string nearest = did_you_mean(what, candidates);
  throw UsageError(fmt::format("no operation or rung is called '{}'{} 'rungs list' shows all", what,
                               nearest.empty() ? "." : nearest));
}

/// Operation and rung.
TraceTarget find_rung(const std::string& what) {
  std::vector<ladder::Operation> operations = all_operations();
  const std::size_t slash = what.find('/');
  const std::string first = what.substr(0, slash);
  for (ladder::Operation& operation : operations) {
    if (operation.name != first) continue;
    TraceTarget target;
    target.rung = operation.rungs.size() - 1;
    if (slash != std::string::npos) {
      const std::string rung = what.substr(slash + 1);
      target.rung = index_of(operation, rung);
      if (target.rung == operation.rungs.size()) {
        const std::vector<std::string> names = rungs_of(operation);
        const std::string nearest = did_you_mean(rung, names);
        throw UsageError(fmt::format("{} has no rung '{}'{} It has: {}", first, rung,
                                     nearest.empty() ? "." : nearest, list_of(names)));
      }
    }
    target.operation = std::move(operation);
    return target;
  }
  if (slash != std::string::npos) complain_of(what, operations);
  std::vector<std::string> holders;
  TraceTarget target;
  for (ladder::Operation& operation : operations) {
    const std::size_t rung = index_of(operation, what);
    if (rung == operation.rungs.size()) continue;
    holders.push_back(operation.name + "/" + what);
    target.operation = operation;
    target.rung = rung;
  }
  if (holders.empty()) complain_of(what, operations);
  if (holders.size() > 1)
    throw UsageError(
        fmt::format("'{}' is a rung of several operations; say which: {}", what, list_of(holders)));
  return target;
}

std::uint64_t number(std::string_view text, const std::string& whole, const char* option,
                     const char* form) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() ||
      value > 0xffffffffu)
    throw UsageError(fmt::format("{} takes {}, got '{}'", option, form, whole));
  return value;
}

}  // namespace

TraceTarget find_target(const std::string& what, const std::string& case_name) {
  TraceTarget target = find_rung(what);
  const ladder::Operation& operation = target.operation;
  if (operation.on_host) {
    throw UsageError(fmt::format(
        "{} runs on the host and launches no kernel of its own: there is nothing to trace",
        operation.name));
  }
  std::vector<std::string> names;
  std::vector<std::size_t> beginning;  // cases that begin with the word
  for (std::size_t i = 0; i < operation.cases.size(); ++i) {
    const ladder::Case& one = operation.cases[i];
    if (one.name == case_name || (case_name.empty() && !one.gpu_only)) {
      target.case_index = i;
      return target;
    }
    if (one.name.starts_with(case_name)) beginning.push_back(i);
    if (!one.gpu_only) names.push_back(one.name);
  }
  if (beginning.size() == 1) {
    target.case_index = beginning.front();
    return target;
  }
  std::string nearest = did_you_mean(case_name, names);
  throw UsageError(fmt::format("{} has no case '{}'{} The emulator holds: {}", operation.name,
                               case_name, nearest.empty() ? "." : nearest, list_of(names, "; ")));
}

std::optional<std::array<unsigned, 3>> cta_of(const std::string& text) {
  if (text == "all") return std::nullopt;
  std::array<unsigned, 3> values{};
  std::string_view rest = text;
  for (unsigned& value : values) {
    const std::size_t comma = rest.find(',');
    value = static_cast<unsigned>(
        number(rest.substr(0, comma), text, "--cta", "a block's index x,y,z, or all"));
    if (comma == std::string_view::npos) return values;
    rest.remove_prefix(comma + 1);
  }
  throw UsageError(fmt::format("--cta takes a block's index x,y,z, or all, got '{}'", text));
}

void steps_of(const std::string& text, std::uint64_t* from, std::uint64_t* to) {
  *from = *to = 0;
  if (text.empty()) return;
  constexpr const char* kForm = "two steps FROM:TO, the first below the second";
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos)
    throw UsageError(fmt::format("--steps takes {}, got '{}'", kForm, text));
  const std::string_view whole = text;
  if (colon > 0) *from = number(whole.substr(0, colon), text, "--steps", kForm);
  if (colon + 1 < text.size()) *to = number(whole.substr(colon + 1), text, "--steps", kForm);
  if (*to != 0 && *to <= *from)
    throw UsageError(fmt::format("--steps takes {}, got '{}'", kForm, text));
}

}  // namespace rungs::cli
