#include "topology/graph.hpp"
#include "topology/layout.hpp"
#include "topology/pictures.hpp"

#include <rungs/core/error.hpp>
#include <rungs/topology/topology.hpp>

#include <algorithm>

namespace rungs::topology {
namespace {

// Longer names would run into their neighbours.
std::string shortened(const std::string& text, std::size_t most) {
  return text.size() <= most ? text : text.substr(0, most - 2) + "..";
}

std::string second_line(const System& system, const Node& node) {
  switch (node.type) {
    case NodeType::kGpu:
      return concat(node.rank < 0 ? std::string("unused") : concat("rank ", node.rank),
                    node.compute_capability > 0 ? concat(" · sm", node.compute_capability) : "");
    case NodeType::kCpu:
      return node.vendor.empty() ? node.arch : node.vendor;
    case NodeType::kPci:
      return node.id;
    case NodeType::kNic: {
      double sum = 0;
      for (const Link& link : node.links) {
        if (link.type == LinkType::kNet) sum += system.nodes[link.to].gb_per_s;
      }
      return sum > 0 ? short_number(sum) + " GB/s" : node.id;
    }
    default:
      return {};
  }
}

void draw_node(Canvas& canvas, const System& system, const Layout& layout, std::size_t index) {
  const Node& node = system.nodes[index];
  const Box& box = layout.box(index);
  std::string_view fill = "#eeeeee";
  if (node.type == NodeType::kGpu) fill = "#e2f0c8";
  if (node.type == NodeType::kNic) fill = "#dbe9fa";
  if (node.type == NodeType::kCpu) fill = "#fbe6d4";
  canvas.rectangle(box, fill, "#444444");
  const std::string name = node.type == NodeType::kPci ? "PCIe switch"
                           : node.emulated             ? concat("GPU ", node.dev, " (emul.)")
                                                       : node.name;
  canvas.text({box.middle(), box.y + 17}, shortened(name, 13), 12, Anchor::kMiddle);
  canvas.text({box.middle(), box.y + 32}, shortened(second_line(system, node), 14), 10,
              Anchor::kMiddle, "#555555");
}

// From the parent down to a common height, across, and down to the child; its bandwidth beside it.
void draw_pci_link(Canvas& canvas, const Layout& layout, std::size_t parent, std::size_t child,
                   double gb_per_s) {
  const Box& above = layout.box(parent);
  const Box& below = layout.box(child);
  const double turn = above.bottom() + 16;
  canvas.path(concat("M", above.middle(), ",", above.bottom(), " V", turn, " H", below.middle(),
                     " V", below.y),
              kPciColour, 1.6);
  canvas.text({below.middle() + 5, below.y - 6}, short_number(gb_per_s), 10, Anchor::kStart,
              kPciColour);
}

void draw_between_cpus(Canvas& canvas, const System& system, const Layout& layout) {
  const std::vector<std::size_t> cpus = system.of_type(NodeType::kCpu);
  if (cpus.size() < 2) return;
  double least = 0;
  double most = 0;
  for (const std::size_t cpu : cpus) {
    for (const Link& link : system.nodes[cpu].links) {
      if (link.type != LinkType::kSystem) continue;
      least = least == 0 ? link.gb_per_s : std::min(least, link.gb_per_s);
      most = std::max(most, link.gb_per_s);
    }
  }
  const double y = Layout::kTop - 22;
  const double left = layout.box(cpus.front()).middle();
  const double right = layout.box(cpus.back()).middle();
  canvas.line({left, y}, {right, y}, kSystemColour, 3);
  for (const std::size_t cpu : cpus) {
    const Box& box = layout.box(cpu);
    canvas.line({box.middle(), y}, {box.middle(), box.y}, kSystemColour, 3);
  }
  canvas.text({(left + right) / 2, y - 7},
              concat("SYS ", short_number(least),
                     least == most ? std::string() : concat(" to ", short_number(most)),
                     " between any two"),
              10, Anchor::kMiddle, kSystemColour);
}

std::string count_of(const System& system, NodeType type, const char* one, const char* many) {
  const std::size_t count = system.of_type(type).size();
  return concat(count, " ", count == 1 ? one : many);
}

}  // namespace

void draw_machine(Canvas& canvas, const System& system, const Layout& layout) {
  draw_between_cpus(canvas, system, layout);
  for (std::size_t parent = 0; parent < system.nodes.size(); ++parent) {
    for (const Link& link : system.nodes[parent].links) {
      const bool down = link.type == LinkType::kPci && pci_parent(system, link.to) == parent;
      if (down) draw_pci_link(canvas, layout, parent, link.to, link.gb_per_s);
      if (link.type != LinkType::kC2c || system.nodes[parent].type != NodeType::kGpu) continue;
      const Box& gpu = layout.box(parent);
      const Box& cpu = layout.box(link.to);
      canvas.path(concat("M", gpu.x + 14, ",", gpu.y, " V", cpu.bottom() + 10, " H",
                         cpu.x + cpu.width / 4, " V", cpu.bottom()),
                  kNvLinkColour, 2.5);
      canvas.text({gpu.x + 10, gpu.y - 6}, "C2C " + short_number(link.gb_per_s), 10, Anchor::kEnd,
                  kNvLinkColour);
    }
  }
  for (std::size_t i = 0; i < system.nodes.size(); ++i) {
    const NodeType type = system.nodes[i].type;
    if (type != NodeType::kNet && type != NodeType::kNvSwitch) {
      draw_node(canvas, system, layout, i);
    }
  }
}

std::string to_svg(const System& system, const Rings& rings) {
  const Layout layout(system);
  const std::string title =
      concat(count_of(system, NodeType::kGpu, "GPU", "GPUs"), ", ",
             count_of(system, NodeType::kCpu, "CPU (NUMA node)", "CPUs (NUMA nodes)"), ", ",
             count_of(system, NodeType::kNic, "NIC", "NICs"));
  Canvas canvas;
  canvas.text({Layout::kMargin, 30}, title, 16, Anchor::kStart);
  canvas.text({Layout::kMargin, 48}, "numbers are GB/s, each way", 10, Anchor::kStart, "#555555");
  draw_machine(canvas, system, layout);
  double bottom = draw_nvlinks(canvas, system, layout);
  bottom = draw_rings(canvas, system, layout, rings, bottom + 30);
  return canvas.document(std::max(layout.width(), 560.0), bottom + Layout::kMargin, title);
}

}  // namespace rungs::topology
