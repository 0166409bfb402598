#include "catalog_topology/machines.hpp"

#include <rungs/core/error.hpp>

#include <algorithm>
#include <sstream>

namespace rungs::topology {
namespace {

std::string bus_id(const char* domain, int index) {
  std::ostringstream text;
  text << domain << std::hex << ":" << (index + 0x10) << ":00.0";
  return text.str();
}

class Description {
 public:
  explicit Description(const Machine& machine) : machine_(machine) {}

  std::string text() {
    out_ << "<system version=\"1\">\n";
    for (int cpu = 0; cpu < machine_.cpus; ++cpu) write_cpu(cpu);
    out_ << "</system>\n";
    return out_.str();
  }

 private:
  void write_cpu(int cpu) {
    out_ << "  <cpu numaid=\"" << cpu
         << "\" arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" modelid=\""
         << machine_.cpu_model << "\">\n";
    const int first = machine_.gpus * cpu / machine_.cpus;
    const int last = machine_.gpus * (cpu + 1) / machine_.cpus;
    for (int gpu = first; gpu < last; gpu += machine_.gpus_a_switch) {
      write_switch(gpu, std::min(gpu + machine_.gpus_a_switch, last));
    }
    out_ << "  </cpu>\n";
  }

  void write_switch(int first, int last) {
    open_pci("    ", bus_id("0001", first), "0x060400");
    out_ << ">\n";
    for (int gpu = first; gpu < last; ++gpu) write_gpu(gpu);
    if (machine_.nic_a_switch) {
      const int nic = nics_++;
      open_pci("      ", bus_id("0002", first), "0x020700");
      out_ << "><nic><net name=\"mlx5_" << nic << "\" dev=\"" << nic
           << "\" speed=\"400000\" port=\"1\" gdr=\"1\"/></nic></pci>\n";
    }
    out_ << "    </pci>\n";
  }

  void write_gpu(int gpu) {
    open_pci("      ", bus_id("0000", gpu), "0x030200");
    const int rank = machine_.ranks.empty() ? gpu : machine_.ranks[static_cast<std::size_t>(gpu)];
    out_ << "><gpu dev=\"" << gpu << "\" sm=\"" << machine_.compute_capability << "\" rank=\""
         << rank << "\" gdr=\"1\">";
    if (machine_.switch_links > 0) {
      write_nvlink("fffffff:ffff:ff", machine_.switch_links, "0x068000");
    }
    for (const Machine::Pair& pair : machine_.pairs) {
      if (pair.a == gpu) write_nvlink(bus_id("0000", pair.b), pair.links, "0x030200");
      if (pair.b == gpu) write_nvlink(bus_id("0000", pair.a), pair.links, "0x030200");
    }
    out_ << "</gpu></pci>\n";
  }

  void open_pci(const char* indent, const std::string& id, const char* pci_class) {
    out_ << indent << "<pci busid=\"" << id << "\" class=\"" << pci_class << "\" link_speed=\""
         << machine_.pci_gt_per_s << " GT/s\" link_width=\"16\"";
  }

  void write_nvlink(const std::string& target, int count, const char* target_class) {
    out_ << "<nvlink target=\"" << target << "\" count=\"" << count << "\" tclass=\""
         << target_class << "\"/>";
  }

  const Machine& machine_;
  std::ostringstream out_;
  int nics_ = 0;
};

}  // namespace

std::string describe(const Machine& machine) { return Description(machine).text(); }

Machine cube_mesh() {
  Machine machine;
  machine.compute_capability = 70;
  machine.gpus_a_switch = 2;
  machine.pci_gt_per_s = 8;
  machine.cpu_model = 79;
  // Two cubes' faces 0-3 and 4-7 with their diagonals, and an edge between them for each GPU.
  machine.pairs = {{0, 1, 1}, {0, 2, 1}, {0, 3, 2}, {1, 2, 2}, {1, 3, 1}, {2, 3, 2},
                   {4, 5, 1}, {4, 6, 1}, {4, 7, 2}, {5, 6, 2}, {5, 7, 1}, {6, 7, 2},
                   {0, 4, 2}, {1, 5, 2}, {2, 6, 1}, {3, 7, 1}};
  return machine;
}

Machine switched(int compute_capability) {
  Machine machine;
  machine.compute_capability = compute_capability;
  machine.switch_links = compute_capability >= 90 ? 18 : 12;
  machine.pci_gt_per_s = compute_capability >= 90 ? 32 : 16;
  return machine;
}

Machine full_mesh(int gpus, int compute_capability, int links) {
  Machine machine;
  machine.gpus = gpus;
  machine.compute_capability = compute_capability;
  for (int a = 0; a < gpus; ++a) {
    for (int b = a + 1; b < gpus; ++b) machine.pairs.push_back({a, b, links});
  }
  return machine;
}

Machine interleaved_pcie() {
  Machine machine;
  machine.compute_capability = 86;
  machine.gpus_a_switch = 4;
  machine.pci_gt_per_s = 16;
  machine.cpu_model = 85;
  machine.ranks = {0, 2, 4, 6, 1, 3, 5, 7};
  return machine;
}

}  // namespace rungs::topology
