/// The topology half of stage 02 as the harness, the CLI and the chapter's table see it.
#include "catalog_topology/rings_problem.hpp"

#include <rungs/topology/catalog.hpp>

#include <utility>

namespace rungs::topology {
namespace {

struct RingCase {
  const char* name;
  Machine machine;
};

std::vector<RingCase> cases() {
  return {{"8xV100 cube mesh", cube_mesh()},
          {"8xA100 NVSwitch", switched(80)},
          {"8xH100 NVSwitch", switched(90)},
          {"4xA100 full mesh", full_mesh(4, 80, 4)},
          {"8xA10 PCIe, interleaved", interleaved_pcie()}};
}

ladder::Operation topology_rings() {
  ladder::OperationSpec<RingArgs> spec;
  spec.stage = "02_bootstrap_topology";
  spec.name = "topology_rings";
  spec.oracle = "every path listed, each link's load summed; up to 4 GPUs every set of rings tried";
  spec.error_bound =
      "equal; claimed ÷ carried bandwidth within 2^-23. Times are modelled: one GiB "
      "all-reduced at the rings' bandwidth";
  spec.on_host = true;
  for (const RingCase& one : cases()) {
    ladder::Case& added = spec.cases.emplace_back();
    added.name = one.name;
    const double ranks = one.machine.gpus;
    added.cost.steps = 2 * (ranks - 1);
    added.cost.wire_bytes = 2 * (ranks - 1) * 1024 * 1024 * 1024;  // all ranks together
    added.in_tour = true;
    added.in_quick = spec.cases.size() == 1;
  }
  spec.make_problem = [](std::size_t index, const ladder::Machine&, std::uint64_t) {
    return std::make_unique<RingsProblem>(cases().at(index).machine);
  };
  return ladder::make_operation(kRingLadder, std::move(spec));
}

}  // namespace

std::vector<ladder::Operation> operations() { return {topology_rings()}; }

}  // namespace rungs::topology
