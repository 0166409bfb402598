// An all-reduce around the ring over each protocol, and over the one that the tuner picks.

#include <rungs/protocols/catalog.hpp>
#include <rungs/protocols/kernel_table.hpp>

#include "../../../04_collectives_ring_tree/src/catalog/prepared.hpp"

#include <array>
#include <utility>

namespace rungs::protocols {
namespace {

using collectives::Collective;
using collectives::CollectiveArgs;
using collectives::CollectiveShape;
using collectives::kCatalogRanks;
using collectives::Op;
using collectives::ProtocolId;

ladder::Support always(const CollectiveArgs&, const ladder::Machine&) { return {}; }

std::unique_ptr<ladder::Prepared> prepare_simple(const CollectiveArgs& args,
                                                 const ladder::Machine&) {
  return prepare_collective(args, kernel_table(),
                            collectives::fixed_tuner("ring", ProtocolId::kSimple));
}
std::unique_ptr<ladder::Prepared> prepare_ll(const CollectiveArgs& args, const ladder::Machine&) {
  return prepare_collective(args, kernel_table(),
                            collectives::fixed_tuner("ring", ProtocolId::kLl));
}
std::unique_ptr<ladder::Prepared> prepare_tuned(const CollectiveArgs& args,
                                                const ladder::Machine&) {
  return prepare_collective(args, kernel_table(), tuner());
}

constexpr std::array<ladder::Rung<CollectiveArgs>, 3> kLadder{{
    {"simple", "a counter says that a slot is full, behind a fence", &always, &prepare_simple},
    {"ll", "every 8 bytes bring their flag: nothing is fenced, half of the wire is flags", &always,
     &prepare_ll},
    {"tuned", "a model of the time picks the protocol by size", &always, &prepare_tuned},
}};

struct Size {
  const char* name;
  std::size_t count;
  DType dtype;
  Op op;
  bool quick;
  bool gpu_only;
};
constexpr std::array<Size, 7> kSizes{{
    {"8B_f32", 2, DType::kF32, Op::kSum, true, false},
    {"4KiB_f32", 1 << 10, DType::kF32, Op::kSum, true, false},
    {"odd_bf16", 12'345, DType::kBf16, Op::kAvg, false, false},
    {"64KiB_i32", 1 << 14, DType::kI32, Op::kMax, false, false},
    {"256KiB_f32", 1 << 16, DType::kF32, Op::kSum, true, false},
    {"2MiB_f32", 1 << 19, DType::kF32, Op::kSum, false, false},
    {"64MiB_f32", 1 << 24, DType::kF32, Op::kSum, false, true},
}};

ladder::Operation all_reduce() {
  ladder::OperationSpec<CollectiveArgs> spec;
  spec.stage = "05_protocols_ll_ll128";
  spec.name = "protocol_all_reduce";
  spec.ranks = kCatalogRanks;
  spec.oracle = "reduction in double of every rank's input, every element";
  spec.error_bound =
      "(n-1)u/(1-(n-1)u) sum|x|, avg one rounding more; u = 2^-24 (f32), 2^-8 (bf16); i32 and max "
      "exact";
  std::vector<CollectiveShape> shapes;
  for (const Size& size : kSizes) {
    shapes.push_back({Collective::kAllReduce, size.dtype, size.op, size.count});
    ladder::Case& added = spec.cases.emplace_back();
    added.name = size.name;
    const double n = kCatalogRanks;
    const auto buffer = static_cast<double>(size.count * size_bytes(size.dtype));
    added.cost.bytes = 2 * n * buffer;
    added.cost.wire_bytes = 2 * (n - 1) * buffer;  // user bytes: LL sends twice as many
    added.cost.steps = 2 * (n - 1);
    added.in_tour = !size.gpu_only;
    added.in_quick = size.quick;
    added.gpu_only = size.gpu_only;
  }
  spec.make_problem = [shapes](std::size_t index, const ladder::Machine&, std::uint64_t seed) {
    return std::make_unique<collectives::CollectiveProblem>(shapes.at(index), seed);
  };
  return ladder::make_operation(kLadder, std::move(spec));
}

}  // namespace

std::vector<ladder::Operation> operations() { return {all_reduce()}; }

}  // namespace rungs::protocols
