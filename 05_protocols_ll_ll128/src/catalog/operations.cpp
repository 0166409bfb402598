// An all-reduce around the ring over each protocol, and over the one that the tuner picks.

#include <rungs/protocols/catalog.hpp>
#include <rungs/protocols/kernel_table.hpp>

#include "../../../04_collectives_ring_tree/src/catalog/all_reduce_spec.hpp"
#include "../../../04_collectives_ring_tree/src/catalog/prepared.hpp"

#include <array>
#include <utility>

namespace rungs::protocols {
namespace {

using collectives::CollectiveArgs;
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

constexpr std::array<collectives::AllReduceSize, 7> kSizes{{
    {"8B_f32", 2, DType::kF32, Op::kSum, true, false},
    {"4KiB_f32", 1 << 10, DType::kF32, Op::kSum, true, false},
    {"odd_bf16", 12'345, DType::kBf16, Op::kAvg, false, false},
    {"64KiB_i32", 1 << 14, DType::kI32, Op::kMax, false, false},
    {"256KiB_f32", 1 << 16, DType::kF32, Op::kSum, true, false},
    {"2MiB_f32", 1 << 19, DType::kF32, Op::kSum, false, false},
    {"64MiB_f32", 1 << 24, DType::kF32, Op::kSum, false, true},
}};

ladder::Operation all_reduce() {
  return ladder::make_operation(
      kLadder, collectives::all_reduce_spec("05_protocols_ll_ll128", "protocol_all_reduce", kSizes,
                                            2 * (kCatalogRanks - 1)));
}

}  // namespace

std::vector<ladder::Operation> operations() { return {all_reduce()}; }

}  // namespace rungs::protocols
