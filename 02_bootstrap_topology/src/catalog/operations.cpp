/// The bootstrap half of stage 02 as the harness, the CLI and the chapter's table see it.
#include "catalog/all_gather_problem.hpp"

#include <rungs/bootstrap/catalog.hpp>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace rungs::bootstrap {
namespace {

struct CatalogCase {
  int ranks;
  std::size_t block_bytes;
  bool in_quick;
};

const std::vector<CatalogCase>& catalog_cases() {
  static const std::vector<CatalogCase> cases{
      {4, 64, true},         {8, 64, false},       {16, 64, false},
      {4, 64 << 10, true},   {8, 64 << 10, false}, {4, std::size_t{1} << 20, false},
      {8, 256 << 10, false},
  };
  return cases;
}

std::string size_text(std::size_t size_bytes) {
  if (size_bytes >= (std::size_t{1} << 20)) return std::to_string(size_bytes >> 20) + " MiB";
  if (size_bytes >= 1024) return std::to_string(size_bytes >> 10) + " KiB";
  return std::to_string(size_bytes) + " B";
}

ladder::Case describe(const CatalogCase& entry) {
  const double ranks = entry.ranks;
  ladder::Case result;
  result.name = std::to_string(entry.ranks) + " ranks x " + size_text(entry.block_bytes);
  // At least: every rank must get the blocks of all others, and news crosses a ring in n / 2 steps.
  result.cost.wire_bytes = ranks * (ranks - 1) * static_cast<double>(entry.block_bytes);
  result.cost.steps = 1;
  result.in_quick = entry.in_quick;
  result.in_tour = entry.ranks <= 8;
  return result;
}

ladder::Operation bootstrap_all_gather() {
  ladder::OperationSpec<AllGatherArgs> spec;
  spec.stage = "02_bootstrap_topology";
  spec.name = "bootstrap_all_gather";
  spec.oracle = "every rank's result holds every rank's block, element by element";
  spec.error_bound = "equal: bytes are moved";
  spec.on_host = true;
  for (const CatalogCase& entry : catalog_cases()) {
    spec.cases.push_back(describe(entry));
    spec.ranks = std::max(spec.ranks, entry.ranks);
  }
  spec.make_problem = [](std::size_t index, const ladder::Machine&, std::uint64_t seed) {
    const CatalogCase& entry = catalog_cases().at(index);
    return std::make_unique<AllGatherProblem>(entry.ranks, entry.block_bytes, seed);
  };
  return ladder::make_operation(kAllGatherLadder, std::move(spec));
}

}  // namespace

std::vector<ladder::Operation> operations() { return {bootstrap_all_gather()}; }

}  // namespace rungs::bootstrap
