// All-reduce, from everything through one rank to everything in one step.

#include "catalog/all_reduce.hpp"

#include <rungs/ladder/build.hpp>
#include <rungs/symmetric/kernel_table.hpp>

#include "../../../04_collectives_ring_tree/src/catalog/all_reduce_spec.hpp"
#include "../../../04_collectives_ring_tree/src/catalog/prepared.hpp"

#include <array>
#include <utility>
#include <vector>

namespace rungs::symmetric {
namespace {

using collectives::CollectiveArgs;
using collectives::Op;
using collectives::ProtocolId;

using Prepared = std::unique_ptr<ladder::Prepared>;

ladder::Support always(const CollectiveArgs&, const ladder::Machine&) { return {}; }

template <ProtocolId kProtocol>
Prepared prepare_ring(const CollectiveArgs& args, const ladder::Machine&) {
  return prepare_collective(args, kernel_table(), collectives::fixed_tuner("ring", kProtocol));
}
Prepared prepare_root(const CollectiveArgs& args, const ladder::Machine&) {
  return prepare_collective(args, kernel_table(), collectives::fixed_tuner("root"));
}
Prepared prepare_one_shot(const CollectiveArgs& args, const ladder::Machine&) {
  return prepare_collective(args, kernel_table(),
                            collectives::fixed_tuner("one_shot", ProtocolId::kSymmetric));
}
Prepared prepare_tuned(const CollectiveArgs& args, const ladder::Machine&) {
  return prepare_collective(args, kernel_table(), tuner());
}

constexpr std::array<ladder::Rung<CollectiveArgs>, 5> kLadder{{
    {"root", "everything goes to one rank, which works it out and sends it back", &always,
     &prepare_root},
    {"ring", "every link carries the same share at once, in 2(n - 1) steps", &always,
     &prepare_ring<ProtocolId::kSimple>},
    {"ring_ll", "a step is one store's way: every 8 bytes bring their flag", &always,
     &prepare_ring<ProtocolId::kLl>},
    {"one_shot", "one step: everybody gives everything to everybody and adds it up itself", &always,
     &prepare_one_shot},
    {"tuned", "a model of the time picks among them by size", &always, &prepare_tuned},
}};

constexpr std::array<collectives::AllReduceSize, 6> kSizes{{
    {"8B_f32", 2, DType::kF32, Op::kSum, true, false},
    {"1KiB_f32", 256, DType::kF32, Op::kAvg, true, false},
    {"odd_bf16", 2'047, DType::kBf16, Op::kSum, false, false},
    {"16KiB_i32", 1 << 12, DType::kI32, Op::kMax, true, false},
    {"128KiB_f32", 1 << 15, DType::kF32, Op::kSum, false, false},
    {"1MiB_f32", 1 << 18, DType::kF32, Op::kSum, false, true},
}};

}  // namespace

ladder::Operation small_all_reduce_operation() {
  // The best of the rungs: the one step of one_shot.
  return ladder::make_operation(
      kLadder, collectives::all_reduce_spec("06_symmetric_ibgda", "small_all_reduce", kSizes, 1));
}

}  // namespace rungs::symmetric
