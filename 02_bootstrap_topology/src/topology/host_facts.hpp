#pragma once
/// @file host_facts.hpp
/// What this machine says of itself; detect() makes a description of it.

#include "topology/bus_id.hpp"

#include <rungs/config.hpp>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace rungs::topology {

struct CpuFacts {
  int numa = 0;
  std::string arch;
  std::string vendor;
  int family = -1;
  int model = -1;
  std::string affinity;
};

/// A PCI function and the switches above it.
struct PciFacts {
  struct Switch {
    BusId id;
    std::string pci_class;
    std::string link_speed;
    int link_width = 0;
  };
  BusId id;
  std::string pci_class;
  std::string link_speed;        ///< "32.0 GT/s PCIe"; empty: unknown
  int link_width = 0;            ///< 0: unknown
  int numa = -1;                 ///< -1: unknown
  std::vector<Switch> switches;  ///< from the CPU down
};

struct NetFacts {
  std::string name;
  int mb_per_s = 0;  ///< 0: unknown
  int port = 1;
  std::string guid;
  std::optional<PciFacts> device;  ///< none: a port of no PCI device
};

struct NvLinkFacts {
  std::string target;  ///< bus id, or kHiddenSwitch
  std::string target_class;
  int count = 0;
};

struct GpuFacts {
  int dev = 0;
  int compute_capability = 0;
  bool emulated = false;
  std::optional<PciFacts> device;  ///< none: emulated, or hidden from this container
  std::vector<NvLinkFacts> nvlinks;
};

struct HostFacts {
  std::vector<CpuFacts> cpus;
  std::vector<GpuFacts> gpus;
  std::vector<NetFacts> nets;
  bool gdr = false;  ///< NICs can read and write GPU memory
};

/// NUMA nodes that have cores, by hwloc.
std::vector<CpuFacts> host_cpus();
/// One PCI function from a sysfs tree; nothing if it is not there.
std::optional<PciFacts> read_pci_device(const std::filesystem::path& sysfs, const BusId& id);
/// Ports of RDMA devices, and network interfaces of PCI devices without RDMA.
std::vector<NetFacts> read_nets(const std::filesystem::path& sysfs);
/// Whether a module lets NICs reach GPU memory (nvidia_peermem).
bool has_gdr(const std::filesystem::path& sysfs);
/// The PCI function of a CUDA device and its active NVLinks, from the driver's libraries; nothing
/// where they are missing.
std::optional<BusId> driver_bus_id(int ordinal);
std::vector<NvLinkFacts> driver_nvlinks(const std::filesystem::path& sysfs, const BusId& gpu);
/// GPUs of the device layer, real or emulated.
std::vector<GpuFacts> host_gpus(const std::filesystem::path& sysfs);

/// The facts in NCCL's schema.
std::string describe(const HostFacts& facts);

}  // namespace rungs::topology
