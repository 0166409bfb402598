// Typed widest paths. "Better type first" does not decompose: the best way to a place need not
// begin with the best way to a place before it (a wide detour of a worse type may pay off once a
// later link is of that type anyway). So the three wishes are met one after another, each exactly:
//   1. type: admit links type by type, best first, until the target is in reach
//   2. bandwidth: among these links, the widest path (Dijkstra's algorithm with min for +)
//   3. hops: among links at least that wide, breadth first, neighbours by index
// Paths over a GPU are compositions of two such paths and compared last: NVB for GPU pairs that
// NVLink does not join, PXN for GPUs that are far from a NIC.
#include "topology/constants.hpp"
#include "topology/graph.hpp"

#include <rungs/core/error.hpp>
#include <rungs/topology/topology.hpp>

#include <algorithm>
#include <array>
#include <limits>
#include <queue>
#include <utility>

namespace rungs::topology {
namespace {

constexpr std::size_t kNowhere = std::numeric_limits<std::size_t>::max();

// What crossing one link makes of a path.
PathType type_of(const Node& from, const Link& link, const Node& to) {
  switch (link.type) {
    case LinkType::kNvLink:
      return PathType::kNvl;
    case LinkType::kC2c:
      return PathType::kC2c;
    case LinkType::kSystem:
      return PathType::kSys;
    case LinkType::kNet:
      return PathType::kLocal;  // between a NIC and its port
    case LinkType::kPci:
      break;
  }
  if (from.type == NodeType::kCpu || to.type == NodeType::kCpu) return PathType::kPhb;
  if (from.type == NodeType::kPci && to.type == NodeType::kPci) return PathType::kPxb;
  return PathType::kPix;
}

struct Edge {
  std::size_t to;
  PathType type;
  double gb_per_s;
};

// All simple paths from one node that pass through no GPU.
class FromOne {
 public:
  FromOne(const System& system, const std::vector<std::vector<Edge>>& edges, std::size_t source,
          Path* paths)
      : system_(system),
        edges_(edges),
        source_(source),
        paths_(paths) {}

  void run() {
    paths_[source_] = {PathType::kLocal, kUnlimitedGbPerS, {source_}};
    for (const PathType admitted :
         {PathType::kLocal, PathType::kNvl, PathType::kC2c, PathType::kPix, PathType::kPxb,
          PathType::kPhb, PathType::kSys}) {
      const std::vector<double> width = widest(admitted);
      for (std::size_t to = 0; to < width.size(); ++to) {
        if (width[to] == 0 || paths_[to].type != PathType::kNone) continue;
        paths_[to] = {admitted, width[to], fewest_hops(admitted, width[to], to)};
      }
    }
  }

 private:
  // Data that enters a GPU or a port stays there.
  bool ends(std::size_t node) const {
    const NodeType type = system_.nodes[node].type;
    return node != source_ && (type == NodeType::kGpu || type == NodeType::kNet);
  }

  std::vector<double> widest(PathType admitted) const {
    std::vector<double> width(edges_.size(), 0);
    std::priority_queue<std::pair<double, std::size_t>> open;
    width[source_] = kUnlimitedGbPerS;
    open.emplace(width[source_], source_);
    while (!open.empty()) {
      const auto [reached, node] = open.top();
      open.pop();
      if (reached < width[node] || ends(node)) continue;
      for (const Edge& edge : edges_[node]) {
        const double next = std::min(reached, edge.gb_per_s);
        if (edge.type > admitted || next <= width[edge.to]) continue;
        width[edge.to] = next;
        open.emplace(next, edge.to);
      }
    }
    return width;
  }

  std::vector<std::size_t> fewest_hops(PathType admitted, double width, std::size_t to) const {
    std::vector<std::size_t> before(edges_.size(), kNowhere);
    std::queue<std::size_t> open;
    before[source_] = source_;
    open.push(source_);
    while (before[to] == kNowhere) {
      const std::size_t node = open.front();
      open.pop();
      if (ends(node)) continue;
      for (const Edge& edge : edges_[node]) {
        if (edge.type > admitted || edge.gb_per_s < width || before[edge.to] != kNowhere) continue;
        before[edge.to] = node;
        open.push(edge.to);
      }
    }
    std::vector<std::size_t> nodes{to};
    while (nodes.back() != source_) nodes.push_back(before[nodes.back()]);
    std::reverse(nodes.begin(), nodes.end());
    return nodes;
  }

  const System& system_;
  const std::vector<std::vector<Edge>>& edges_;
  std::size_t source_;
  Path* paths_;
};

// Two paths that meet.
Path join(PathType type, const Path& first, const Path& second) {
  Path path{type, std::min(first.gb_per_s, second.gb_per_s), first.nodes};
  path.nodes.insert(path.nodes.end(), second.nodes.begin() + 1, second.nodes.end());
  return path;
}

bool better(const Path& a, const Path& b) {
  if (a.type != b.type) return a.type < b.type;
  if (a.gb_per_s != b.gb_per_s) return a.gb_per_s > b.gb_per_s;
  if (a.nodes.size() != b.nodes.size()) return a.nodes.size() < b.nodes.size();
  return a.nodes < b.nodes;
}

}  // namespace

Paths::Paths(const System& system) : count_(system.nodes.size()), paths_(count_ * count_) {
  std::vector<std::vector<Edge>> edges(count_);
  for (std::size_t from = 0; from < count_; ++from) {
    for (const Link& link : system.nodes[from].links) {
      RUNGS_REQUIRE(link.to < count_ && link.to != from, "Paths: node ", from,
                    " has a link to node ", link.to, " of ", count_);
      edges[from].push_back(
          {link.to, type_of(system.nodes[from], link, system.nodes[link.to]), link.gb_per_s});
    }
    // Ties are settled by index, whatever the order of the description.
    std::stable_sort(edges[from].begin(), edges[from].end(),
                     [](const Edge& a, const Edge& b) { return a.to < b.to; });
  }
  for (std::size_t from = 0; from < count_; ++from) {
    FromOne(system, edges, from, &paths_[from * count_]).run();
  }

  const std::vector<Path> direct = paths_;
  const auto at = [&](std::size_t from, std::size_t to) -> const Path& {
    return direct[from * count_ + to];
  };
  const auto offer = [&](std::size_t from, std::size_t to, const Path& path) {
    Path& best = paths_[from * count_ + to];
    if (better(path, best)) best = path;
  };
  const std::vector<std::size_t> gpus = system.of_type(NodeType::kGpu);
  for (const std::size_t from : gpus) {
    for (const std::size_t over : gpus) {
      if (over == from || at(from, over).type != PathType::kNvl) continue;
      for (std::size_t to = 0; to < count_; ++to) {
        const NodeType kind = system.nodes[to].type;
        if (to == from || to == over) continue;
        if (kind == NodeType::kGpu && at(over, to).type == PathType::kNvl) {
          offer(from, to, join(PathType::kNvb, at(from, over), at(over, to)));
        }
        const bool is_network = kind == NodeType::kNic || kind == NodeType::kNet;
        if (is_network && at(over, to).type <= PathType::kPxb) {
          offer(from, to, join(PathType::kPxn, at(from, over), at(over, to)));
          // The way in: its link directions are the other ones.
          if (at(to, over).type <= PathType::kPxb && at(over, from).type == PathType::kNvl) {
            offer(to, from, join(PathType::kPxn, at(to, over), at(over, from)));
          }
        }
      }
    }
  }
}

const Path& Paths::between(std::size_t from, std::size_t to) const {
  RUNGS_REQUIRE(from < count_ && to < count_, "Paths: no node ", std::max(from, to), " of ",
                count_);
  return paths_[from * count_ + to];
}

}  // namespace rungs::topology
