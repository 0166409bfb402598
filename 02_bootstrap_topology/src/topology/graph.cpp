#include "topology/graph.hpp"

#include "topology/constants.hpp"

namespace rungs::topology {

void connect_one_way(System& system, std::size_t from, std::size_t to, LinkType type,
                     double gb_per_s) {
  for (Link& link : system.nodes[from].links) {
    if (link.to == to && link.type == type) {
      link.gb_per_s += gb_per_s;
      return;
    }
  }
  system.nodes[from].links.push_back({to, type, gb_per_s});
}

void connect(System& system, std::size_t a, std::size_t b, LinkType type, double gb_per_s) {
  connect_one_way(system, a, b, type, gb_per_s);
  connect_one_way(system, b, a, type, gb_per_s);
}

void connect_cpus(System& system) {
  const std::vector<std::size_t> cpus = system.of_type(NodeType::kCpu);
  for (const std::size_t from : cpus) {
    const Node& cpu = system.nodes[from];
    const double gb_per_s = cpu_gb_per_s(cpu.arch, cpu.vendor, cpu.family, cpu.model);
    for (const std::size_t to : cpus) {
      if (to != from) connect_one_way(system, from, to, LinkType::kSystem, gb_per_s);
    }
  }
}

const Link* find_link(const System& system, std::size_t from, std::size_t to) {
  const Link* widest = nullptr;
  for (const Link& link : system.nodes[from].links) {
    if (link.to == to && (widest == nullptr || link.gb_per_s > widest->gb_per_s)) widest = &link;
  }
  return widest;
}

std::size_t pci_parent(const System& system, std::size_t node) {
  if (system.nodes[node].type == NodeType::kCpu) return node;
  // A child is always made after its parent, so the parent has the lower index.
  for (const Link& link : system.nodes[node].links) {
    const bool up = link.type == LinkType::kPci || link.type == LinkType::kNet;
    if (up && link.to < node) return link.to;
  }
  return node;
}

std::size_t cpu_of(const System& system, std::size_t node) {
  for (std::size_t at = node;;) {
    if (system.nodes[at].type == NodeType::kCpu) return at;
    const std::size_t up = pci_parent(system, at);
    if (up == at) return node;
    at = up;
  }
}

}  // namespace rungs::topology
