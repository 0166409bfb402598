#include "topology/bus_id.hpp"

#include <array>
#include <charconv>
#include <cstdio>

namespace rungs::topology {
namespace {

// Takes 1 to `most` hexadecimal digits and the separator behind them off the front of the text.
bool take(std::string_view& text, std::size_t most, char separator, unsigned& value) {
  const std::size_t end = separator == '\0' ? text.size() : text.find(separator);
  if (end == std::string_view::npos || end == 0 || end > most) return false;
  const auto [stop, failed] = std::from_chars(text.data(), text.data() + end, value, 16);
  if (failed != std::errc() || stop != text.data() + end) return false;
  text.remove_prefix(separator == '\0' ? end : end + 1);
  return true;
}

}  // namespace

std::optional<BusId> parse_bus_id(std::string_view text) {
  BusId id;
  const bool complete = take(text, 8, ':', id.domain) && take(text, 2, ':', id.bus) &&
                        take(text, 2, '.', id.device) && take(text, 1, '\0', id.function);
  if (!complete) return std::nullopt;
  return id;
}

std::string to_string(const BusId& id) {
  std::array<char, 24> text{};
  std::snprintf(text.data(), text.size(), "%04x:%02x:%02x.%x", id.domain, id.bus, id.device,
                id.function);
  return text.data();
}

}  // namespace rungs::topology
