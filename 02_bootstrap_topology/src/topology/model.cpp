#include "topology/constants.hpp"

#include <rungs/topology/topology.hpp>

#include <algorithm>

namespace rungs::topology {

const char* to_string(NodeType type) noexcept {
  switch (type) {
    case NodeType::kGpu:
      return "GPU";
    case NodeType::kPci:
      return "PCI";
    case NodeType::kNvSwitch:
      return "NVS";
    case NodeType::kCpu:
      return "CPU";
    case NodeType::kNic:
      return "NIC";
    case NodeType::kNet:
      return "NET";
  }
  return "?";
}

const char* to_string(LinkType type) noexcept {
  switch (type) {
    case LinkType::kNvLink:
      return "NVL";
    case LinkType::kC2c:
      return "C2C";
    case LinkType::kPci:
      return "PCI";
    case LinkType::kSystem:
      return "SYS";
    case LinkType::kNet:
      return "NET";
  }
  return "?";
}

const char* to_string(PathType type) noexcept {
  switch (type) {
    case PathType::kLocal:
      return "LOC";
    case PathType::kNvl:
      return "NVL";
    case PathType::kNvb:
      return "NVB";
    case PathType::kC2c:
      return "C2C";
    case PathType::kPix:
      return "PIX";
    case PathType::kPxb:
      return "PXB";
    case PathType::kPxn:
      return "PXN";
    case PathType::kPhb:
      return "PHB";
    case PathType::kSys:
      return "SYS";
    case PathType::kNet:
      return "NET";
    case PathType::kNone:
      return "DIS";
  }
  return "?";
}

std::vector<std::size_t> System::of_type(NodeType type) const {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].type == type) found.push_back(i);
  }
  return found;
}

std::vector<std::size_t> System::ranks() const {
  std::vector<std::size_t> gpus = of_type(NodeType::kGpu);
  std::erase_if(gpus, [this](std::size_t gpu) { return nodes[gpu].rank < 0; });
  std::sort(gpus.begin(), gpus.end(),
            [this](std::size_t a, std::size_t b) { return nodes[a].rank < nodes[b].rank; });
  return gpus;
}

double channel_limit(int compute_capability) noexcept {
  // The highest entries of the speed tables in NCCL 2.30's src/graph/search.cc.
  if (compute_capability >= 100) return 90;
  if (compute_capability >= 90) return 60;
  return 40;
}

}  // namespace rungs::topology
