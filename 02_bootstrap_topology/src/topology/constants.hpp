#pragma once
/// @file constants.hpp
/// What links carry, in GB/s and one direction. None of it is in a description: it follows from the
/// device's generation. The values are those NCCL's search works with (src/graph/topo.h of release
/// 2.30): what a copy attains, not what a data sheet says.

#include <rungs/config.hpp>

#include <array>
#include <string_view>

namespace rungs::topology {

/// Where nothing limits: inside a device, or a NIC that is part of the CPU.
inline constexpr double kUnlimitedGbPerS = 5000;
/// A network whose speed nobody knows, in Mb/s.
inline constexpr int kDefaultNetMbPerS = 10000;

/// One NVLink of a GPU of this compute capability. H100: 18 links of 25 GB/s carry 18 · 20.6 = 371.
constexpr double nvlink_gb_per_s(int compute_capability) {
  if (compute_capability >= 100) return 40.1;
  if (compute_capability >= 90) return 20.6;
  if (compute_capability == 86) return 12;
  if (compute_capability >= 70) return 20;
  if (compute_capability >= 60) return 18;
  return 20;
}

/// PCI lanes: what sysfs calls the speed, and hundreds of Mb/s a lane after encoding and headers.
/// The bandwidth of a link is lanes · this ÷ 80: 12 GB/s for 16 lanes of the third generation.
struct LaneSpeed {
  double gt_per_s;
  int hundred_mb_per_s;
};
inline constexpr std::array<LaneSpeed, 6> kLaneSpeeds{
    {{2.5, 15}, {5, 30}, {8, 60}, {16, 120}, {32, 240}, {64, 480}}};
/// For "Unknown speed": virtual machines often hide it.
inline constexpr int kUnknownLane = 60;
inline constexpr int kUnknownWidth = 16;
constexpr double pci_gb_per_s(int width, int hundred_mb_per_s) {
  return width * hundred_mb_per_s / 80.0;
}

/// Between two CPUs (QPI, UPI, Infinity Fabric), by what CPUID says of them.
constexpr double cpu_gb_per_s(std::string_view arch, std::string_view vendor, int family,
                              int model) {
  if (arch == "ppc64") return 32;
  if (arch == "arm64") return 6;
  if (arch != "x86_64") return kUnlimitedGbPerS;
  if (vendor == "GenuineIntel") {
    if (family != 6) return 6;
    // Granite Rapids and Sierra Forest (0xad-0xaf) are newer than their numbers say.
    if (model >= 0xcf || (model >= 0xad && model <= 0xaf)) return 40;
    if (model >= 0x8f) return 22;  // Sapphire Rapids
    if (model >= 0x55) return 10;  // Skylake
    return 6;                      // Broadwell and older
  }
  if (vendor == "AuthenticAMD") {
    // Old descriptions hold the base family and the extended one shifted by four.
    if (family == 26 || family == 0xbf) return 32;  // Zen 5
    if (family == 25 || family == 0xaf) return 24;  // Zen 3 and 4
    return 16;
  }
  if (vendor == "CentaurHauls" || vendor == "  Shanghai  ") {
    return family == 7 && model == 0x5b ? 9 : 6;
  }
  return kUnlimitedGbPerS;
}

/// PCI classes (PCI Code and ID Assignment Specification): base class, then subclass.
inline constexpr std::string_view kBridgeClass = "0x060400";
inline constexpr std::string_view kNvSwitchClass = "0x068000";
inline constexpr std::string_view kNvBridgeClass = "0x068001";  // POWER: NVLink into the CPU
inline constexpr std::string_view kGpuClass = "0x030200";
inline constexpr std::string_view kDisplayBase = "0x03";
inline constexpr std::string_view kNetworkBase = "0x02";
/// How NCCL names an NVSwitch that the driver does not show, as in virtual machines.
inline constexpr std::string_view kHiddenSwitch = "fffffff:ffff:ff";

}  // namespace rungs::topology
