/// Paths by type and width: known machines, and the oracle that lists every path.

#include "catalog_topology/machines.hpp"
#include "catalog_topology/oracle.hpp"
#include "random_machine.hpp"

#include <rungs/core/error.hpp>
#include <rungs/topology/topology.hpp>

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace rungs::topology {
namespace {

struct Known {
  System system;
  Paths paths;
  explicit Known(const Machine& machine)
      : system(parse_xml(describe(machine), "known")),
        paths(system) {}
  const Path& gpus(int from, int to) const {
    return paths.between(system.ranks()[static_cast<std::size_t>(from)],
                         system.ranks()[static_cast<std::size_t>(to)]);
  }
  const Path& to_net(int gpu, int net) const {
    return paths.between(system.ranks()[static_cast<std::size_t>(gpu)],
                         system.of_type(NodeType::kNet)[static_cast<std::size_t>(net)]);
  }
};

TEST(TopologyPaths, NvSwitchJoinsAllGpus) {
  const Known h100(switched(90));
  for (int from = 0; from < 8; ++from) {
    for (int to = 0; to < 8; ++to) {
      const Path& path = h100.gpus(from, to);
      EXPECT_EQ(path.type, from == to ? PathType::kLocal : PathType::kNvl);
      if (from == to) continue;
      EXPECT_DOUBLE_EQ(path.gb_per_s, 18 * 20.6);
      ASSERT_EQ(path.nodes.size(), 3u);
      EXPECT_EQ(h100.system.nodes[path.nodes[1]].type, NodeType::kNvSwitch);
    }
  }
  // Each GPU has one NIC on its own switch; the others it reaches over the GPU beside them.
  EXPECT_EQ(h100.to_net(2, 2).type, PathType::kPix);
  EXPECT_EQ(h100.to_net(2, 2).gb_per_s, 48);
  EXPECT_EQ(h100.to_net(2, 5).type, PathType::kPxn);
  EXPECT_EQ(h100.to_net(2, 5).gb_per_s, 48);
}

TEST(TopologyPaths, CubeMeshGoesOverANeighbour) {
  const Known mesh(cube_mesh());
  EXPECT_EQ(mesh.gpus(0, 1).type, PathType::kNvl);
  EXPECT_EQ(mesh.gpus(0, 1).gb_per_s, 20);
  EXPECT_EQ(mesh.gpus(0, 4).gb_per_s, 40);
  // 0 and 7 are not joined; over 4 both ways have two links.
  const Path& over = mesh.gpus(0, 7);
  EXPECT_EQ(over.type, PathType::kNvb);
  EXPECT_EQ(over.gb_per_s, 40);
  ASSERT_EQ(over.nodes.size(), 3u);
  EXPECT_EQ(mesh.system.nodes[over.nodes[1]].rank, 4);
}

TEST(TopologyPaths, PcieTypesByWhatLiesBetween) {
  const System system = parse_xml(
      R"(<system>
        <cpu numaid="0" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="85">
          <pci busid="0000:01:00.0" class="0x060400" link_speed="16 GT/s" link_width="16">
            <pci busid="0000:02:00.0" class="0x060400" link_speed="16 GT/s" link_width="16">
              <pci busid="0000:03:00.0" class="0x030200" link_speed="16 GT/s" link_width="16">
                <gpu dev="0" sm="80" rank="0"/></pci>
              <pci busid="0000:04:00.0" class="0x030200" link_speed="16 GT/s" link_width="8">
                <gpu dev="1" sm="80" rank="1"/></pci>
            </pci>
            <pci busid="0000:05:00.0" class="0x060400" link_speed="16 GT/s" link_width="16">
              <pci busid="0000:06:00.0" class="0x030200" link_speed="16 GT/s" link_width="16">
                <gpu dev="2" sm="80" rank="2"/></pci>
            </pci>
          </pci>
          <pci busid="0000:07:00.0" class="0x030200" link_speed="16 GT/s" link_width="16">
            <gpu dev="3" sm="80" rank="3"/></pci>
        </cpu>
        <cpu numaid="1" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="85">
          <pci busid="0000:08:00.0" class="0x030200" link_speed="16 GT/s" link_width="16">
            <gpu dev="4" sm="80" rank="4"/></pci>
        </cpu>
      </system>)",
      "pcie");
  const Paths paths(system);
  const std::vector<std::size_t> gpus = system.ranks();
  const auto expect = [&](std::size_t from, std::size_t to, PathType type, double gb_per_s) {
    EXPECT_EQ(paths.between(gpus[from], gpus[to]).type, type) << from << " to " << to;
    EXPECT_EQ(paths.between(gpus[from], gpus[to]).gb_per_s, gb_per_s) << from << " to " << to;
  };
  expect(0, 1, PathType::kPix, 12);
  expect(0, 2, PathType::kPxb, 24);
  expect(0, 3, PathType::kPhb, 24);
  expect(0, 4, PathType::kSys, 10);
  expect(3, 4, PathType::kSys, 10);
}

// A worse type early on must not hide a better path later, nor a wide detour win over a better
// type.
TEST(TopologyPaths, TypeComesBeforeBandwidth) {
  Machine machine = full_mesh(2, 80, 1);  // 20 GB/s of NVLink beside 48 GB/s of PCIe
  machine.gpus_a_switch = 2;
  const Known pair(machine);
  EXPECT_EQ(pair.gpus(0, 1).type, PathType::kNvl);
  EXPECT_EQ(pair.gpus(0, 1).gb_per_s, 20);
}

TEST(TopologyPaths, AGpuIsNoThoroughfare) {
  // 0-1 by NVLink, 2 on PCIe only: the way from 0 to 2 goes by PCIe, not over GPU 1.
  Machine machine = interleaved_pcie();
  machine.gpus = 3;
  machine.ranks.clear();
  machine.cpus = 3;
  machine.pairs = {{0, 1, 4}};
  const Known three(machine);
  EXPECT_EQ(three.gpus(0, 1).type, PathType::kNvl);
  EXPECT_EQ(three.gpus(0, 2).type, PathType::kSys);
  for (const std::size_t node : three.gpus(0, 2).nodes) {
    EXPECT_NE(node, three.system.ranks()[1]);
  }
}

TEST(TopologyPaths, PathsAreWhatTheySay) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const System system = parse_xml(describe(random_machine(seed)), "random");
    const Paths paths(system);
    for (std::size_t from = 0; from < system.nodes.size(); ++from) {
      for (std::size_t to = 0; to < system.nodes.size(); ++to) {
        const Path& path = paths.between(from, to);
        if (path.type == PathType::kNone) continue;
        ASSERT_EQ(path.nodes.front(), from);
        ASSERT_EQ(path.nodes.back(), to);
        double width = 5000;
        for (std::size_t i = 0; i + 1 < path.nodes.size(); ++i) {
          double widest = 0;
          for (const Link& link : system.nodes[path.nodes[i]].links) {
            if (link.to == path.nodes[i + 1]) widest = std::max(widest, link.gb_per_s);
          }
          width = std::min(width, widest);
        }
        EXPECT_EQ(path.gb_per_s, width);
      }
    }
  }
}

TEST(TopologyPaths, AgreeWithAListOfAllPaths) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const System system = parse_xml(describe(random_machine(seed)), "random");
    const Paths paths(system);
    const Oracle oracle(system);
    std::vector<std::size_t> ends = system.ranks();
    const std::vector<std::size_t> nets = system.of_type(NodeType::kNet);
    ends.insert(ends.end(), nets.begin(), nets.end());
    for (const std::size_t from : ends) {
      for (const std::size_t to : ends) {
        const Path expected = oracle.best_path(from, to);
        const Path& path = paths.between(from, to);
        EXPECT_EQ(path.type, expected.type) << "seed " << seed << ": " << from << " to " << to;
        EXPECT_EQ(path.gb_per_s, expected.gb_per_s) << "seed " << seed;
        EXPECT_EQ(path.nodes, expected.nodes) << "seed " << seed << ": " << from << " to " << to;
      }
    }
  }
}

TEST(TopologyPaths, NoSuchNode) {
  const System system = parse_xml(describe(switched(90)), "h100");
  EXPECT_THROW((void)Paths(system).between(0, system.nodes.size()), Error);
  System broken = system;
  broken.nodes[0].links.push_back({9999, LinkType::kPci, 1});
  EXPECT_THROW(Paths{broken}, Error);
}

}  // namespace
}  // namespace rungs::topology
