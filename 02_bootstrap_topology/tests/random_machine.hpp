#pragma once
/// @file random_machine.hpp
/// Machines nobody has built, from a seed.

#include "catalog_topology/machines.hpp"

#include <rungs/testing/random.hpp>

#include <cstdint>
#include <utility>

namespace rungs::topology {

/// One to `most_gpus` GPUs with some NVLinks, an NVSwitch or neither, and ranks in any order.
inline Machine random_machine(std::uint64_t seed, int most_gpus = 5) {
  testing::Random random(seed);
  const auto one_of = [&](auto... choices) {
    const int values[] = {choices...};
    return values[random.below(sizeof...(choices))];
  };
  Machine machine;
  machine.gpus = 1 + static_cast<int>(random.below(static_cast<std::uint64_t>(most_gpus)));
  machine.compute_capability = one_of(70, 80, 86, 90, 100);
  machine.cpus = one_of(1, 2, 3);
  machine.gpus_a_switch = one_of(1, 2, 4);
  machine.nic_a_switch = random.below(2) == 0;
  machine.pci_gt_per_s = one_of(8, 16, 32);
  machine.cpu_model = one_of(79, 85, 143, 207);
  const int kind = one_of(0, 1, 2, 2);
  if (kind == 1) machine.switch_links = one_of(4, 12, 18);
  for (int a = 0; kind == 2 && a < machine.gpus; ++a) {
    for (int b = a + 1; b < machine.gpus; ++b) {
      const int links = one_of(0, 1, 1, 2, 4);
      if (links > 0) machine.pairs.push_back({a, b, links});
    }
  }
  for (int gpu = 0; gpu < machine.gpus; ++gpu) machine.ranks.push_back(gpu);
  for (std::size_t i = machine.ranks.size(); i > 1; --i) {
    std::swap(machine.ranks[i - 1], machine.ranks[random.below(i)]);
  }
  return machine;
}

}  // namespace rungs::topology
