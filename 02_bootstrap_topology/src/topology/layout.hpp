#pragma once
/// @file layout.hpp
/// Where everything stands in a picture of a machine: CPUs on top, what hangs on their PCI below,
/// every GPU and NIC in a column of its own.

#include "topology/canvas.hpp"

#include <rungs/topology/topology.hpp>

#include <cstddef>
#include <vector>

namespace rungs::topology {

class Layout {
 public:
  explicit Layout(const System& system);

  [[nodiscard]] const Box& box(std::size_t node) const { return boxes_[node]; }
  [[nodiscard]] double width() const { return right_ + kMargin; }
  /// The space for rings and GPU-to-GPU links begins here.
  [[nodiscard]] double gpus_bottom() const { return gpu_row_ + kBoxHeight; }

  static constexpr double kMargin = 24;
  static constexpr double kLeft = 150;  ///< room for the rings' labels
  static constexpr double kBoxHeight = 40;
  static constexpr double kRow = 84;  ///< from one level to the next
  static constexpr double kColumn = 104;
  static constexpr double kBoxWidth = 94;
  static constexpr double kTop = 96;  ///< of the CPUs

 private:
  void place(std::size_t node, int depth);
  [[nodiscard]] int depth_below(std::size_t node) const;

  const System& system_;
  std::vector<Box> boxes_;
  double right_ = kLeft;
  double nic_row_ = 0;
  double gpu_row_ = 0;
};

/// What hangs on a node by PCI, in the order of the description.
std::vector<std::size_t> pci_children(const System& system, std::size_t node);

}  // namespace rungs::topology
