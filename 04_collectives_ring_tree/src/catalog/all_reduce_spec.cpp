#include "catalog/all_reduce_spec.hpp"

#include <memory>
#include <utility>
#include <vector>

namespace rungs::collectives {

ladder::OperationSpec<CollectiveArgs> all_reduce_spec(std::string stage, std::string name,
                                                      std::span<const AllReduceSize> sizes,
                                                      int steps) {
  ladder::OperationSpec<CollectiveArgs> spec;
  spec.stage = std::move(stage);
  spec.name = std::move(name);
  spec.ranks = kCatalogRanks;
  spec.oracle = "reduction in double of every rank's input, every element";
  spec.error_bound =
      "(n-1)u/(1-(n-1)u) sum|x|, avg one rounding more; u = 2^-24 (f32), 2^-8 (bf16); i32 and max "
      "exact";
  std::vector<CollectiveShape> shapes;
  for (const AllReduceSize& size : sizes) {
    shapes.push_back({Collective::kAllReduce, size.dtype, size.op, size.count});
    ladder::Case& added = spec.cases.emplace_back();
    added.name = size.name;
    const double n = kCatalogRanks;
    const auto buffer = static_cast<double>(size.count * size_bytes(size.dtype));
    added.cost.bytes = 2 * n * buffer;
    added.cost.wire_bytes = 2 * (n - 1) * buffer;  // user bytes: LL sends twice as many
    added.cost.steps = steps;
    added.in_tour = !size.gpu_only;
    added.in_quick = size.quick;
    added.gpu_only = size.gpu_only;
  }
  spec.make_problem = [shapes](std::size_t index, const ladder::Machine&, std::uint64_t seed) {
    return std::make_unique<CollectiveProblem>(shapes.at(index), seed);
  };
  return spec;
}

}  // namespace rungs::collectives
