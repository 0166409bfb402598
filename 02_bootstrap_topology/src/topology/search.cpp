// The search over speeds and path types. A ring set is as good as its speed times its number of
// rings. Few fast rings cost fewer thread blocks, many slow ones use up what fast ones leave over:
// so speeds fall from what a channel can carry, and a speed is tried only if it could beat the best
// so far.
//
// NCCL tries a fixed table of speeds. Here the speeds are the quotients link ÷ crossings: at the
// best speed of any set of rings some link is full, so no other number can be optimal.
#include "topology/hops.hpp"
#include "topology/ring_search.hpp"

#include <rungs/core/error.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <set>

namespace rungs::topology {
namespace {

constexpr double kRounding = 1e-9;
// Hops tried for one speed and for all, as many as in NCCL; about a microsecond each.
constexpr long kStepsOfOneSpeed = 1L << 14;
constexpr long kStepsOfAll = 1L << 19;

constexpr std::size_t kNoLink = std::numeric_limits<std::size_t>::max();

// Whether every member reaches every other over hops of these types that avoid one link.
bool connected_without(const HopTable& table, PathType worst, std::size_t link) {
  for (const bool forward : {true, false}) {
    std::vector<bool> reached(table.size(), false);
    std::vector<std::size_t> open{0};
    reached[0] = true;
    std::size_t count = 1;
    while (!open.empty()) {
      const std::size_t from = open.back();
      open.pop_back();
      for (std::size_t to = 0; to < table.size(); ++to) {
        const Hop& hop = forward ? table.hop(from, to) : table.hop(to, from);
        const bool avoids = std::find(hop.links.begin(), hop.links.end(), link) == hop.links.end();
        if (reached[to] || hop.type > worst || !avoids) continue;
        reached[to] = true;
        open.push_back(to);
        ++count;
      }
    }
    if (count < table.size()) return false;
  }
  return true;
}

// No set of rings moves more than this: every ring leaves and enters each GPU once, and crosses
// each link without which the GPUs fall apart.
double upper_bound(const HopTable& table, PathType worst) {
  double bound = table.limit() * 1e6;
  for (std::size_t member = 0; member < table.size(); ++member) {
    std::set<std::size_t> out;
    std::set<std::size_t> in;
    for (std::size_t other = 0; other < table.size(); ++other) {
      if (other == member) continue;
      const Hop& leaving = table.hop(member, other);
      const Hop& entering = table.hop(other, member);
      if (leaving.type <= worst) out.insert(leaving.links.front());
      if (entering.type <= worst) in.insert(entering.links.back());
    }
    for (const std::set<std::size_t>& links : {out, in}) {
      double sum = 0;
      for (const std::size_t link : links) sum += table.capacity()[link];
      bound = std::min(bound, sum);
    }
  }
  for (std::size_t link = 0; link < table.capacity().size(); ++link) {
    if (table.capacity()[link] < bound && !connected_without(table, worst, link)) {
      bound = table.capacity()[link];
    }
  }
  return bound;
}

// All speeds worth a try, falling.
std::vector<double> speeds(const HopTable& table, PathType worst, std::size_t max_rings) {
  std::set<double, std::greater<>> found{table.limit()};
  std::set<double> capacities;
  for (std::size_t i = 0; i < table.size() * table.size(); ++i) {
    const Hop& hop = table.hop(i / table.size(), i % table.size());
    if (hop.type > worst) continue;
    for (const std::size_t link : hop.links) capacities.insert(table.capacity()[link]);
  }
  for (const double capacity : capacities) {
    for (std::size_t crossings = 1; crossings <= max_rings * table.size(); ++crossings) {
      const double speed = capacity / static_cast<double>(crossings);
      if (speed <= table.limit()) found.insert(speed);
    }
  }
  return {found.begin(), found.end()};
}

std::vector<PathType> types_present(const HopTable& table) {
  std::set<PathType> types;
  for (std::size_t i = 0; i < table.size(); ++i) {
    for (std::size_t j = 0; j < table.size(); ++j) {
      if (i != j) types.insert(table.hop(i, j).type);
    }
  }
  return {types.begin(), types.end()};
}

Rings to_rings(const HopTable& table, const std::vector<std::vector<std::size_t>>& found) {
  Rings rings;
  for (const std::vector<std::size_t>& members : found) {
    Ring& ring = rings.rings.emplace_back();
    for (const std::size_t member : members) ring.ranks.push_back(table.rank(member));
    ring.type = table.worst_type(members);
  }
  // The rings may leave room that the speed they were sought at did not use.
  rings.gb_per_s = table.fitting_speed(table.crossings(rings.rings));
  return rings;
}

}  // namespace

Rings search(const System& system, int max_rings) {
  RUNGS_REQUIRE(max_rings >= 1, "search: max_rings must be at least 1, got ", max_rings);
  // At worst what the naive rung has.
  Rings best = rank_order(system);
  const HopTable table(system);
  if (table.size() == 1) return best;
  long steps_of_all = kStepsOfAll;
  for (const PathType worst : types_present(table)) {
    // Nothing to find, and much to try, where such hops leave the GPUs in several parts.
    if (!connected_without(table, worst, kNoLink)) continue;
    const double bound = upper_bound(table, worst) * (1 + kRounding);
    for (const double speed : speeds(table, worst, static_cast<std::size_t>(max_rings))) {
      const double rings = std::min<double>(max_rings, std::floor(bound / speed));
      // Better by more than rounding: between equals, the better type and the faster rings stay.
      if (rings * speed <= best.total() * (1 + kRounding)) continue;
      long steps = std::min(kStepsOfOneSpeed, steps_of_all);
      const long before = steps;
      const auto found =
          RingSearch(table, {worst, speed, static_cast<std::size_t>(rings)}).run(steps);
      steps_of_all -= before - std::max(steps, 0L);
      if (found.empty()) continue;
      Rings candidate = to_rings(table, found);
      if (candidate.total() > best.total() * (1 + kRounding)) best = std::move(candidate);
    }
  }
  return best;
}

}  // namespace rungs::topology
