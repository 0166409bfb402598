// The second half of XmlParser: what can be said only when every device is known, and the checks
// that all elements share.
#include "topology/constants.hpp"
#include "topology/graph.hpp"
#include "topology/xml_parser.hpp"

#include <rungs/core/error.hpp>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

namespace rungs::topology {
namespace {

constexpr std::size_t kMostNodes = 512;

}  // namespace

void XmlParser::number_gpus() {
  std::vector<std::size_t> gpus = system_.of_type(NodeType::kGpu);
  if (!has_gpu_elements_) {
    // CUDA_DEVICE_ORDER=PCI_BUS_ID: the order in which nvidia-smi counts.
    std::sort(gpus.begin(), gpus.end(), [this](std::size_t a, std::size_t b) {
      return parse_bus_id(system_.nodes[a].id) < parse_bus_id(system_.nodes[b].id);
    });
    int dev = 0;
    for (const std::size_t gpu : gpus) system_.nodes[gpu].dev = dev++;
  }
  if (system_.ranks().empty()) {
    std::sort(gpus.begin(), gpus.end(), [this](std::size_t a, std::size_t b) {
      return system_.nodes[a].dev < system_.nodes[b].dev;
    });
    int rank = 0;
    for (const std::size_t gpu : gpus) system_.nodes[gpu].rank = rank++;
  }
  for (const std::size_t gpu : gpus) {
    Node& node = system_.nodes[gpu];
    node.name = concat("GPU ", node.dev, node.emulated ? " (emulated)" : "");
  }
}

void XmlParser::add_nvlinks() {
  for (const NvLink& nvlink : nvlinks_) add_nvlink(nvlink);
}

void XmlParser::add_nvlink(const NvLink& nvlink) {
  const Element& element = nvlink.element;
  const double gb_per_s =
      nvlink.count * nvlink_gb_per_s(system_.nodes[nvlink.gpu].compute_capability);
  const std::string target_class = element.text("tclass");
  const std::string target = element.text("target");
  if (target_class == kNvBridgeClass) {
    return connect(system_, nvlink.gpu, cpu_of(system_, nvlink.gpu), LinkType::kNvLink, gb_per_s);
  }
  if (target_class == kNvSwitchClass) {
    // All NVSwitches of a machine are one crossbar that gives every port its full speed.
    return connect(system_, nvlink.gpu, nv_switch(element), LinkType::kNvLink, gb_per_s);
  }
  if (!target_class.starts_with(kDisplayBase)) {
    element.fail_at("tclass", concat("tclass='", target_class, "' is neither a GPU (", kGpuClass,
                                     ") nor an NVSwitch (", kNvSwitchClass, ")"));
  }
  const std::optional<BusId> bus_id = parse_bus_id(target);
  if (!bus_id) element.fail_at("target", concat("target='", target, "' is no PCI bus id"));
  const auto found = by_bus_id_.find(*bus_id);
  if (found == by_bus_id_.end() || system_.nodes[found->second].type != NodeType::kGpu) {
    element.fail_at("target", concat("a link to nothing: no GPU ", to_string(*bus_id),
                                     " in this description. If the job does not use that GPU, "
                                     "delete this <nvlink>"));
  }
  if (found->second == nvlink.gpu) element.fail_at("target", "an NVLink from a GPU to itself");
  connect_one_way(system_, nvlink.gpu, found->second, LinkType::kNvLink, gb_per_s);
}

void XmlParser::check_ways_back() {
  const auto bandwidth = [this](std::size_t from, std::size_t to) {
    for (const Link& link : system_.nodes[from].links) {
      if (link.to == to && link.type == LinkType::kNvLink) return link.gb_per_s;
    }
    return 0.0;
  };
  for (const NvLink& nvlink : nvlinks_) {
    const std::optional<BusId> bus_id = parse_bus_id(nvlink.element.text("target"));
    if (!bus_id || !by_bus_id_.contains(*bus_id)) continue;  // an NVSwitch or a CPU
    const std::size_t peer = by_bus_id_[*bus_id];
    if (system_.nodes[peer].type != NodeType::kGpu) continue;
    const double there = bandwidth(nvlink.gpu, peer);
    const double back = bandwidth(peer, nvlink.gpu);
    if (there > 0 && back == 0) {
      nvlink.element.fail(concat("an NVLink without a way back: ", to_string(*bus_id),
                                 " names none to ", system_.nodes[nvlink.gpu].id));
    }
  }
}

std::size_t XmlParser::nv_switch(const Element& element) {
  if (!nv_switch_) {
    Node node;
    node.type = NodeType::kNvSwitch;
    node.id = "0";
    node.name = "NVSwitch";
    nv_switch_ = add(std::move(node), element);
  }
  return *nv_switch_;
}

std::vector<Element> XmlParser::children(const Element& element,
                                         std::initializer_list<std::string_view> known) const {
  std::vector<Element> found;
  for (const pugi::xml_node node : element.node().children()) {
    if (node.type() == pugi::node_pcdata || node.type() == pugi::node_cdata) {
      source_.fail(source_.offset(node), concat("text inside <", element.tag(), ">"));
    }
    if (node.type() != pugi::node_element) continue;
    const Element child(source_, node);
    if (std::find(known.begin(), known.end(), child.tag()) == known.end()) {
      std::ostringstream allowed;
      for (const std::string_view tag : known) allowed << " <" << tag << ">";
      child.fail(concat("unknown element <", child.tag(), "> in <", element.tag(),
                        ">, which may hold", allowed.str()));
    }
    found.push_back(child);
  }
  return found;
}

double XmlParser::pci_bandwidth(const Element& element) const {
  int width = element.integer("link_width", 0, 255);
  if (width == 0 || width > 32) width = kUnknownWidth;  // sysfs writes 63 or 255 for no link
  const std::string speed = element.text("link_speed");
  // "16.0 GT/s PCIe" (Linux 5.7 and later), "16 GT/s", or "Unknown" and nothing in some machines.
  if (speed.empty() || speed.starts_with("Unknown")) return pci_gb_per_s(width, kUnknownLane);
  double gt_per_s = 0;
  const auto [stop, failed] = std::from_chars(speed.data(), speed.data() + speed.size(), gt_per_s);
  const std::string_view unit(stop, static_cast<std::size_t>(speed.data() + speed.size() - stop));
  for (const LaneSpeed& lane : kLaneSpeeds) {
    if (failed == std::errc() && (unit == " GT/s" || unit == " GT/s PCIe") &&
        lane.gt_per_s == gt_per_s) {
      return pci_gb_per_s(width, lane.hundred_mb_per_s);
    }
  }
  element.fail_at("link_speed", concat("link_speed='", speed,
                                       "' is none of 2.5, 5, 8, 16, 32 and "
                                       "64 GT/s"));
}

BusId XmlParser::claim_bus_id(const Element& element) {
  const std::string text = element.text("busid");
  const std::optional<BusId> bus_id = parse_bus_id(text);
  if (!bus_id) {
    element.fail_at("busid", concat("busid='", text, "' is no PCI bus id such as 0000:3b:00.0"));
  }
  claim("bus id " + to_string(*bus_id), element, "busid");
  return *bus_id;
}

void XmlParser::claim(const std::string& key, const Element& element, const char* attribute) {
  const auto [entry, is_new] = claimed_.emplace(key, element.offset());
  if (!is_new) {
    element.fail_at(attribute,
                    concat(key, " occurs twice; first at ", source_.position(entry->second)));
  }
}

std::size_t XmlParser::add(Node node, const Element& element) {
  if (system_.nodes.size() == kMostNodes) {
    element.fail(concat("more than ", kMostNodes, " nodes: this is no single machine"));
  }
  system_.nodes.push_back(std::move(node));
  return system_.nodes.size() - 1;
}

System parse_xml(std::string_view xml, const std::string& name) {
  const Source source(xml, name);
  return XmlParser(source).parse(true);
}

System read_xml(const std::string& path) {
  std::error_code failed;
  std::ifstream file(path, std::ios::binary);
  if (!file || std::filesystem::is_directory(path, failed)) {
    RUNGS_THROW(kSystem, path, ": cannot be read; name a file in NCCL's topology schema");
  }
  // One byte more than Source takes, so that a huge file is refused without being read.
  std::string text((std::size_t{4} << 20) + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) RUNGS_THROW(kSystem, path, ": cannot be read");
  text.resize(static_cast<std::size_t>(file.gcount()));
  return parse_xml(text, path);
}

}  // namespace rungs::topology
