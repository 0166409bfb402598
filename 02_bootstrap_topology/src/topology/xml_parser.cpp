#include "topology/xml_parser.hpp"

#include "topology/constants.hpp"
#include "topology/graph.hpp"

#include <rungs/core/error.hpp>

#include <algorithm>

namespace rungs::topology {
namespace {

constexpr int kDeepest = 32;

bool is_class(std::string_view text) {
  return text.size() >= 4 && text.size() <= 8 && text.starts_with("0x") &&
         text.find_first_not_of("0123456789abcdefABCDEF", 2) == std::string_view::npos;
}

}  // namespace

System XmlParser::parse(bool needs_gpu) {
  const Element root(source_, source_.root("system"));
  // What a bare display device is depends on whether any GPU is described.
  has_gpu_elements_ = root.node().find_node(
      [](const pugi::xml_node& node) { return std::string_view(node.name()) == "gpu"; });
  for (const Element& child : children(root, {"cpu"})) read_cpu(child);
  number_gpus();
  if (needs_gpu && system_.of_type(NodeType::kGpu).empty()) {
    root.fail("no GPU in this description: neither a <gpu> nor a device of class 0x03....");
  }
  add_nvlinks();
  check_ways_back();
  connect_cpus(system_);
  return std::move(system_);
}

void XmlParser::read_cpu(const Element& element) {
  Node cpu;
  cpu.type = NodeType::kCpu;
  cpu.numa = element.integer("numaid", -1, 4095);
  cpu.id = std::to_string(cpu.numa);
  cpu.name = "NUMA " + cpu.id;
  claim("NUMA node " + cpu.id, element, "numaid");
  cpu.arch = element.text("arch");
  cpu.affinity = element.text_or("affinity", "");
  if (cpu.arch == "x86_64") {
    cpu.vendor = element.text("vendor");
    const bool known = cpu.vendor == "GenuineIntel" || cpu.vendor == "AuthenticAMD";
    cpu.family = known ? element.integer("familyid", 0) : element.integer_or("familyid", -1, 0);
    cpu.model = cpu.vendor == "GenuineIntel" ? element.integer("modelid", 0)
                                             : element.integer_or("modelid", -1, 0);
  }
  const std::string host = element.text_or("host_hash", "");
  if (system_.nodes.empty()) host_hash_ = host;
  if (host != host_hash_) {
    element.fail_at("host_hash", "a second host; one description is read for each machine");
  }
  const std::size_t index = add(std::move(cpu), element);
  int nics = 0;
  for (const Element& child : children(element, {"pci", "nic"})) {
    if (child.tag() == "pci") {
      read_pci(child, index, 1);
    } else {
      Node nic;  // part of the CPU, or its PCI device is unknown
      nic.id = system_.nodes[index].id + "/" + std::to_string(nics++);
      read_nic(child, std::move(nic), index, kUnlimitedGbPerS);
    }
  }
}

void XmlParser::read_pci(const Element& element, std::size_t parent, int depth) {
  if (depth > kDeepest) element.fail(concat("<pci> nested more than ", kDeepest, " deep"));
  Node node;
  const BusId bus_id = claim_bus_id(element);
  node.id = to_string(bus_id);
  node.pci_class = element.text("class");
  if (!is_class(node.pci_class)) {
    element.fail_at("class",
                    concat("class='", node.pci_class, "' is no PCI class such as 0x060400"));
  }
  const double gb_per_s = pci_bandwidth(element);
  const std::vector<Element> inside = children(element, {"pci", "gpu", "nic", "pcilink"});
  const auto first = [&](std::string_view tag) {
    return std::find_if(inside.begin(), inside.end(),
                        [&](const Element& child) { return child.tag() == tag; });
  };
  const auto gpu = first("gpu");
  const auto nic = first("nic");
  const auto switched = first("pci");
  if (gpu != inside.end() || nic != inside.end()) {
    // 1. A device. It may hold one thing only.
    for (const Element& child : inside) {
      const Element& device = gpu != inside.end() ? *gpu : *nic;
      if (child.tag() != "pcilink" && child.node() != device.node()) {
        child.fail(concat("<", child.tag(), "> beside <", device.tag(),
                          ">: a device holds one GPU or one NIC"));
      }
    }
    by_bus_id_[bus_id] = system_.nodes.size();
    if (gpu != inside.end()) return read_gpu(*gpu, std::move(node), parent, gb_per_s);
    return read_nic(*nic, std::move(node), parent, gb_per_s);
  }
  if (switched == inside.end() && node.pci_class.starts_with(kDisplayBase)) {
    // 2. A GPU that nobody described, unless others are: then the job does not use it.
    if (has_gpu_elements_) return;
    node.type = NodeType::kGpu;
  } else if (switched == inside.end() && node.pci_class.starts_with(kNetworkBase)) {
    return read_nic(element, std::move(node), parent, gb_per_s);
  } else if (switched == inside.end() && node.pci_class.starts_with(kNvSwitchClass)) {
    return;  // an NVSwitch's way to the CPU carries no data; its NVLinks are with the GPUs
  }
  // 3. That GPU, or a switch.
  const std::size_t index = add(std::move(node), element);
  by_bus_id_[bus_id] = index;
  system_.nodes[index].name = "PCI " + system_.nodes[index].id;
  connect(system_, parent, index, LinkType::kPci, gb_per_s);
  for (const Element& child : inside) {
    if (child.tag() == "pci") read_pci(child, index, depth + 1);
  }
}

void XmlParser::read_gpu(const Element& element, Node node, std::size_t parent, double gb_per_s) {
  node.type = NodeType::kGpu;
  node.dev = element.integer("dev", 0);
  claim(concat("GPU ", node.dev), element, "dev");
  node.compute_capability = element.integer("sm", 0, 999);
  node.rank = element.integer_or("rank", -1, -1);
  if (node.rank >= 0) claim(concat("rank ", node.rank), element, "rank");
  node.gdr = element.integer_or("gdr", 0, 0) != 0;
  node.emulated = element.integer_or("emulated", 0, 0, 1) != 0;
  const std::size_t gpu = add(std::move(node), element);
  connect(system_, parent, gpu, LinkType::kPci, gb_per_s);
  for (const Element& child : children(element, {"nvlink", "c2c"})) {
    if (child.tag() == "nvlink") {
      nvlinks_.push_back({gpu, child, child.integer("count", 1, 1024)});
      continue;
    }
    const int links = child.integer("count", 1, 1024);
    const int mb_per_s = child.integer("bw", 1, 1 << 20);
    connect(system_, gpu, cpu_of(system_, gpu), LinkType::kC2c, links * mb_per_s / 1000.0);
  }
}

void XmlParser::read_nic(const Element& element, Node node, std::size_t parent, double gb_per_s) {
  node.type = NodeType::kNic;
  node.dev = static_cast<int>(system_.of_type(NodeType::kNic).size());
  node.name = "NIC " + std::to_string(node.dev);
  const std::size_t nic = add(std::move(node), element);
  connect(system_, parent, nic, LinkType::kPci, gb_per_s);
  if (element.tag() == "pci") return;
  for (const Element& child : children(element, {"net", "gin", "rma"})) {
    if (child.tag() == "net" && child.has("dev")) read_net(child, nic);
  }
}

void XmlParser::read_net(const Element& element, std::size_t nic) {
  Node net;
  net.type = NodeType::kNet;
  net.dev = element.integer("dev", 0);
  claim(concat("network ", net.dev), element, "dev");
  net.name = element.text_or("name", concat("net", net.dev));
  net.id = net.name;
  const int mb_per_s = element.integer_or("speed", 0, -1);
  net.gb_per_s = (mb_per_s > 0 ? mb_per_s : kDefaultNetMbPerS) / 8000.0;
  net.port = element.integer_or("port", -1, -1);
  net.guid = element.text_or("guid", "");
  net.gdr = element.integer_or("gdr", 0, 0) != 0;
  const double gb_per_s = net.gb_per_s;
  const std::string name = net.name;
  const std::size_t index = add(std::move(net), element);
  connect(system_, nic, index, LinkType::kNet, gb_per_s);
  const bool is_first = system_.nodes[nic].links.size() == 2;  // after the one to its parent
  if (is_first) system_.nodes[nic].name = name;
}

}  // namespace rungs::topology
