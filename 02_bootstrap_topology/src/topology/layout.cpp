#include "topology/layout.hpp"

#include "topology/graph.hpp"

#include <algorithm>

namespace rungs::topology {

std::vector<std::size_t> pci_children(const System& system, std::size_t node) {
  std::vector<std::size_t> children;
  for (const Link& link : system.nodes[node].links) {
    if (link.type == LinkType::kPci && pci_parent(system, link.to) == node) {
      children.push_back(link.to);
    }
  }
  return children;
}

Layout::Layout(const System& system) : system_(system), boxes_(system.nodes.size()) {
  const std::vector<std::size_t> cpus = system.of_type(NodeType::kCpu);
  int switches = 0;
  for (const std::size_t cpu : cpus) switches = std::max(switches, depth_below(cpu));
  nic_row_ = kTop + (switches + 1) * kRow;
  const bool has_nics = !system.of_type(NodeType::kNic).empty();
  gpu_row_ = nic_row_ + (has_nics ? kRow : 0);
  for (const std::size_t cpu : cpus) {
    place(cpu, 0);
    right_ += kMargin;
  }
  const std::vector<std::size_t> gpus = system.of_type(NodeType::kGpu);
  for (const std::size_t node : system.of_type(NodeType::kNvSwitch)) {
    double left = right_;
    double right = kLeft;
    for (const std::size_t gpu : gpus) {
      left = std::min(left, boxes_[gpu].x);
      right = std::max(right, boxes_[gpu].x + boxes_[gpu].width);
    }
    boxes_[node] = {left, gpu_row_ + kRow, std::max(right - left, kBoxWidth), kBoxHeight};
  }
}

// Levels of switches below a node.
int Layout::depth_below(std::size_t node) const {
  int deepest = 0;
  for (const std::size_t child : pci_children(system_, node)) {
    if (system_.nodes[child].type != NodeType::kPci) continue;
    deepest = std::max(deepest, 1 + depth_below(child));
  }
  return deepest;
}

// A leaf takes the next column; whatever has children stands over the middle of them.
void Layout::place(std::size_t node, int depth) {
  const NodeType type = system_.nodes[node].type;
  Box& box = boxes_[node];
  box.height = kBoxHeight;
  box.y = type == NodeType::kGpu   ? gpu_row_
          : type == NodeType::kNic ? nic_row_
                                   : kTop + depth * kRow;
  const double left = right_;
  for (const std::size_t child : pci_children(system_, node)) place(child, depth + 1);
  if (right_ == left) right_ += kColumn;
  box.width = kBoxWidth;
  if (type == NodeType::kCpu || type == NodeType::kPci) {
    // Wide enough for its text, over the middle of what it holds.
    box.width = std::min(right_ - left - (kColumn - kBoxWidth), 2 * kBoxWidth);
  }
  box.x = (left + right_ - (kColumn - kBoxWidth) - box.width) / 2;
}

}  // namespace rungs::topology
