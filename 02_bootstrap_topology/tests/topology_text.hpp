#pragma once
/// @file topology_text.hpp
/// Pieces of descriptions that tests put together.

#include <rungs/config.hpp>

#include <string>

namespace rungs::topology {

/// A description with `inside` as the only thing on its CPU.
inline std::string on_cpu(const std::string& inside) {
  return "<system version=\"1\">\n"
         "  <cpu numaid=\"0\" arch=\"x86_64\" vendor=\"AuthenticAMD\" familyid=\"25\" "
         "modelid=\"1\">\n" +
         inside + "\n  </cpu>\n</system>\n";
}

inline const std::string kGpu0 =
    "<pci busid=\"0000:01:00.0\" class=\"0x030200\" link_speed=\"16 GT/s\" link_width=\"16\">"
    "<gpu dev=\"0\" sm=\"80\" rank=\"0\"/></pci>";

}  // namespace rungs::topology
