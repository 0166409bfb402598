#pragma once
/// @file machines.hpp Descriptions of machines, written from a few numbers: for cases, tests and
///         comparisons. The files in data/topologies describe real ones.

#include <rungs/config.hpp>

#include <string>
#include <utility>
#include <vector>

namespace rungs::topology {

/// A machine whose every GPU sits behind a PCIe switch.
struct Machine {
  int gpus = 8;
  int compute_capability = 90;
  int cpus = 2;  ///< NUMA nodes; GPUs are dealt out to them in blocks
  int gpus_a_switch = 1;
  bool nic_a_switch = true;
  double pci_gt_per_s = 32;  ///< 16 lanes
  int cpu_model = 143;       ///< an Intel model: 79 Broadwell, 85 Skylake, 143 Sapphire Rapids
  int switch_links = 0;      ///< NVLinks of each GPU to an NVSwitch
  struct Pair {
    int a, b, links;
  };
  std::vector<Pair> pairs;  ///< NVLinks between GPUs
  std::vector<int> ranks;   ///< of GPU 0, 1, …; empty: 0, 1, …
};

/// Its description in NCCL's schema.
std::string describe(const Machine& machine);

/// Eight V100 in a hybrid cube mesh of 16 NVLink pairs, as in a DGX-1.
Machine cube_mesh();
/// Eight GPUs on NVSwitches: 12 links of an A100 or 18 of an H100.
Machine switched(int compute_capability);
/// Every two of `gpus` joined by `links` NVLinks.
Machine full_mesh(int gpus, int compute_capability, int links);
/// Two sockets, four GPUs a socket, no NVLink; ranks go from socket to socket in turn.
Machine interleaved_pcie();

}  // namespace rungs::topology
