/// Rings: known machines, machines small enough to try everything, and what must hold on all.

#include "catalog_topology/machines.hpp"
#include "catalog_topology/oracle.hpp"
#include "random_machine.hpp"

#include <rungs/core/error.hpp>
#include <rungs/topology/topology.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

namespace rungs::topology {
namespace {

System system_of(const Machine& machine) { return parse_xml(describe(machine), "machine"); }

TEST(TopologySearch, H100sUseAllOfTheirNvLinks) {
  const Rings rings = search(system_of(switched(90)));
  EXPECT_EQ(rings.rings.size(), 7u);
  EXPECT_DOUBLE_EQ(rings.total(), 18 * 20.6);
  EXPECT_EQ(rings.rings[0].type, PathType::kNvl);
  EXPECT_EQ(rank_order(system_of(switched(90))).total(), 60);
}

// NVIDIA/nccl-tests#100: 24 channels in rank order on 8 A100; NCCL doubles twice what it finds.
TEST(TopologySearch, A100sUseAllOfTheirNvLinks) {
  const Rings rings = search(system_of(switched(80)));
  EXPECT_EQ(rings.rings.size(), 6u);
  EXPECT_EQ(rings.gb_per_s, 40);
  for (const Ring& ring : rings.rings) {
    EXPECT_EQ(ring.ranks, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}));
  }
}

// The machine for which rank order is wrong: three rings, each in both directions, use every link.
TEST(TopologySearch, CubeMeshUsesEveryLink) {
  const System system = system_of(cube_mesh());
  const Rings rings = search(system);
  EXPECT_EQ(rings.rings.size(), 6u);
  EXPECT_EQ(rings.total(), 120);
  for (const Ring& ring : rings.rings) EXPECT_EQ(ring.type, PathType::kNvl);
  EXPECT_EQ(rank_order(system).total(), 20);
  EXPECT_EQ(rank_order(system).rings[0].type, PathType::kNvb);
}

// NVIDIA/nccl#713: NCCL's six rings through four V100, two links a pair.
TEST(TopologySearch, FourGpusAllJoinedNeedAllSixRings) {
  const Rings rings = search(system_of(full_mesh(4, 70, 2)));
  EXPECT_EQ(rings.total(), 120);
  std::set<std::vector<int>> orders;
  for (const Ring& ring : rings.rings) orders.insert(ring.ranks);
  EXPECT_EQ(orders.size(), 6u);
}

// A complete digraph falls into rings, except on 4 and 6 GPUs, where half links are needed.
TEST(TopologySearch, FullMeshesAreUsedUp) {
  for (int gpus = 2; gpus <= 12; ++gpus) {
    const Rings rings = search(system_of(full_mesh(gpus, 80, 1)));
    EXPECT_DOUBLE_EQ(rings.total(), 20.0 * (gpus - 1)) << gpus << " GPUs";
  }
}

TEST(TopologySearch, WithoutNvLinkEachSocketIsEnteredOnce) {
  const System system = system_of(interleaved_pcie());
  EXPECT_EQ(rank_order(system).total(), 2.5);  // four crossings of 10 GB/s
  const Rings rings = search(system);
  EXPECT_EQ(rings.total(), 10);
  EXPECT_EQ(rings.rings.size(), 1u);
}

// Socket by socket there is no ring; the search must not spend its steps on finding that out.
TEST(TopologySearch, SixteenGpusOnPcieInAnyOrder) {
  Machine machine = interleaved_pcie();
  machine.gpus = 16;
  machine.gpus_a_switch = 2;
  machine.ranks = {3, 12, 0, 7, 9, 14, 5, 10, 1, 15, 6, 2, 11, 8, 13, 4};
  const System system = system_of(machine);
  EXPECT_LT(rank_order(system).total(), 3);
  EXPECT_EQ(search(system).total(), 10);
}

TEST(TopologySearch, OneGpuIsARingOfItsOwn) {
  Machine machine = switched(90);
  machine.gpus = 1;
  for (const Rings& rings : {search(system_of(machine)), rank_order(system_of(machine))}) {
    ASSERT_EQ(rings.rings.size(), 1u);
    EXPECT_EQ(rings.rings[0].ranks, std::vector<int>{0});
    EXPECT_EQ(rings.rings[0].type, PathType::kLocal);
    EXPECT_EQ(overload(system_of(machine), rings), "");
  }
}

TEST(TopologySearch, FindsTheOptimumWhereEverythingCanBeTried) {
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    const Machine machine = random_machine(seed);
    if (machine.gpus == 1) continue;  // its ring crosses nothing
    const System system = system_of(machine);
    const int most_rings = machine.gpus == 5 ? 4 : 8;
    const double optimum = Oracle(system).optimum(most_rings);
    const Rings rings = search(system, most_rings);
    EXPECT_NEAR(rings.total(), optimum, 1e-9 * optimum) << "seed " << seed << "\n"
                                                        << describe(machine);
  }
}

TEST(TopologySearch, RingsFitOnEveryMachine) {
  for (std::uint64_t seed = 1000; seed < 1040; ++seed) {
    const Machine machine = random_machine(seed, 16);
    const System system = system_of(machine);
    const Oracle oracle(system);
    const Rings naive = rank_order(system);
    const Rings rings = search(system);
    for (const Rings* one : {&naive, &rings}) {
      EXPECT_EQ(overload(system, *one), "") << "seed " << seed;
      EXPECT_EQ(oracle.broken(*one), "") << "seed " << seed;
      EXPECT_NEAR(one->gb_per_s, oracle.carried(*one), 1e-9 * one->gb_per_s) << "seed " << seed;
    }
    EXPECT_GE(rings.total(), naive.total()) << "seed " << seed;
    EXPECT_LE(rings.rings.size(), 16u);
    if (machine.gpus > 1) {
      EXPECT_LE(rings.total(), oracle.at_most() * (1 + 1e-9)) << "seed " << seed;
    }
  }
}

TEST(TopologySearch, OneToSixteenGpusOnASwitchOrOnPcie) {
  for (int gpus = 1; gpus <= 16; ++gpus) {
    Machine machine = switched(90);
    machine.gpus = gpus;
    const Rings rings = search(system_of(machine));
    EXPECT_DOUBLE_EQ(rings.total(), gpus == 1 ? 60 : 18 * 20.6) << gpus;
    machine.switch_links = 0;
    const System pcie = system_of(machine);
    EXPECT_EQ(overload(pcie, search(pcie)), "") << gpus;
    EXPECT_GE(search(pcie).total(), rank_order(pcie).total()) << gpus;
  }
}

TEST(TopologySearch, NoMoreRingsThanAsked) {
  const System system = system_of(cube_mesh());
  EXPECT_EQ(search(system, 1).rings.size(), 1u);
  EXPECT_EQ(search(system, 1).total(), 40);  // the ring of double links
  EXPECT_EQ(search(system, 2).total(), 80);
  EXPECT_THROW((void)search(system, 0), Error);
}

TEST(TopologySearch, TheSameEveryTime) {
  const System system = system_of(cube_mesh());
  const Rings once = search(system);
  const Rings again = search(parse_xml(to_xml(system), "copy"));
  ASSERT_EQ(once.rings.size(), again.rings.size());
  for (std::size_t i = 0; i < once.rings.size(); ++i) {
    EXPECT_EQ(once.rings[i].ranks, again.rings[i].ranks);
  }
}

TEST(TopologySearch, RanksNeedNotBeginAtZero) {
  Machine machine = cube_mesh();
  machine.ranks = {8, 9, 10, 11, 12, 13, 14, 15};
  const Rings rings = search(system_of(machine));
  EXPECT_EQ(rings.total(), 120);
  EXPECT_EQ(*std::min_element(rings.rings[0].ranks.begin(), rings.rings[0].ranks.end()), 8);
}

TEST(TopologySearch, WithoutGpusThereIsNoRing) {
  const System none;
  EXPECT_THROW((void)rank_order(none), Error);
  EXPECT_THROW((void)search(none), Error);
  System apart = system_of(full_mesh(2, 80, 1));
  for (Node& node : apart.nodes) node.links.clear();
  EXPECT_THROW((void)search(apart), Error);
}

TEST(TopologyOverload, SaysWhichLinkCarriesTooMuch) {
  const System system = system_of(interleaved_pcie());
  Rings rings = rank_order(system);
  rings.gb_per_s = 3;
  const std::string text = overload(system, rings);
  EXPECT_TRUE(text == "NUMA 0 -> NUMA 1 carries 12 GB/s of 10" ||
              text == "NUMA 1 -> NUMA 0 carries 12 GB/s of 10")
      << text;
  rings.gb_per_s = std::nan("");
  EXPECT_NE(overload(system, rings), "");
  rings.gb_per_s = 1;
  rings.rings[0].ranks.pop_back();
  EXPECT_EQ(overload(system, rings), "a ring visits 7 of 8 ranks");
  rings.rings[0].ranks.push_back(0);
  EXPECT_EQ(overload(system, rings), "a ring visits rank 0 twice");
  rings.rings[0].ranks.back() = 99;
  EXPECT_EQ(overload(system, rings), "a ring names rank 99, which no GPU has");
  const System h100 = system_of(switched(90));
  Rings fast = rank_order(h100);
  fast.gb_per_s = 100;
  EXPECT_EQ(overload(h100, fast), "a ring runs at 100 GB/s, and a channel carries 60");
}

}  // namespace
}  // namespace rungs::topology
