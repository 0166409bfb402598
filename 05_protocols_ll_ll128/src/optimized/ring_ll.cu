// Collectives around a ring over the LL protocol.
//
// New against ring over Simple: the same ring template, another protocol. No fence and no counter
// between two neighbours, and a step forwards each line as it comes instead of each slot: a hop
// costs one store's way, not store + barrier + release + acquire + barrier.
// Layout: 16-byte lines, 8 bytes of data each (ll_device.hpp). Cost: 2(n - 1) steps as before,
// twice the bytes on the wire.

#include <rungs/collectives/ring_device.hpp>
#include <rungs/protocols/ll_device.hpp>

#include "detail/ll_entries.hpp"

#include <cstdint>
#include <vector>

namespace rungs::protocols::detail {
namespace {

using collectives::Avg;
using collectives::Collective;
using collectives::Kernel;
using collectives::KernelArgs;
using collectives::KernelEntry;
using collectives::Max;
using collectives::Sum;

static_assert(collectives::ProtocolPrimitives<Ll::Primitives<float, Sum>, float>);

template <class T, class O>
RUNGS_KERNEL(kThreads, 1)
ring_all_reduce_ll_kernel(KernelArgs args) {
  collectives::ring_all_reduce<Ll, T, O>(args);
}

template <class T, class O>
RUNGS_KERNEL(kThreads, 1)
ring_reduce_scatter_ll_kernel(KernelArgs args) {
  collectives::ring_reduce_scatter<Ll, T, O>(args);
}

RUNGS_KERNEL(kThreads, 1)
ring_all_gather_ll_kernel(KernelArgs args) { collectives::ring_all_gather<Ll, std::uint8_t>(args); }

RUNGS_KERNEL(kThreads, 1)
ring_broadcast_ll_kernel(KernelArgs args) { collectives::ring_broadcast<Ll, std::uint8_t>(args); }

RUNGS_KERNEL(kThreads, 1)
pairwise_all_to_all_ll_kernel(KernelArgs args) {
  collectives::pairwise_all_to_all<Ll, std::uint8_t>(args);
}

KernelEntry entry(Collective what, DType dtype, collectives::Op op, Kernel kernel) {
  return {what,       "ring",     collectives::ProtocolId::kLl,
          dtype,      op,         kernel,
          kThreads,   kSlotBytes, kSlotBytes / 2,
          &ll_illegal};
}

template <class T, class O>
void add(std::vector<KernelEntry>& table) {
  constexpr DType kType = dtype_of<T>::value;
  table.push_back(entry(Collective::kAllReduce, kType, O::kOp, &ring_all_reduce_ll_kernel<T, O>));
  table.push_back(
      entry(Collective::kReduceScatter, kType, O::kOp, &ring_reduce_scatter_ll_kernel<T, O>));
}

template <class T>
void add_type(std::vector<KernelEntry>& table) {
  add<T, Sum>(table);
  add<T, Max>(table);
  add<T, Avg>(table);
}

}  // namespace

std::vector<KernelEntry> ll_entries() {
  std::vector<KernelEntry> table;
  add_type<float>(table);
  add_type<bf16>(table);
  add_type<std::int32_t>(table);
  const auto mover = [&](Collective what, Kernel kernel) {
    table.push_back(entry(what, DType::kU8, collectives::Op::kSum, kernel));
  };
  mover(Collective::kAllGather, &ring_all_gather_ll_kernel);
  mover(Collective::kBroadcast, &ring_broadcast_ll_kernel);
  mover(Collective::kAllToAll, &pairwise_all_to_all_ll_kernel);
  return table;
}

}  // namespace rungs::protocols::detail
