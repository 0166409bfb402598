// PCI devices and networks as Linux shows them. The folder of a device is the way to it:
//   /sys/devices/pci0000:17/0000:17:01.0/0000:18:00.0/0000:19:04.0/0000:1a:00.0
//                host bridge root port    switch: in   switch: out  the device
// A switch is two functions on the way, and NCCL's schema names it by the upper one.
#include "topology/constants.hpp"
#include "topology/host_facts.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>
#include <system_error>

namespace rungs::topology {
namespace {

namespace fs = std::filesystem;

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::vector<fs::path> entries(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(folder, failed)) found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  return found;
}

// Speed and width of the way into a device: what both it and the port above can do. The current
// values fall when a device idles.
void read_link(const fs::path& folder, std::string& speed, int& width) {
  speed = first_line(folder / "max_link_speed");
  width = std::atoi(first_line(folder / "max_link_width").c_str());
  const std::string above = first_line(folder.parent_path() / "max_link_speed");
  const double here = std::atof(speed.c_str());
  const double there = std::atof(above.c_str());
  if (there > 0 && (here <= 0 || there < here)) speed = above;
  const int width_above = std::atoi(first_line(folder.parent_path() / "max_link_width").c_str());
  if (width_above > 0 && (width <= 0 || width_above < width)) width = width_above;
  if (width < 0 || width > 32) width = 0;  // 63 and 255 mean none
  const bool known =
      std::any_of(kLaneSpeeds.begin(), kLaneSpeeds.end(),
                  [&](const LaneSpeed& lane) { return lane.gt_per_s == std::atof(speed.c_str()); });
  if (!known) speed.clear();
}

// The PCI function that a device of another kind (a network interface, a virtio device) is part of.
std::optional<BusId> function_of(const fs::path& device) {
  std::error_code failed;
  const fs::path folder = fs::canonical(device, failed);
  if (failed) return std::nullopt;
  std::optional<BusId> last;
  for (const fs::path& part : folder) {
    if (const auto id = parse_bus_id(part.string())) last = id;
  }
  return last;
}

// "400 Gb/sec (4X NDR)" in Mb/s.
int rate(const std::string& text) { return static_cast<int>(std::atof(text.c_str()) * 1000); }

// "506b:4b03:00c0:ffee" as one number.
std::string guid(const std::string& text) {
  std::string digits;
  std::copy_if(text.begin(), text.end(), std::back_inserter(digits),
               [](char c) { return c != ':' && c != '\n'; });
  return digits.empty() ? "" : "0x" + digits;
}

}  // namespace

std::optional<PciFacts> read_pci_device(const fs::path& sysfs, const BusId& id) {
  std::error_code failed;
  const fs::path folder = fs::canonical(sysfs / "bus" / "pci" / "devices" / to_string(id), failed);
  if (failed) return std::nullopt;
  PciFacts facts;
  facts.id = id;
  facts.pci_class = first_line(folder / "class");
  const std::string numa = first_line(folder / "numa_node");
  facts.numa = numa.empty() ? -1 : std::atoi(numa.c_str());
  read_link(folder, facts.link_speed, facts.link_width);
  // Up two functions at a time: past the port that the device is plugged into, to the switch's way
  // in.
  for (fs::path at = folder.parent_path().parent_path(); parse_bus_id(at.filename().string());
       at = at.parent_path().parent_path()) {
    PciFacts::Switch& found = facts.switches.emplace_back();
    found.id = *parse_bus_id(at.filename().string());
    found.pci_class = first_line(at / "class");
    read_link(at, found.link_speed, found.link_width);
  }
  std::reverse(facts.switches.begin(), facts.switches.end());
  return facts;
}

std::vector<NetFacts> read_nets(const fs::path& sysfs) {
  std::vector<NetFacts> nets;
  std::set<BusId> with_rdma;
  for (const fs::path& device : entries(sysfs / "class" / "infiniband")) {
    const std::optional<BusId> id = function_of(device / "device");
    if (id) with_rdma.insert(*id);
    for (const fs::path& port : entries(device / "ports")) {
      NetFacts& net = nets.emplace_back();
      net.name = device.filename().string();
      net.mb_per_s = rate(first_line(port / "rate"));
      net.port = std::atoi(port.filename().c_str());
      net.guid = guid(first_line(device / "sys_image_guid"));
      if (id) net.device = read_pci_device(sysfs, *id);
    }
  }
  for (const fs::path& interface : entries(sysfs / "class" / "net")) {
    const std::optional<BusId> id = function_of(interface / "device");
    if (!id || with_rdma.contains(*id)) continue;  // virtual, or listed above
    NetFacts& net = nets.emplace_back();
    net.name = interface.filename().string();
    net.mb_per_s = std::max(0, std::atoi(first_line(interface / "speed").c_str()));
    net.device = read_pci_device(sysfs, *id);
  }
  return nets;
}

bool has_gdr(const fs::path& sysfs) {
  std::error_code failed;
  return fs::exists(sysfs / "module" / "nvidia_peermem", failed);
}

}  // namespace rungs::topology
