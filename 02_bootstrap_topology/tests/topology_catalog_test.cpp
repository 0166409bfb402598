/// What the tour and the benches run, and the descriptions in data/topologies.

#include "catalog_topology/oracle.hpp"
#include "catalog_topology/rings_problem.hpp"

#include <rungs/core/error.hpp>
#include <rungs/testing/ladder_test.hpp>
#include <rungs/topology/catalog.hpp>
#include <rungs/topology/topology.hpp>

#include <gtest/gtest.h>

#include <string>

namespace rungs::topology {
namespace {

RUNGS_LADDER_TEST(TopologyLadder, operations());

TEST(TopologyLadderRow, RingsThatClaimTooMuchFailTheirCheck) {
  RingsProblem problem(interleaved_pcie());
  const RingArgs args = problem.args();
  *args.rings = rank_order(*args.system);
  EXPECT_EQ(problem.output(), (std::vector<float>{1, 1, 1}));
  args.rings->gb_per_s *= 2;
  EXPECT_EQ(problem.output()[1], 2);
  args.rings->gb_per_s = 1000;
  EXPECT_EQ(problem.output()[2], 0);
  args.rings->rings[0].ranks[1] = 0;
  EXPECT_EQ(problem.output()[0], 0);
  problem.reset();
  EXPECT_EQ(problem.output()[0], 0);
}

TEST(TopologyLadderRow, ModelledTimeIsThatOfARing) {
  Rings rings;
  rings.rings.push_back({{0, 1, 2, 3}, PathType::kNvl});
  rings.gb_per_s = 10;
  EXPECT_DOUBLE_EQ(modelled_seconds(rings), 1.5 * 1073741824.0 / 10e9);
}

struct Described {
  const char* file;
  std::size_t rings;
  double total;
  double naive;
  std::size_t nets;
};

TEST(TopologyData, CommittedDescriptionsGiveTheChaptersFigures) {
  const Described kFiles[] = {{"aws-p4d-8xA100.xml", 6, 240, 40, 4},
                              {"azure-ndv4-8xA100.xml", 6, 240, 40, 8},
                              {"azure-ndv5-8xH100.xml", 7, 18 * 20.6, 60, 8}};
  for (const Described& one : kFiles) {
    const System system = read_xml(concat(RUNGS_TOPOLOGIES, "/", one.file));
    EXPECT_EQ(system.ranks().size(), 8u) << one.file;
    EXPECT_EQ(system.of_type(NodeType::kNet).size(), one.nets) << one.file;
    const Rings rings = search(system);
    EXPECT_EQ(rings.rings.size(), one.rings) << one.file;
    EXPECT_DOUBLE_EQ(rings.total(), one.total) << one.file;
    EXPECT_EQ(rank_order(system).total(), one.naive) << one.file;
    EXPECT_EQ(overload(system, rings), "") << one.file;
    EXPECT_NEAR(Oracle(system).carried(rings), rings.gb_per_s, 1e-9) << one.file;
    EXPECT_EQ(parse_xml(to_xml(system), "again"), system) << one.file;
    // Every GPU has a NIC on its own switch.
    const Paths paths(system);
    for (const std::size_t gpu : system.ranks()) {
      PathType nearest = PathType::kNone;
      for (const std::size_t net : system.of_type(NodeType::kNet)) {
        nearest = std::min(nearest, paths.between(gpu, net).type);
      }
      EXPECT_EQ(nearest, PathType::kPix) << one.file;
    }
  }
}

}  // namespace
}  // namespace rungs::topology
