#pragma once
/// @file bus_id.hpp
/// Names of PCI functions: domain:bus:device.function.

#include <rungs/config.hpp>

#include <compare>
#include <optional>
#include <string>
#include <string_view>

namespace rungs::topology {

struct BusId {
  unsigned domain = 0;
  unsigned bus = 0;
  unsigned device = 0;
  unsigned function = 0;
  auto operator<=>(const BusId&) const = default;
};

/// "0000:3b:00.0", in any case and with up to eight digits of domain; nothing for anything else.
std::optional<BusId> parse_bus_id(std::string_view text);
/// Four digits of domain (more if it needs them), lower case: what sysfs writes.
std::string to_string(const BusId& id);

}  // namespace rungs::topology
