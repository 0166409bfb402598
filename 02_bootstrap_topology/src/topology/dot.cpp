#include "topology/graph.hpp"
#include "topology/pictures.hpp"

#include <rungs/core/error.hpp>
#include <rungs/topology/topology.hpp>

#include <sstream>

namespace rungs::topology {
namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + "\"";
}

const char* style(LinkType type) {
  switch (type) {
    case LinkType::kNvLink:
    case LinkType::kC2c:
      return "color=\"#5a8f00\", penwidth=3";
    case LinkType::kSystem:
      return "color=\"#b05010\", penwidth=2";
    case LinkType::kNet:
      return "color=\"#0b62c4\"";
    case LinkType::kPci:
      break;
  }
  return "color=\"#777777\"";
}

}  // namespace

std::string to_dot(const System& system, const Rings& rings) {
  std::ostringstream out;
  out << "digraph machine {\n  rankdir=TB;\n  node [shape=box, style=rounded];\n";
  for (std::size_t i = 0; i < system.nodes.size(); ++i) {
    const Node& node = system.nodes[i];
    out << "  n" << i << " [label=" << quoted(node.name);
    if (node.type == NodeType::kGpu) out << ", style=\"rounded,filled\", fillcolor=\"#e2f0c8\"";
    out << "];\n";
  }
  for (std::size_t from = 0; from < system.nodes.size(); ++from) {
    for (const Link& link : system.nodes[from].links) {
      // Both directions are one edge where they carry the same.
      const Link* back = nullptr;
      for (const Link& other : system.nodes[link.to].links) {
        if (other.to == from && other.type == link.type) back = &other;
      }
      const bool symmetric = back != nullptr && back->gb_per_s == link.gb_per_s;
      if (symmetric && link.to < from) continue;
      out << "  n" << from << " -> n" << link.to << " [label=\"" << to_string(link.type) << " "
          << short_number(link.gb_per_s) << "\", " << style(link.type)
          << (symmetric ? ", dir=both" : "") << "];\n";
    }
  }
  std::size_t colour_index = 0;
  for (const RingGroup& group : grouped(rings)) {
    const std::string_view colour = kRingColours[colour_index++ % kRingColours.size()];
    const std::vector<int>& ranks = group.ring.ranks;
    const std::vector<std::size_t> gpus = system.ranks();
    const auto node_of = [&](int rank) {
      for (const std::size_t gpu : gpus) {
        if (system.nodes[gpu].rank == rank) return gpu;
      }
      RUNGS_THROW(kInvalidArgument, "to_dot: a ring names rank ", rank, ", which no GPU has");
    };
    for (std::size_t i = 0; i < ranks.size() && ranks.size() > 1; ++i) {
      out << "  n" << node_of(ranks[i]) << " -> n" << node_of(ranks[(i + 1) % ranks.size()])
          << " [color=\"" << colour << "\", style=dashed, constraint=false";
      if (i == 0) {
        out << ", label=\"" << group.count << " x " << short_number(rings.gb_per_s) << "\"";
      }
      out << "];\n";
    }
  }
  out << "}\n";
  return out.str();
}

}  // namespace rungs::topology
