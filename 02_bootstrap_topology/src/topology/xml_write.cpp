#include "topology/constants.hpp"
#include "topology/graph.hpp"

#include <rungs/core/error.hpp>
#include <rungs/topology/topology.hpp>

#include <array>
#include <cmath>
#include <pugixml.hpp>
#include <sstream>
#include <vector>

namespace rungs::topology {
namespace {

void set(pugi::xml_node element, const char* attribute, const std::string& value) {
  element.append_attribute(attribute) = value.c_str();
}
void set(pugi::xml_node element, const char* attribute, int value) {
  element.append_attribute(attribute) = value;
}

class Writer {
 public:
  explicit Writer(const System& system) : system_(system), written_(system.nodes.size(), false) {}

  std::string run() {
    pugi::xml_node root = document_.append_child("system");
    set(root, "version", 1);
    for (const std::size_t cpu : system_.of_type(NodeType::kCpu)) write_cpu(root, cpu);
    for (std::size_t i = 0; i < written_.size(); ++i) {
      const Node& node = system_.nodes[i];
      RUNGS_REQUIRE(written_[i] || node.type == NodeType::kNvSwitch,
                    "to_xml: ", to_string(node.type), " '", node.name, "' hangs on no CPU by PCI");
    }
    std::ostringstream text;
    document_.save(text, "  ", pugi::format_indent | pugi::format_no_declaration);
    return text.str();
  }

 private:
  void write_cpu(pugi::xml_node root, std::size_t index) {
    const Node& cpu = system_.nodes[index];
    pugi::xml_node element = root.append_child("cpu");
    set(element, "numaid", cpu.numa);
    if (!cpu.affinity.empty()) set(element, "affinity", cpu.affinity);
    set(element, "arch", cpu.arch);
    if (!cpu.vendor.empty()) set(element, "vendor", cpu.vendor);
    if (cpu.family >= 0) set(element, "familyid", cpu.family);
    if (cpu.model >= 0) set(element, "modelid", cpu.model);
    const double expected = cpu_gb_per_s(cpu.arch, cpu.vendor, cpu.family, cpu.model);
    for (const Link& link : cpu.links) {
      RUNGS_REQUIRE(link.type != LinkType::kSystem || link.gb_per_s == expected, "to_xml: '",
                    cpu.name, "' has a link of ", link.gb_per_s, " GB/s to another CPU, but its ",
                    "generation has ", expected, ", and a description holds no other number");
    }
    written_[index] = true;
    write_children(element, index);
  }

  void write_children(pugi::xml_node element, std::size_t parent) {
    for (const Link& link : system_.nodes[parent].links) {
      if (link.type == LinkType::kPci && pci_parent(system_, link.to) == parent) {
        write_device(element, link.to, link.gb_per_s);
      }
    }
  }

  void write_device(pugi::xml_node parent, std::size_t index, double gb_per_s) {
    const Node& node = system_.nodes[index];
    RUNGS_REQUIRE(!written_[index], "to_xml: '", node.name, "' hangs on two parents");
    written_[index] = true;
    if (node.type == NodeType::kNic && gb_per_s == kUnlimitedGbPerS) {
      return write_nic(parent.append_child("nic"), index);
    }
    pugi::xml_node element = parent.append_child("pci");
    set(element, "busid", node.id);
    const std::string_view usual = node.type == NodeType::kGpu   ? kGpuClass
                                   : node.type == NodeType::kNic ? std::string_view("0x020000")
                                                                 : kBridgeClass;
    set(element, "class", node.pci_class.empty() ? std::string(usual) : node.pci_class);
    set_speed(element, node, gb_per_s);
    if (node.type == NodeType::kGpu) return write_gpu(element.append_child("gpu"), node);
    if (node.type != NodeType::kNic) return write_children(element, index);
    // Without a <nic> inside, a network device is one that nobody uses.
    if (node.links.size() > 1) write_nic(element.append_child("nic"), index);
  }

  static void set_speed(pugi::xml_node element, const Node& node, double gb_per_s) {
    // Several widths may give the same: the usual ones first, then down from the widest.
    std::vector<int> widths{16, 8, 4, 2, 1};
    for (int width = 32; width > 0; --width) widths.push_back(width);
    for (const int width : widths) {
      for (const LaneSpeed& lane : kLaneSpeeds) {
        if (pci_gb_per_s(width, lane.hundred_mb_per_s) != gb_per_s) continue;
        set(element, "link_speed", concat(lane.gt_per_s, " GT/s"));
        set(element, "link_width", width);
        return;
      }
    }
    RUNGS_THROW(kInvalidArgument, "to_xml: no number of PCI lanes gives '", node.name, "' ",
                gb_per_s, " GB/s");
  }

  void write_gpu(pugi::xml_node element, const Node& gpu) const {
    set(element, "dev", gpu.dev);
    set(element, "sm", gpu.compute_capability);
    if (gpu.rank >= 0) set(element, "rank", gpu.rank);
    set(element, "gdr", gpu.gdr ? 1 : 0);
    if (gpu.emulated) set(element, "emulated", 1);
    for (const Link& link : gpu.links) {
      const Node& peer = system_.nodes[link.to];
      if (link.type == LinkType::kC2c) {
        pugi::xml_node c2c = element.append_child("c2c");
        set(c2c, "count", 1);
        set(c2c, "bw", static_cast<int>(std::lround(link.gb_per_s * 1000)));
      }
      if (link.type != LinkType::kNvLink) continue;
      const double count = link.gb_per_s / nvlink_gb_per_s(gpu.compute_capability);
      RUNGS_REQUIRE(std::abs(count - std::round(count)) < 1e-6 && count > 0.5, "to_xml: '",
                    gpu.name, "' has ", link.gb_per_s, " GB/s of NVLink to '", peer.name,
                    "', which is no whole number of links");
      const bool is_gpu = peer.type == NodeType::kGpu;
      const bool is_cpu = peer.type == NodeType::kCpu;
      pugi::xml_node nvlink = element.append_child("nvlink");
      set(nvlink, "target", is_gpu ? peer.id : std::string(kHiddenSwitch));
      set(nvlink, "count", static_cast<int>(std::lround(count)));
      set(nvlink, "tclass",
          std::string(is_gpu   ? kGpuClass
                      : is_cpu ? kNvBridgeClass
                               : kNvSwitchClass));
    }
  }

  void write_nic(pugi::xml_node element, std::size_t index) {
    for (const Link& link : system_.nodes[index].links) {
      if (link.type != LinkType::kNet) continue;
      const Node& net = system_.nodes[link.to];
      written_[link.to] = true;
      pugi::xml_node child = element.append_child("net");
      set(child, "name", net.name);
      set(child, "dev", net.dev);
      set(child, "speed", static_cast<int>(std::lround(net.gb_per_s * 8000)));
      if (net.port >= 0) set(child, "port", net.port);
      if (!net.guid.empty()) set(child, "guid", net.guid);
      set(child, "gdr", net.gdr ? 1 : 0);
    }
  }

  const System& system_;
  std::vector<bool> written_;
  pugi::xml_document document_;
};

}  // namespace

std::string to_xml(const System& system) { return Writer(system).run(); }

}  // namespace rungs::topology
