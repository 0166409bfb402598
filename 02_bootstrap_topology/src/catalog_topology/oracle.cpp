#include "catalog_topology/oracle.hpp"

#include <rungs/core/error.hpp>

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>

namespace rungs::topology {
namespace {

constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

bool is(const System& system, std::size_t node, NodeType type) {
  return system.nodes[node].type == type;
}

// The schema's rules for one step.
PathType step_type(const System& system, std::size_t from, const Link& link) {
  if (link.type == LinkType::kNvLink) return PathType::kNvl;
  if (link.type == LinkType::kC2c) return PathType::kC2c;
  if (link.type == LinkType::kSystem) return PathType::kSys;
  if (link.type == LinkType::kNet) return PathType::kLocal;
  const bool cpu = is(system, from, NodeType::kCpu) || is(system, link.to, NodeType::kCpu);
  const bool two = is(system, from, NodeType::kPci) && is(system, link.to, NodeType::kPci);
  return cpu ? PathType::kPhb : two ? PathType::kPxb : PathType::kPix;
}

double limit_of(int capability) { return capability >= 100 ? 90 : capability >= 90 ? 60 : 40; }

bool is_better(const Path& a, const Path& b) {
  if (a.type != b.type) return a.type < b.type;
  if (a.gb_per_s != b.gb_per_s) return a.gb_per_s > b.gb_per_s;
  if (a.nodes.size() != b.nodes.size()) return a.nodes.size() < b.nodes.size();
  return a.nodes < b.nodes;
}

}  // namespace

Oracle::Oracle(const System& system) : system_(system) {
  for (std::size_t i = 0; i < system.nodes.size(); ++i) {
    if (is(system, i, NodeType::kGpu) && system.nodes[i].rank >= 0) gpus_.push_back(i);
  }
  std::sort(gpus_.begin(), gpus_.end(), [&](std::size_t a, std::size_t b) {
    return system.nodes[a].rank < system.nodes[b].rank;
  });
  channel_ = std::numeric_limits<double>::infinity();
  for (const std::size_t gpu : gpus_) {
    channel_ = std::min(channel_, limit_of(system.nodes[gpu].compute_capability));
  }
  pair_of_.assign(system.nodes.size() * system.nodes.size(), kNone);
  for (const std::size_t from : gpus_) {
    for (const std::size_t to : gpus_) {
      const Path& path = hops_.emplace_back(best_path(from, to));
      for (std::size_t i = 0; i + 1 < path.nodes.size(); ++i) {
        std::size_t& pair = pair_of_[path.nodes[i] * system.nodes.size() + path.nodes[i + 1]];
        if (pair != kNone) continue;
        pair = capacities_.size();
        double widest = 0;
        for (const Link& link : system.nodes[path.nodes[i]].links) {
          if (link.to == path.nodes[i + 1]) widest = std::max(widest, link.gb_per_s);
        }
        capacities_.push_back(widest);
      }
    }
  }
}

Path Oracle::best_path(std::size_t from, std::size_t to) const {
  if (from == to) return {PathType::kLocal, 5000, {from}};
  Path best;
  std::vector<std::size_t> nodes{from};
  walk(nodes, PathType::kLocal, 5000, to, best);
  return best;
}

// Depth first over every simple path; one that has already become worse than the best is left.
void Oracle::walk(std::vector<std::size_t>& nodes, PathType worst, double width, std::size_t to,
                  Path& best) const {
  const std::size_t at = nodes.back();
  if (at == to) {
    std::vector<std::size_t> between;
    for (std::size_t i = 1; i + 1 < nodes.size(); ++i) {
      if (is(system_, nodes[i], NodeType::kNet)) return;
      if (is(system_, nodes[i], NodeType::kGpu)) between.push_back(i);
    }
    if (between.size() > 1) return;
    if (between.size() == 1) {
      // Over a GPU: NVLink on one side of it; on the other NVLink to a GPU, or PCI to a near NIC.
      const std::size_t over = between.front();
      const auto side = [&](std::size_t first, std::size_t last) {
        PathType type = PathType::kLocal;
        for (std::size_t i = first; i < last; ++i) {
          PathType step = PathType::kNone;
          for (const Link& link : system_.nodes[nodes[i]].links) {
            if (link.to == nodes[i + 1]) step = std::min(step, step_type(system_, nodes[i], link));
          }
          type = std::max(type, step);
        }
        return type;
      };
      const PathType before = side(0, over);
      const PathType after = side(over, nodes.size() - 1);
      const auto is_network = [&](std::size_t node) {
        return is(system_, node, NodeType::kNic) || is(system_, node, NodeType::kNet);
      };
      const bool starts = is(system_, nodes.front(), NodeType::kGpu);
      const bool ends = is(system_, to, NodeType::kGpu);
      if (starts && ends && before == PathType::kNvl && after == PathType::kNvl) {
        worst = PathType::kNvb;
      } else if ((starts && is_network(to) && before == PathType::kNvl &&
                  after <= PathType::kPxb) ||
                 (is_network(nodes.front()) && ends && after == PathType::kNvl &&
                  before <= PathType::kPxb)) {
        worst = PathType::kPxn;
      } else {
        return;
      }
    }
    const Path path{worst, width, nodes};
    if (is_better(path, best)) best = path;
    return;
  }
  const auto passed = std::count_if(nodes.begin() + 1, nodes.end(), [&](std::size_t node) {
    return is(system_, node, NodeType::kGpu);
  });
  if (passed > 1) return;
  for (const Link& link : system_.nodes[at].links) {
    if (std::find(nodes.begin(), nodes.end(), link.to) != nodes.end()) continue;
    const PathType type = std::max(worst, step_type(system_, at, link));
    if (type > best.type) continue;
    nodes.push_back(link.to);
    walk(nodes, type, std::min(width, link.gb_per_s), to, best);
    nodes.pop_back();
  }
}

std::string Oracle::broken(const Rings& rings) const {
  std::multiset<int> wanted;
  for (const std::size_t gpu : gpus_) wanted.insert(system_.nodes[gpu].rank);
  if (rings.rings.empty()) return "no ring";
  for (const Ring& ring : rings.rings) {
    if (std::multiset<int>(ring.ranks.begin(), ring.ranks.end()) != wanted) {
      return "a ring does not visit every rank once";
    }
  }
  return {};
}

Oracle::Crossings Oracle::crossings(const std::vector<int>& ranks) const {
  Crossings count(capacities_.size(), 0);
  const auto index = [&](int rank) {
    std::size_t i = 0;
    while (system_.nodes[gpus_.at(i)].rank != rank) ++i;
    return i;
  };
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const Path& hop = hops_[index(ranks[i]) * gpus_.size() + index(ranks[(i + 1) % ranks.size()])];
    for (std::size_t step = 0; step + 1 < hop.nodes.size(); ++step) {
      ++count[pair_of_[hop.nodes[step] * system_.nodes.size() + hop.nodes[step + 1]]];
    }
  }
  return count;
}

double Oracle::speed(const Crossings& crossings) const {
  double slowest = channel_;
  for (std::size_t i = 0; i < crossings.size(); ++i) {
    if (crossings[i] > 0) slowest = std::min(slowest, capacities_[i] / crossings[i]);
  }
  return slowest;
}

double Oracle::carried(const Rings& rings) const {
  Crossings sum(capacities_.size(), 0);
  for (const Ring& ring : rings.rings) {
    const Crossings one = crossings(ring.ranks);
    std::transform(sum.begin(), sum.end(), one.begin(), sum.begin(), std::plus<>());
  }
  return speed(sum);
}

double Oracle::optimum(int most_rings) const {
  std::vector<int> ranks;
  for (const std::size_t gpu : gpus_) ranks.push_back(system_.nodes[gpu].rank);
  std::vector<Crossings> orders;
  do {
    orders.push_back(crossings(ranks));
  } while (ranks.size() > 1 && std::next_permutation(ranks.begin() + 1, ranks.end()));
  Crossings sum(capacities_.size(), 0);
  double best = 0;
  try_sets(orders, 0, 0, most_rings, sum, best);
  return best;
}

void Oracle::try_sets(const std::vector<Crossings>& orders, std::size_t first, int placed, int most,
                      Crossings& sum, double& best) const {
  best = std::max(best, placed * speed(sum));
  if (placed == most) return;
  for (std::size_t i = first; i < orders.size(); ++i) {
    std::transform(sum.begin(), sum.end(), orders[i].begin(), sum.begin(), std::plus<>());
    try_sets(orders, i, placed + 1, most, sum, best);
    std::transform(sum.begin(), sum.end(), orders[i].begin(), sum.begin(), std::minus<>());
  }
}

double Oracle::at_most() const {
  double least = std::numeric_limits<double>::infinity();
  for (const std::size_t gpu : gpus_) {
    double out = 0;
    for (const Link& link : system_.nodes[gpu].links) out += link.gb_per_s;
    least = std::min(least, out);
  }
  return least;
}

}  // namespace rungs::topology
