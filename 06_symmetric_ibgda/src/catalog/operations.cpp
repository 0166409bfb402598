// Stage 06 as the harness, the CLI and the chapter's table see it.

#include "catalog/all_reduce.hpp"
#include "catalog/put_problem.hpp"

#include <rungs/ladder/build.hpp>
#include <rungs/symmetric/catalog.hpp>

#include <array>
#include <memory>
#include <utility>
#include <vector>

namespace rungs::symmetric {
namespace {

struct PutCase {
  const char* name;
  PutShape shape;
  bool quick;
};
constexpr std::array<PutCase, 4> kPutCases{{
    {"8B", {8, 32}, true},
    {"4KiB", {4 << 10, 16}, true},
    {"64KiB", {64 << 10, 8}, false},
    {"1MiB", {1 << 20, 2}, false},
}};

ladder::Operation put() {
  ladder::OperationSpec<PutArgs> spec;
  spec.stage = "06_symmetric_ibgda";
  spec.name = "symmetric_put";
  spec.ranks = kPutRanks;
  spec.oracle = "the bytes that were sent, every one at both ends";
  spec.error_bound = "none: every byte as it was sent";
  for (const PutCase& entry : kPutCases) {
    // A time is a round trip's.
    ladder::Case& added = spec.cases.emplace_back();
    added.name = entry.name;
    const auto message = static_cast<double>(entry.shape.size_bytes);
    added.cost.bytes = 4 * message;
    added.cost.wire_bytes = 2 * message;
    added.cost.steps = 2;
    added.in_tour = true;
    added.in_quick = entry.quick;
  }
  spec.make_problem = [](std::size_t index, const ladder::Machine&, std::uint64_t seed) {
    return std::make_unique<PutProblem>(kPutCases.at(index).shape, seed);
  };
  return ladder::make_operation(kPutLadder, std::move(spec));
}

}  // namespace

std::vector<ladder::Operation> operations() { return {put(), small_all_reduce_operation()}; }

}  // namespace rungs::symmetric
