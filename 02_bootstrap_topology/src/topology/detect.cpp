#include "topology/constants.hpp"
#include "topology/host_facts.hpp"
#include "topology/xml_parser.hpp"

#include <rungs/core/error.hpp>
#include <rungs/gpu/device.hpp>
#include <rungs/topology/topology.hpp>

#include <algorithm>
#include <map>
#include <sstream>

namespace rungs::topology {
namespace {

void set(pugi::xml_node element, const char* attribute, const std::string& value) {
  element.append_attribute(attribute) = value.c_str();
}
void set(pugi::xml_node element, const char* attribute, int value) {
  element.append_attribute(attribute) = value;
}

// Where an invented GPU would sit: a domain that no real machine numbers.
BusId invented_bus_id(int dev) { return {0xe000, static_cast<unsigned>(dev) & 0xff, 0, 0}; }

class Describer {
 public:
  explicit Describer(const HostFacts& facts) : facts_(facts) {}

  std::string run() {
    pugi::xml_node root = document_.append_child("system");
    set(root, "version", 1);
    for (const CpuFacts& cpu : facts_.cpus) {
      pugi::xml_node element = cpus_[cpu.numa] = root.append_child("cpu");
      set(element, "numaid", cpu.numa);
      if (!cpu.affinity.empty()) set(element, "affinity", cpu.affinity);
      set(element, "arch", cpu.arch);
      if (cpu.arch != "x86_64") continue;
      // The schema wants all three; a hypervisor may hide them.
      set(element, "vendor", cpu.vendor.empty() ? std::string("unknown") : cpu.vendor);
      set(element, "familyid", std::max(cpu.family, 0));
      set(element, "modelid", std::max(cpu.model, 0));
    }
    for (const GpuFacts& gpu : facts_.gpus) write_gpu(gpu);
    int dev = 0;
    for (const NetFacts& net : facts_.nets) write_net(net, dev++);
    std::ostringstream text;
    document_.save(text, "  ", pugi::format_indent | pugi::format_no_declaration);
    return text.str();
  }

 private:
  pugi::xml_node cpu(int numa) {
    const auto found = cpus_.find(numa);
    return found != cpus_.end() ? found->second : cpus_.begin()->second;
  }

  static pugi::xml_node pci(pugi::xml_node parent, const BusId& id, const std::string& pci_class,
                            const std::string& speed, int width) {
    const std::string text = to_string(id);
    if (const pugi::xml_node known = parent.find_child_by_attribute("pci", "busid", text.c_str())) {
      return known;
    }
    pugi::xml_node element = parent.append_child("pci");
    set(element, "busid", text);
    set(element, "class", pci_class);
    set(element, "link_speed", speed);
    set(element, "link_width", width);
    return element;
  }

  pugi::xml_node place(const PciFacts& device) {
    pugi::xml_node at = cpu(device.numa);
    for (const PciFacts::Switch& above : device.switches) {
      at = pci(at, above.id, above.pci_class, above.link_speed, above.link_width);
    }
    return pci(at, device.id, device.pci_class, device.link_speed, device.link_width);
  }

  void write_gpu(const GpuFacts& gpu) {
    const PciFacts device = gpu.device.value_or(without_place(gpu));
    pugi::xml_node element = place(device).append_child("gpu");
    set(element, "dev", gpu.dev);
    set(element, "sm", gpu.compute_capability);
    set(element, "rank", gpu.dev);
    set(element, "gdr", facts_.gdr && !gpu.emulated ? 1 : 0);
    if (gpu.emulated) set(element, "emulated", 1);
    for (const NvLinkFacts& link : gpu.nvlinks) {
      // The schema knows links between GPUs of this description only.
      const bool is_gpu = link.target_class.starts_with(kDisplayBase);
      if (is_gpu && !is_described(link.target)) continue;
      pugi::xml_node nvlink = element.append_child("nvlink");
      set(nvlink, "target", link.target);
      set(nvlink, "count", link.count);
      set(nvlink, "tclass", link.target_class);
    }
  }

  // Emulated GPUs are dealt out to the CPUs in blocks, on 16 invented lanes of the fifth
  // generation.
  [[nodiscard]] PciFacts without_place(const GpuFacts& gpu) const {
    PciFacts device;
    device.id = invented_bus_id(gpu.dev);
    device.pci_class = kGpuClass;
    if (gpu.emulated) device.link_speed = "32 GT/s";
    device.link_width = 16;
    const std::size_t block = static_cast<std::size_t>(gpu.dev) * facts_.cpus.size() /
                              std::max<std::size_t>(facts_.gpus.size(), 1);
    device.numa = facts_.cpus[std::min(block, facts_.cpus.size() - 1)].numa;
    return device;
  }

  [[nodiscard]] bool is_described(const std::string& target) const {
    return std::any_of(facts_.gpus.begin(), facts_.gpus.end(), [&](const GpuFacts& gpu) {
      return gpu.device && to_string(gpu.device->id) == target;
    });
  }

  void write_net(const NetFacts& net, int dev) {
    pugi::xml_node device = net.device ? place(*net.device) : cpu(-1);
    pugi::xml_node nic = net.device ? device.child("nic") : pugi::xml_node();
    if (!nic) nic = device.append_child("nic");
    pugi::xml_node element = nic.append_child("net");
    set(element, "name", net.name);
    set(element, "dev", dev);
    set(element, "speed", net.mb_per_s);
    set(element, "port", net.port);
    if (!net.guid.empty()) set(element, "guid", net.guid);
    set(element, "gdr", facts_.gdr ? 1 : 0);
  }

  const HostFacts& facts_;
  pugi::xml_document document_;
  std::map<int, pugi::xml_node> cpus_;
};

}  // namespace

std::string describe(const HostFacts& facts) { return Describer(facts).run(); }

std::vector<GpuFacts> host_gpus(const std::filesystem::path& sysfs) {
  std::vector<GpuFacts> gpus;
  for (int ordinal = 0; ordinal < gpu::Device::count(); ++ordinal) {
    const gpu::DeviceInfo info = gpu::Device::open(ordinal).info();
    GpuFacts& gpu = gpus.emplace_back();
    gpu.dev = ordinal;
    gpu.compute_capability = 10 * info.compute_major + info.compute_minor;
    gpu.emulated = info.emulated;
    if (info.emulated) continue;
    const std::optional<BusId> id = driver_bus_id(ordinal);
    if (!id) continue;
    gpu.device = read_pci_device(sysfs, *id);
    gpu.nvlinks = driver_nvlinks(sysfs, *id);
  }
  return gpus;
}

System detect() {
  const std::filesystem::path sysfs = "/sys";
  HostFacts facts;
  facts.cpus = host_cpus();
  facts.gpus = host_gpus(sysfs);
  facts.nets = read_nets(sysfs);
  facts.gdr = has_gdr(sysfs);
  const std::string xml = describe(facts);
  const Source source(xml, "this machine");
  return XmlParser(source).parse(false);
}

}  // namespace rungs::topology
