// `rungs topo`: a machine as a tree, the paths between its GPUs, and the rings they should use.
#include "commands.hpp"
#include "screen.hpp"

#include <fmt/format.h>
#include <rungs/core/file.hpp>
#include <rungs/topology/topology.hpp>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

namespace rungs::cli {
namespace {

using topology::Link;
using topology::LinkType;
using topology::Node;
using topology::NodeType;
using topology::Paths;
using topology::Rings;
using topology::System;

struct TopoOptions {
  std::string file;
  std::string svg;
  std::string dot;
  std::string xml;
  int rings = 16;
};

std::string rate(double gb_per_s) { return fmt::format("{:.4g}", gb_per_s); }

/// What stands behind a node's name.
std::string details(const Node& node) {
  switch (node.type) {
    case NodeType::kGpu:
      return fmt::format(
          "{}{}{}", node.id,
          node.compute_capability > 0 ? fmt::format(", sm{}", node.compute_capability) : "",
          node.rank >= 0 ? fmt::format(", rank {}", node.rank) : ", unused");
    case NodeType::kCpu:
      return node.vendor.empty() ? node.arch
                                 : fmt::format("{} {}/{}", node.vendor, node.family, node.model);
    case NodeType::kNet:
      return fmt::format("{} GB/s port", rate(node.gb_per_s));
    case NodeType::kNic:
      return node.id;
    default:
      return {};
  }
}

/// The node and what hangs below it. Children come after their parent in System::nodes.
void write_tree(const System& system, std::size_t index, const std::string& first,
                const std::string& rest) {
  const Node& node = system.nodes[index];
  const std::string more = details(node);
  write(
      fmt::format("  {}{}{}\n", first, strong(node.name), more.empty() ? "" : "  " + faint(more)));
  std::vector<const Link*> below;
  for (const Link& link : node.links) {
    const bool down = link.type == LinkType::kPci || link.type == LinkType::kNet;
    if (down && link.to > index) below.push_back(&link);
  }
  for (const Link* link : below) {
    const bool last = link == below.back();
    write_tree(system, link->to,
               fmt::format("{}{} {:>5} ", rest, last ? "└─" : "├─", rate(link->gb_per_s)),
               rest + (last ? "   " : "│  "));
  }
}

/// NVLinks and what joins the CPUs: links that are no part of the tree.
void write_other_links(const System& system) {
  std::vector<std::string> lines;
  for (std::size_t from = 0; from < system.nodes.size(); ++from) {
    for (const Link& link : system.nodes[from].links) {
      const bool tree = link.type == LinkType::kPci || link.type == LinkType::kNet;
      if (tree || link.to < from) continue;
      lines.push_back(fmt::format("{} – {}: {} {}", system.nodes[from].name,
                                  system.nodes[link.to].name, to_string(link.type),
                                  rate(link.gb_per_s)));
    }
  }
  if (lines.empty()) return;
  heading("Beside the tree");
  paragraph(fmt::format("{}", fmt::join(lines, "; ")));
}

void write_paths(const System& system, const Paths& paths) {
  const std::vector<std::size_t> gpus = system.of_type(NodeType::kGpu);
  if (gpus.size() < 2) return;
  heading("Paths between GPUs: type and GB/s");
  std::vector<std::string> headings{""};
  for (const std::size_t gpu : gpus)
    headings.push_back(fmt::format("GPU {}", system.nodes[gpu].dev));
  Table table(headings);
  for (const std::size_t from : gpus) {
    std::vector<std::string> row{fmt::format("GPU {}", system.nodes[from].dev)};
    for (const std::size_t to : gpus) {
      const topology::Path& path = paths.between(from, to);
      row.push_back(from == to ? "·"
                               : fmt::format("{} {}", to_string(path.type), rate(path.gb_per_s)));
    }
    table.add_row(std::move(row));
  }
  write_table(table, 2);
}

/// The network ports with the best path to each GPU. Where no port is known, the NICs.
void write_nics(const System& system, const Paths& paths) {
  std::vector<std::size_t> ports = system.of_type(NodeType::kNet);
  if (ports.empty()) ports = system.of_type(NodeType::kNic);
  const std::vector<std::size_t> gpus = system.of_type(NodeType::kGpu);
  if (ports.empty() || gpus.empty()) return;
  heading("Nearest network ports");
  Table table({"GPU", "ports", "path", "GB/s each"});
  for (const std::size_t gpu : gpus) {
    const auto rank = [&](std::size_t port) {
      const topology::Path& path = paths.between(gpu, port);
      return std::pair(path.type, -path.gb_per_s);
    };
    const auto best = rank(*std::min_element(ports.begin(), ports.end(),
                                             [&](auto a, auto b) { return rank(a) < rank(b); }));
    std::vector<std::string> names;
    for (const std::size_t port : ports) {
      if (rank(port) == best) names.push_back(system.nodes[port].name);
    }
    table.add_row({fmt::format("GPU {}", system.nodes[gpu].dev),
                   fmt::format("{}", fmt::join(names, ", ")), to_string(best.first),
                   rate(-best.second)});
  }
  write_table(table, 2);
}

void write_rings(const Rings& naive, const Rings& rings) {
  heading(fmt::format("Rings: {} x {} GB/s = {} GB/s (one in rank order: {} GB/s)",
                      rings.rings.size(), rate(rings.gb_per_s), rate(rings.total()),
                      rate(naive.total())));
  Table table({"rings", "worst hop", "ranks in order"});
  for (std::size_t first = 0; first < rings.rings.size();) {
    std::size_t next = first;
    while (next < rings.rings.size() && rings.rings[next].ranks == rings.rings[first].ranks) ++next;
    table.add_row({fmt::format("{}", next - first), to_string(rings.rings[first].type),
                   fmt::format("{}", fmt::join(rings.rings[first].ranks, " → "))});
    first = next;
  }
  write_table(table, 2);
}

/// A machine whose GPUs nobody has described: the file of a cloud.
bool leaves_nvlinks_to_the_driver(const System& system) {
  const std::vector<std::size_t> gpus = system.of_type(NodeType::kGpu);
  return std::all_of(gpus.begin(), gpus.end(),
                     [&](std::size_t gpu) { return system.nodes[gpu].compute_capability == 0; });
}

int topo(const TopoOptions& options) {
  const System system =
      options.file.empty() ? topology::detect() : topology::read_xml(options.file);
  heading(options.file.empty() ? "This machine" : options.file);
  paragraph("Numbers are GB/s, each way.");
  for (const std::size_t cpu : system.of_type(NodeType::kCpu)) write_tree(system, cpu, "", "");
  if (std::any_of(system.nodes.begin(), system.nodes.end(),
                  [](const Node& node) { return node.emulated; })) {
    paragraph("The GPUs are emulated; their places and lanes are invented.");
  }
  write_other_links(system);
  const Paths paths(system);
  write_paths(system, paths);
  write_nics(system, paths);
  Rings rings;
  if (system.ranks().empty()) {
    heading("Rings: none, since there is no GPU");
  } else {
    rings = topology::search(system, options.rings);
    write_rings(topology::rank_order(system), rings);
    if (leaves_nvlinks_to_the_driver(system)) {
      paragraph(
          "The file describes no GPU and no NVLink (NCCL asks the driver for both), so these "
          "rings use PCIe only. data/topologies has full descriptions.");
    }
  }
  const auto save = [](const std::string& path, const std::string& text) {
    if (path.empty()) return;
    file::write_atomic(path, text);
    paragraph("written: " + path);
  };
  save(options.svg, options.svg.empty() ? "" : to_svg(system, rings));
  save(options.dot, options.dot.empty() ? "" : to_dot(system, rings));
  save(options.xml, options.xml.empty() ? "" : to_xml(system));
  return 0;
}

}  // namespace

void add_topo(CLI::App& program, Action& chosen) {
  auto options = std::make_shared<TopoOptions>();
  CLI::App* command = program.add_subcommand(
      "topo", "Show a machine's GPUs, NICs and links, and the rings its ranks should use");
  command->add_option("file", options->file,
                      "A description in NCCL's XML schema; nothing: this machine");
  command->add_option("--svg", options->svg, "Write a picture to this file");
  command->add_option("--dot", options->dot, "Write the graph for Graphviz to this file");
  command->add_option("--xml", options->xml, "Write the description to this file");
  command->add_option("--rings", options->rings, "Look for at most so many rings")
      ->check(between(1, 64))
      ->capture_default_str();
  command->footer("Example: rungs topo data/topologies/azure-ndv5-8xH100.xml --svg h100.svg");
  command->callback([options, &chosen] { chosen = [options] { return topo(*options); }; });
}

}  // namespace rungs::cli
