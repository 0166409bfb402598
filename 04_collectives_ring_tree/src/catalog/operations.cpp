// Every collective through a root and around a ring.

#include <rungs/collectives/catalog.hpp>

#include "catalog/prepared.hpp"
#include "catalog/problem.hpp"

#include <array>
#include <utility>

namespace rungs::collectives {
namespace {

ladder::Support always(const CollectiveArgs&, const ladder::Machine&) { return {}; }

std::unique_ptr<ladder::Prepared> prepare_root(const CollectiveArgs& args, const ladder::Machine&) {
  return prepare_collective(args, kernel_table(), fixed_tuner("root"));
}
std::unique_ptr<ladder::Prepared> prepare_ring(const CollectiveArgs& args, const ladder::Machine&) {
  return prepare_collective(args, kernel_table(), fixed_tuner("ring"));
}

constexpr std::array<ladder::Rung<CollectiveArgs>, 2> kLadder{{
    {"root", "everything goes to one rank, which works it out and sends it back", &always,
     &prepare_root},
    {"ring", "every link carries the same share at once, whatever the number of ranks", &always,
     &prepare_ring},
}};
constexpr std::array<ladder::Rung<CollectiveArgs>, 2> kPairsLadder{{
    {"root", "everything goes to one rank, which passes it on", &always, &prepare_root},
    {"pairs", "in round j every rank sends to the one j further: nothing is passed on", &always,
     &prepare_ring},
}};

struct Size {
  const char* name;
  std::size_t count;  // of the larger buffer
  DType dtype;
  Op op;
  bool odd;  // one rank's part is an odd number of elements
  bool quick;
  bool gpu_only;
};
constexpr std::array<Size, 5> kSizes{{
    {"16KiB_f32", 4096, DType::kF32, Op::kSum, false, true, false},
    {"odd_bf16", 99'996, DType::kBf16, Op::kAvg, true, true, false},
    {"odd_i32", 33'332, DType::kI32, Op::kMax, true, false, false},
    {"1MiB_f32", 1 << 18, DType::kF32, Op::kAvg, false, true, false},
    {"64MiB_f32", 1 << 24, DType::kF32, Op::kSum, false, false, true},
}};

bool reduces(Collective what) {
  return what == Collective::kAllReduce || what == Collective::kReduceScatter;
}

ladder::Operation make(Collective what) {
  ladder::OperationSpec<CollectiveArgs> spec;
  spec.stage = "04_collectives_ring_tree";
  spec.name = to_string(what);
  spec.ranks = kCatalogRanks;
  spec.oracle = reduces(what) ? "reduction in double of every rank's input, every element"
                              : "every rank's input, moved on the host, every element";
  spec.error_bound = reduces(what) ? "(n-1)u/(1-(n-1)u) sum|x|, avg one rounding more; u = 2^-24 "
                                     "(f32), 2^-8 (bf16); i32 and max exact"
                                   : "exact";
  std::vector<CollectiveShape> shapes;
  const bool parts = what != Collective::kAllReduce && what != Collective::kBroadcast;
  for (const Size& size : kSizes) {
    CollectiveShape shape{what, size.dtype, size.op, size.count};
    if (parts) shape.count = size.count / kCatalogRanks;
    if (size.odd && shape.count % 2 == 0) shape.count -= 1;  // parts that no vector fits
    if (what == Collective::kBroadcast) shape.root = kCatalogRanks - 1;
    shapes.push_back(shape);

    ladder::Case& added = spec.cases.emplace_back();
    added.name = size.name;
    const double n = kCatalogRanks;
    const double buffer =
        static_cast<double>(shape.count * size_bytes(size.dtype)) * (parts ? n : 1);
    added.cost.bytes = n * buffer * (what == Collective::kAllToAll ? 2 : parts ? 1 + 1 / n : 2);
    added.cost.wire_bytes = (what == Collective::kAllReduce ? 2 : 1) * (n - 1) * buffer;
    added.cost.steps = (what == Collective::kAllReduce ? 2 : 1) * (n - 1);
    added.in_tour = !size.gpu_only;
    added.in_quick = size.quick;
    added.gpu_only = size.gpu_only;
  }
  spec.make_problem = [shapes](std::size_t index, const ladder::Machine&, std::uint64_t seed) {
    return std::make_unique<CollectiveProblem>(shapes.at(index), seed);
  };
  return ladder::make_operation(what == Collective::kAllToAll ? kPairsLadder : kLadder,
                                std::move(spec));
}

}  // namespace

std::vector<ladder::Operation> operations() {
  return {make(Collective::kAllReduce), make(Collective::kAllGather),
          make(Collective::kReduceScatter), make(Collective::kBroadcast),
          make(Collective::kAllToAll)};
}

}  // namespace rungs::collectives
