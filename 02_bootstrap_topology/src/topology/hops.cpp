#include "topology/hops.hpp"

#include "topology/graph.hpp"

#include <rungs/core/error.hpp>

#include <algorithm>
#include <map>
#include <utility>

namespace rungs::topology {

HopTable::HopTable(const System& system) {
  const std::vector<std::size_t> gpus = system.ranks();
  RUNGS_REQUIRE(!gpus.empty(), "topology: this system has no GPU with a rank");
  limit_ = channel_limit(system.nodes[gpus.front()].compute_capability);
  for (const std::size_t gpu : gpus) {
    ranks_.push_back(system.nodes[gpu].rank);
    limit_ = std::min(limit_, channel_limit(system.nodes[gpu].compute_capability));
  }
  const Paths paths(system);
  std::map<std::pair<std::size_t, std::size_t>, std::size_t> known;
  hops_.resize(gpus.size() * gpus.size());
  for (std::size_t i = 0; i < hops_.size(); ++i) {
    const std::size_t from = gpus[i / gpus.size()];
    const std::size_t to = gpus[i % gpus.size()];
    const Path& path = paths.between(from, to);
    RUNGS_REQUIRE(path.type != PathType::kNone, "topology: no path from ", system.nodes[from].name,
                  " to ", system.nodes[to].name);
    hops_[i].type = path.type;
    for (std::size_t step = 0; step + 1 < path.nodes.size(); ++step) {
      const std::pair ends(path.nodes[step], path.nodes[step + 1]);
      const auto [entry, is_new] = known.emplace(ends, capacity_.size());
      if (is_new) {
        capacity_.push_back(find_link(system, ends.first, ends.second)->gb_per_s);
        names_.push_back(
            concat(system.nodes[ends.first].name, " -> ", system.nodes[ends.second].name));
      }
      hops_[i].links.push_back(entry->second);
    }
  }
}

std::vector<int> HopTable::crossings(const std::vector<Ring>& rings) const {
  std::vector<int> count(capacity_.size(), 0);
  for (const Ring& ring : rings) {
    std::vector<std::size_t> members;
    for (const int rank : ring.ranks) {
      const auto found = std::lower_bound(ranks_.begin(), ranks_.end(), rank);
      RUNGS_REQUIRE(found != ranks_.end() && *found == rank, "a ring names rank ", rank,
                    ", which no GPU has");
      members.push_back(static_cast<std::size_t>(found - ranks_.begin()));
    }
    std::vector<bool> seen(size(), false);
    for (const std::size_t member : members) {
      RUNGS_REQUIRE(!seen[member], "a ring visits rank ", ranks_[member], " twice");
      seen[member] = true;
    }
    RUNGS_REQUIRE(members.size() == size(), "a ring visits ", members.size(), " of ", size(),
                  " ranks");
    for (std::size_t i = 0; i < members.size(); ++i) {
      for (const std::size_t link : hop(members[i], members[(i + 1) % members.size()]).links) {
        ++count[link];
      }
    }
  }
  return count;
}

double HopTable::fitting_speed(const std::vector<int>& crossings) const {
  double speed = limit_;
  for (std::size_t link = 0; link < crossings.size(); ++link) {
    if (crossings[link] > 0) speed = std::min(speed, capacity_[link] / crossings[link]);
  }
  return speed;
}

PathType HopTable::worst_type(const std::vector<std::size_t>& members) const {
  PathType worst = PathType::kLocal;
  for (std::size_t i = 0; i < members.size(); ++i) {
    worst = std::max(worst, hop(members[i], members[(i + 1) % members.size()]).type);
  }
  return worst;
}

}  // namespace rungs::topology
