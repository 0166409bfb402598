#include "topology/hops.hpp"

#include <rungs/core/error.hpp>

#include <cmath>

namespace rungs::topology {

std::string overload(const System& system, const Rings& rings) {
  // A search adds and subtracts speeds; what that rounds is no overload.
  constexpr double kRounding = 1e-9;
  try {
    const HopTable table(system);
    if (rings.rings.empty()) return "there is no ring";
    if (!(std::isfinite(rings.gb_per_s) && rings.gb_per_s > 0)) {
      return concat("the rings run at ", rings.gb_per_s, " GB/s");
    }
    const std::vector<int> crossings = table.crossings(rings.rings);
    for (std::size_t link = 0; link < crossings.size(); ++link) {
      const double load = crossings[link] * rings.gb_per_s;
      if (!(load <= table.capacity()[link] * (1 + kRounding))) {
        return concat(table.link_name(link), " carries ", load, " GB/s of ",
                      table.capacity()[link]);
      }
    }
    if (!(rings.gb_per_s <= table.limit() * (1 + kRounding))) {
      return concat("a ring runs at ", rings.gb_per_s, " GB/s, and a channel carries ",
                    table.limit());
    }
  } catch (const Error& error) {
    return error.message();
  }
  return {};
}

}  // namespace rungs::topology
