#pragma once
/// @file topology.hpp
/// From a machine's description to the rings its ranks should use:
/// NCCL-schema XML → graph of nodes and links → typed widest paths → rings, one a channel.

#include <rungs/config.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rungs::topology {

enum class NodeType { kGpu, kPci, kNvSwitch, kCpu, kNic, kNet };
const char* to_string(NodeType type) noexcept;
enum class LinkType { kNvLink, kC2c /* GPU to its CPU */, kPci, kSystem /* CPU to CPU */, kNet };
const char* to_string(LinkType type) noexcept;

/// How direct a path is, best first, with NCCL's names.
enum class PathType {
  kLocal,  ///< LOC: the node itself
  kNvl,    ///< NVL: NVLink
  kNvb,    ///< NVB: NVLink through a GPU
  kC2c,    ///< C2C: over the chip-to-chip link of a GPU and its CPU
  kPix,    ///< PIX: one PCIe switch
  kPxb,    ///< PXB: several PCIe switches, not through a CPU
  kPxn,    ///< PXN: to a NIC through an NVLink neighbour
  kPhb,    ///< PHB: through a CPU
  kSys,    ///< SYS: between CPUs
  kNet,    ///< NET: over the network
  kNone,   ///< DIS: no way
};
const char* to_string(PathType type) noexcept;

/// One direction of a connection; the other direction is a Link of the other node.
struct Link {
  std::size_t to = 0;  ///< index into System::nodes
  LinkType type = LinkType::kPci;
  double gb_per_s = 0;  ///< parallel links are one with their sum

  bool operator==(const Link&) const = default;
};

struct Node {
  NodeType type = NodeType::kPci;
  std::string id;    ///< PCI bus id, NUMA id or network name
  std::string name;  ///< "GPU 3", "NUMA 1", "mlx5_0"
  std::vector<Link> links;

  // GPUs
  int rank = -1;               ///< the rank that uses it
  int dev = -1;                ///< CUDA ordinal; NICs and networks: index
  int compute_capability = 0;  ///< 90; 0: not said
  bool emulated = false;       ///< invented by this machine's emulator

  // CPUs: one NUMA node each
  int numa = -1;
  std::string arch;      ///< "x86_64"
  std::string vendor;    ///< x86: "GenuineIntel"
  int family = -1;       ///< x86
  int model = -1;        ///< x86
  std::string affinity;  ///< cores as a mask in hexadecimal, as Linux writes it

  // PCI devices and networks
  std::string pci_class;  ///< "0x030200"
  double gb_per_s = 0;    ///< networks: port speed
  int port = -1;          ///< networks
  std::string guid;       ///< networks
  bool gdr = false;       ///< GPUs and networks: GPUDirect RDMA

  bool operator==(const Node&) const = default;
};

/// A machine.
struct System {
  std::vector<Node> nodes;
  [[nodiscard]] std::vector<std::size_t> of_type(NodeType type) const;
  /// GPUs that have a rank, by rank: the members of every ring.
  [[nodiscard]] std::vector<std::size_t> ranks() const;

  bool operator==(const System&) const = default;
};

/// What one channel (a ring, driven by one thread block a GPU) moves at most, in GB/s: NCCL's
/// search tries no more. @param compute_capability 90 for Hopper; 0 for unknown
double channel_limit(int compute_capability) noexcept;

/// Reads a description in NCCL's schema: what NCCL_TOPO_DUMP_FILE writes, or what a cloud ships for
/// NCCL_TOPO_FILE. The latter has no `gpu` elements: then every display device is a GPU, and ranks
/// are dealt out by bus id. Attributes this library does not know are skipped.
/// @param name of the description in messages
/// @throws Error kInvalidArgument "<name>:<line>:<column>: reason" for broken XML, an unknown
///         element, a missing or bad attribute, a bus id, rank or NUMA node that occurs twice, a
///         link to nothing, no GPU, several hosts, more than 512 nodes or 4 MiB
System parse_xml(std::string_view xml, const std::string& name);
/// The same from a file. @throws Error kSystem if it cannot be read
System read_xml(const std::string& path);
/// Writes the same schema, normalised: parse_xml(to_xml(system)) gives the same system.
/// @throws Error kInvalidArgument if no description gives this system (a node without a way to a
///         CPU, a bandwidth that no count of lanes has)
std::string to_xml(const System& system);
/// This machine: CPUs by hwloc, PCI and NICs from sysfs, GPUs from the device layer and NVLinks
/// from the driver (NVML). Emulated GPUs are attached to the CPUs and said to be emulated.
System detect();

/// The best way between two nodes.
struct Path {
  PathType type = PathType::kNone;
  double gb_per_s = 0;             ///< of its narrowest link
  std::vector<std::size_t> nodes;  ///< both ends included
};

/// All-pairs typed widest paths: better type first, then bandwidth, then fewer hops, then lower
/// node indices, so that every rank finds the same. A path passes through a GPU only as kNvb (two
/// NVLinks, GPU to GPU) or kPxn (NVLink, then to a NIC that is near that GPU).
class Paths {
 public:
  explicit Paths(const System& system);
  /// @throws Error kInvalidArgument if there is no such node
  [[nodiscard]] const Path& between(std::size_t from, std::size_t to) const;

 private:
  std::size_t count_;
  std::vector<Path> paths_;
};

/// One ring over the GPUs.
struct Ring {
  std::vector<int> ranks;           ///< in the order in which data travels
  PathType type = PathType::kNone;  ///< worst on the way
};

/// What a search gives: rings that can run at once, each at `gb_per_s`.
struct Rings {
  std::vector<Ring> rings;
  double gb_per_s = 0;  ///< of one ring
  [[nodiscard]] double total() const { return gb_per_s * static_cast<double>(rings.size()); }
};

/// Naive: one ring in rank order, at what its narrowest hop leaves when several hops share a link,
/// but at most the channel_limit().
/// @throws Error kInvalidArgument for a system without GPUs or with GPUs that no path connects
Rings rank_order(const System& system);
/// Depth-first search that takes each ring's bandwidth off the links it uses, over falling speeds.
/// The budget counts steps, not time: all ranks find the same rings, on any machine.
/// @throws Error kInvalidArgument as rank_order(), or for max_rings < 1
Rings search(const System& system, int max_rings = 16);
/// Whether the rings fit: each visits every rank once, and every link carries at most its
/// bandwidth. Empty if so, otherwise what is wrong: "NUMA 0 -> NUMA 1 carries 24 GB/s of 10".
std::string overload(const System& system, const Rings& rings);

/// A picture: nodes by level, links with their bandwidth, rings in colours. No external tool.
std::string to_svg(const System& system, const Rings& rings);
/// The same for Graphviz.
std::string to_dot(const System& system, const Rings& rings);

}  // namespace rungs::topology
