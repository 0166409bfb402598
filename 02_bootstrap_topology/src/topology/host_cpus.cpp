#include "topology/host_facts.hpp"

#include <rungs/core/error.hpp>

#include <hwloc.h>
#include <sys/utsname.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <string_view>

namespace rungs::topology {
namespace {

struct Destroy {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<std::remove_pointer_t<hwloc_topology_t>, Destroy>;

// As NCCL's schema calls them.
std::string architecture() {
  utsname name{};
  if (uname(&name) != 0) return "unknown";
  const std::string_view machine = name.machine;
  if (machine == "aarch64") return "arm64";
  if (machine.starts_with("ppc64")) return "ppc64";
  return std::string(machine);
}

// hwloc writes "0x0000000f,0xffffffff", the kernel and NCCL "0000000f,ffffffff".
std::string as_mask(hwloc_const_bitmap_t set) {
  std::array<char, 4096> text{};
  hwloc_bitmap_snprintf(text.data(), text.size(), set);
  std::string mask = text.data();
  for (std::size_t at; (at = mask.find("0x")) != std::string::npos;) mask.erase(at, 2);
  return mask;
}

std::string info(hwloc_obj_t object, const char* key) {
  const char* value = object == nullptr ? nullptr : hwloc_obj_get_info_by_name(object, key);
  return value == nullptr ? "" : value;
}

int number_or(const std::string& text, int otherwise) {
  return text.empty() ? otherwise : std::atoi(text.c_str());
}

hwloc_obj_t package_of(hwloc_topology_t topology, hwloc_const_cpuset_t cores) {
  for (hwloc_obj_t package = nullptr;
       (package = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_PACKAGE, package)) != nullptr;) {
    if (hwloc_bitmap_intersects(package->cpuset, cores) != 0) return package;
  }
  return hwloc_get_root_obj(topology);
}

}  // namespace

std::vector<CpuFacts> host_cpus() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) RUNGS_THROW(kSystem, "hwloc_topology_init failed");
  const Topology topology(raw);
  if (hwloc_topology_load(raw) != 0) {
    RUNGS_THROW(kSystem, "hwloc cannot read this machine's topology; is /sys mounted?");
  }
  std::vector<CpuFacts> cpus;
  for (hwloc_obj_t node = nullptr;
       (node = hwloc_get_next_obj_by_type(raw, HWLOC_OBJ_NUMANODE, node)) != nullptr;) {
    if (hwloc_bitmap_iszero(node->cpuset) != 0) continue;  // memory without cores
    const hwloc_obj_t package = package_of(raw, node->cpuset);
    CpuFacts& cpu = cpus.emplace_back();
    cpu.numa = static_cast<int>(node->os_index);
    cpu.arch = architecture();
    cpu.vendor = info(package, "CPUVendor");
    cpu.family = number_or(info(package, "CPUFamilyNumber"), -1);
    cpu.model = number_or(info(package, "CPUModelNumber"), -1);
    cpu.affinity = as_mask(node->cpuset);
  }
  if (cpus.empty()) cpus.push_back({0, architecture(), "", -1, -1, ""});
  return cpus;
}

}  // namespace rungs::topology
