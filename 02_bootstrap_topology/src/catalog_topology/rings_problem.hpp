#pragma once
/// @file rings_problem.hpp
/// The ladder of ring choices: a machine in, rings out.

#include "catalog_topology/machines.hpp"
#include "catalog_topology/oracle.hpp"

#include <rungs/ladder/build.hpp>
#include <rungs/topology/topology.hpp>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace rungs::topology {

struct RingArgs {
  const System* system = nullptr;
  Rings* rings = nullptr;
};

/// rank_order, search.
extern const std::array<ladder::Rung<RingArgs>, 2> kRingLadder;

/// Output, three numbers that are all 1 if the rings are good: whether each visits every rank once;
/// the bandwidth they claim ÷ the bandwidth they have; whether they claim no more than is possible.
class RingsProblem final : public ladder::Problem<RingArgs> {
 public:
  explicit RingsProblem(const Machine& machine);
  RingArgs args() override { return {&system_, &rings_}; }
  void reset() override;
  std::vector<float> output() override;
  ladder::Reference reference() override { return {{1, 1, 1}, {}}; }
  double bound(std::size_t element) override;
  std::string describe(std::size_t element) override;

 private:
  System system_;
  Oracle oracle_;
  double possible_;
  Rings rings_;
};

/// What a ring all-reduce of one GiB takes at the rings' bandwidth alone.
double modelled_seconds(const Rings& rings);

}  // namespace rungs::topology
