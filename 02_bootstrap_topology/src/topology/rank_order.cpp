// The naive rung: whatever lies between the GPUs, data goes from rank to rank.
#include "topology/hops.hpp"

#include <numeric>

namespace rungs::topology {

Rings rank_order(const System& system) {
  const HopTable table(system);
  std::vector<std::size_t> members(table.size());
  std::iota(members.begin(), members.end(), std::size_t{0});
  Ring ring;
  for (const std::size_t member : members) ring.ranks.push_back(table.rank(member));
  ring.type = table.worst_type(members);
  Rings rings;
  rings.rings.push_back(std::move(ring));
  rings.gb_per_s = table.fitting_speed(table.crossings(rings.rings));
  return rings;
}

}  // namespace rungs::topology
