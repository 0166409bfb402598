#pragma once
/// @file pictures.hpp
/// The parts of the SVG picture, top to bottom.

#include "topology/canvas.hpp"
#include "topology/layout.hpp"

#include <rungs/topology/topology.hpp>

#include <array>
#include <string_view>

namespace rungs::topology {

inline constexpr std::string_view kNvLinkColour = "#5a8f00";
inline constexpr std::string_view kPciColour = "#777777";
inline constexpr std::string_view kSystemColour = "#b05010";
inline constexpr std::array<std::string_view, 8> kRingColours{
    {"#0b62c4", "#c8321e", "#12805c", "#8a3ab9", "#b8730b", "#008c99", "#c2257a", "#555555"}};

/// CPUs, switches, NICs, GPUs and their PCI links.
void draw_machine(Canvas& canvas, const System& system, const Layout& layout);
/// NVLinks below the GPUs. @return where they end
double draw_nvlinks(Canvas& canvas, const System& system, const Layout& layout);
/// One lane for each ring of its own order, from `top` on. @return where they end
double draw_rings(Canvas& canvas, const System& system, const Layout& layout, const Rings& rings,
                  double top);

/// Rings of the same order, and how many.
struct RingGroup {
  Ring ring;
  int count = 0;
};
std::vector<RingGroup> grouped(const Rings& rings);

}  // namespace rungs::topology
