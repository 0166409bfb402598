/// Descriptions: what is read, what is written back, and how a broken one is refused.

#include "topology_text.hpp"

#include "catalog_topology/machines.hpp"

#include <rungs/core/error.hpp>
#include <rungs/topology/topology.hpp>

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace rungs::topology {
namespace {

const Link* link_between(const System& system, std::size_t from, std::size_t to) {
  for (const Link& link : system.nodes[from].links) {
    if (link.to == to) return &link;
  }
  return nullptr;
}

TEST(TopologyXml, ReadsNodesAndLinks) {
  const System system = parse_xml(describe(switched(90)), "h100");
  EXPECT_EQ(system.of_type(NodeType::kGpu).size(), 8u);
  EXPECT_EQ(system.of_type(NodeType::kCpu).size(), 2u);
  EXPECT_EQ(system.of_type(NodeType::kPci).size(), 8u);
  EXPECT_EQ(system.of_type(NodeType::kNic).size(), 8u);
  EXPECT_EQ(system.of_type(NodeType::kNet).size(), 8u);
  ASSERT_EQ(system.of_type(NodeType::kNvSwitch).size(), 1u);
  const std::size_t gpu = system.ranks()[3];
  EXPECT_EQ(system.nodes[gpu].name, "GPU 3");
  EXPECT_EQ(system.nodes[gpu].id, "0000:13:00.0");
  EXPECT_EQ(system.nodes[gpu].compute_capability, 90);
  EXPECT_TRUE(system.nodes[gpu].gdr);
  const std::size_t nv_switch = system.of_type(NodeType::kNvSwitch)[0];
  const Link* nvlink = link_between(system, gpu, nv_switch);
  ASSERT_NE(nvlink, nullptr);
  EXPECT_DOUBLE_EQ(nvlink->gb_per_s, 18 * 20.6);
  EXPECT_NE(link_between(system, nv_switch, gpu), nullptr);
  const std::vector<std::size_t> cpus = system.of_type(NodeType::kCpu);
  EXPECT_EQ(link_between(system, cpus[0], cpus[1])->gb_per_s, 22);  // Sapphire Rapids
  const std::size_t net = system.of_type(NodeType::kNet)[5];
  EXPECT_EQ(system.nodes[net].name, "mlx5_5");
  EXPECT_EQ(system.nodes[net].gb_per_s, 50);
  EXPECT_EQ(system.nodes[system.of_type(NodeType::kNic)[5]].name, "mlx5_5");
}

TEST(TopologyXml, PciBandwidthCountsLanes) {
  struct {
    const char* speed;
    const char* width;
    double gb_per_s;
  } const kCases[] = {{"2.5 GT/s PCIe", "16", 3},   {"5.0 GT/s PCIe", "8", 3},
                      {"8 GT/s", "16", 12},         {"8.0 GT/s PCIe", "4", 3},
                      {"16 GT/s", "16", 24},        {"32.0 GT/s PCIe", "16", 48},
                      {"64.0 GT/s PCIe", "16", 96}, {"", "0", 12},
                      {"Unknown", "255", 12},       {"Unknown speed", "1", 0.75}};
  for (const auto& one : kCases) {
    const System system =
        parse_xml(on_cpu("<pci busid=\"0000:01:00.0\" class=\"0x030200\" link_speed=\"" +
                         std::string(one.speed) + "\" link_width=\"" + one.width +
                         "\"><gpu dev=\"0\" sm=\"80\"/></pci>"),
                  "lanes");
    const std::size_t gpu = system.of_type(NodeType::kGpu).at(0);
    EXPECT_EQ(system.nodes[gpu].links.at(0).gb_per_s, one.gb_per_s)
        << one.speed << " x" << one.width;
  }
}

TEST(TopologyXml, CpuGenerationDecidesTheLinkBetweenSockets) {
  struct {
    const char* attributes;
    double gb_per_s;
  } const kCases[] = {
      {"arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"79\"", 6},
      {"arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"85\"", 10},
      {"arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"143\"", 22},
      {"arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"207\"", 40},
      {"arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"173\"", 40},
      {"arch=\"x86_64\" vendor=\"AuthenticAMD\" familyid=\"23\" modelid=\"49\"", 16},
      {"arch=\"x86_64\" vendor=\"AuthenticAMD\" familyid=\"143\" modelid=\"49\"", 16},
      {"arch=\"x86_64\" vendor=\"AuthenticAMD\" familyid=\"25\" modelid=\"1\"", 24},
      {"arch=\"x86_64\" vendor=\"AuthenticAMD\" familyid=\"26\" modelid=\"2\"", 32},
      {"arch=\"arm64\"", 6},
      {"arch=\"ppc64\"", 32},
      {"arch=\"riscv64\"", 5000}};
  for (const auto& one : kCases) {
    const std::string attributes = one.attributes;
    const System system = parse_xml("<system><cpu numaid=\"0\" " + attributes + ">" + kGpu0 +
                                        "</cpu><cpu numaid=\"1\" " + attributes + "/></system>",
                                    "cpus");
    const std::vector<std::size_t> cpus = system.of_type(NodeType::kCpu);
    EXPECT_EQ(link_between(system, cpus[0], cpus[1])->gb_per_s, one.gb_per_s) << attributes;
  }
}

TEST(TopologyXml, NvLinksAddUpAndNeedNoBusIdOfASwitch) {
  // A DGX A100 lists six NVSwitches with two links each; they are one crossbar.
  std::string gpus;
  for (const char* bus : {"01", "02"}) {
    gpus += "<pci busid=\"0000:" + std::string(bus) +
            ":00.0\" class=\"0x030200\" link_speed=\"16 GT/s\" link_width=\"16\"><gpu dev=\"" +
            bus + "\" sm=\"80\">";
    for (const char* target : {"c4", "c5", "c6", "c7", "c8", "c9"}) {
      gpus += "<nvlink target=\"0000:" + std::string(target) +
              ":00.0\" count=\"2\" tclass=\"0x068000\"/>";
    }
    gpus += "</gpu></pci>";
  }
  const System system = parse_xml(on_cpu(gpus), "switches");
  ASSERT_EQ(system.of_type(NodeType::kNvSwitch).size(), 1u);
  const std::size_t nv_switch = system.of_type(NodeType::kNvSwitch)[0];
  for (const std::size_t gpu : system.ranks()) {
    EXPECT_EQ(link_between(system, gpu, nv_switch)->gb_per_s, 240);
  }
}

TEST(TopologyXml, ACloudFileWithoutGpuElementsGetsRanksByBusId) {
  const std::string bare = on_cpu(
      "<pci busid=\"0002:00:00.0\" class=\"0x030200\" link_speed=\"\" link_width=\"0\"/>"
      "<pci busid=\"0001:00:00.0\" class=\"0x030200\" link_speed=\"\" link_width=\"0\"/>"
      "<pci busid=\"0101:00:00.0\" class=\"0x020700\" link_speed=\"\" link_width=\"0\"/>");
  const System system = parse_xml(bare, "cloud");
  ASSERT_EQ(system.ranks().size(), 2u);
  EXPECT_EQ(system.nodes[system.ranks()[0]].id, "0001:00:00.0");
  EXPECT_EQ(system.nodes[system.ranks()[1]].id, "0002:00:00.0");
  EXPECT_EQ(system.of_type(NodeType::kNic).size(), 1u);
  EXPECT_EQ(system.of_type(NodeType::kNet).size(), 0u);
  // Beside a GPU that is described, a bare one is not part of the job.
  const std::size_t cut = bare.find("<pci");
  const System described = parse_xml(bare.substr(0, cut) + kGpu0 + bare.substr(cut), "both");
  EXPECT_EQ(described.of_type(NodeType::kGpu).size(), 1u);
}

TEST(TopologyXml, TakesWhatNewerDumpsHold) {
  const std::string dump = on_cpu(
      "<!-- a comment -->"
      "<pci busid=\"00000000:0A:00.0\" class=\"0x060400\" vendor=\"0x1000\" device=\"0xc010\" "
      "link_speed=\"16.0 GT/s PCIe\" link_width=\"16\"><pcilink target=\"0000:0b:00.0\"/>" +
      kGpu0 +
      "</pci>"
      "<nic><net name=\"eth0\" dev=\"0\" latency=\"0.0\" speed=\"-1\" port=\"0\" guid=\"0x1\" "
      "maxconn=\"131072\" gdr=\"0\" coll=\"1\" keep=\"1\"/><gin dev=\"0\"/><net name=\"no "
      "dev\"/></nic>");
  const System system = parse_xml("<?xml version=\"1.0\"?>\n" + dump, "dump");
  EXPECT_EQ(system.nodes[system.of_type(NodeType::kPci).at(0)].id, "0000:0a:00.0");
  ASSERT_EQ(system.of_type(NodeType::kNet).size(), 1u);
  EXPECT_EQ(system.nodes[system.of_type(NodeType::kNet)[0]].gb_per_s, 1.25);  // 10 Gb/s if unknown
  EXPECT_EQ(parse_xml(to_xml(system), "again"), system);
}

TEST(TopologyXml, ReadsChipToChipLinks) {
  const System system = parse_xml(
      "<system><cpu numaid=\"0\" arch=\"arm64\"><pci busid=\"0009:01:00.0\" class=\"0x030200\" "
      "link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"><gpu dev=\"0\" sm=\"90\" rank=\"0\">"
      "<c2c count=\"10\" bw=\"44712\"/></gpu></pci></cpu></system>",
      "grace");
  const std::size_t gpu = system.ranks().at(0);
  const Paths paths(system);
  const Path& path = paths.between(gpu, system.of_type(NodeType::kCpu).at(0));
  EXPECT_EQ(path.type, PathType::kC2c);
  EXPECT_DOUBLE_EQ(path.gb_per_s, 447.12);
  EXPECT_EQ(parse_xml(to_xml(system), "again"), system);
}

TEST(TopologyXml, WritesWhatItReads) {
  for (const Machine& machine : {switched(80), switched(90), cube_mesh(), interleaved_pcie(),
                                 full_mesh(5, 86, 3), full_mesh(1, 100, 0)}) {
    const System system = parse_xml(describe(machine), "first");
    const std::string written = to_xml(system);
    EXPECT_EQ(parse_xml(written, "second"), system);
    EXPECT_EQ(to_xml(parse_xml(written, "second")), written);
  }
}

TEST(TopologyXml, RefusesToWriteWhatNoDescriptionGives) {
  System odd = parse_xml(describe(switched(90)), "h100");
  const std::size_t gpu = odd.ranks()[0];
  odd.nodes[gpu].links[0].gb_per_s = 47.3;
  odd.nodes[odd.nodes[gpu].links[0].to].links.back().gb_per_s = 47.3;
  EXPECT_THROW((void)to_xml(odd), Error);
  System loose;
  loose.nodes.emplace_back().type = NodeType::kGpu;
  EXPECT_THROW((void)to_xml(loose), Error);
}

}  // namespace
}  // namespace rungs::topology
