// Collectives through a root over the Simple protocol: the naive rung.
//
// Layout: the data is cut into channels (one block each) and slots; a slot goes to the root, is
// worked
// on there, and comes back before the next one leaves. Cost: the root's links carry (n - 1) S bytes
// in and as many out for all-reduce. The algorithm stands in root_device.hpp.

#include <rungs/collectives/protocol_simple_device.hpp>
#include <rungs/collectives/root_device.hpp>

#include "detail/entries.hpp"

#include <cstdint>

namespace rungs::collectives::detail {
namespace {

template <class T, class O>
RUNGS_KERNEL(kThreads, 1)
root_all_reduce_kernel(KernelArgs args) {
  root_all_reduce<Simple, T, O>(args);
}

template <class T, class O>
RUNGS_KERNEL(kThreads, 1)
root_reduce_scatter_kernel(KernelArgs args) {
  root_reduce_scatter<Simple, T, O>(args);
}

RUNGS_KERNEL(kThreads, 1)
root_all_gather_kernel(KernelArgs args) { root_all_gather<Simple, std::uint8_t>(args); }

RUNGS_KERNEL(kThreads, 1)
root_broadcast_kernel(KernelArgs args) { root_broadcast<Simple, std::uint8_t>(args); }

RUNGS_KERNEL(kThreads, 1)
root_all_to_all_kernel(KernelArgs args) { root_all_to_all<Simple, std::uint8_t>(args); }

template <class T, class O>
void add(std::vector<KernelEntry>& table) {
  constexpr DType kType = dtype_of<T>::value;
  table.push_back(
      simple_entry(Collective::kAllReduce, "root", kType, O::kOp, &root_all_reduce_kernel<T, O>));
  table.push_back(simple_entry(Collective::kReduceScatter, "root", kType, O::kOp,
                               &root_reduce_scatter_kernel<T, O>));
}

template <class T>
void add_type(std::vector<KernelEntry>& table) {
  add<T, Sum>(table);
  add<T, Max>(table);
  add<T, Avg>(table);
}

std::vector<KernelEntry> make_entries() {
  std::vector<KernelEntry> table;
  add_type<float>(table);
  add_type<bf16>(table);
  add_type<std::int32_t>(table);
  const auto mover = [&](Collective what, Kernel kernel) {
    table.push_back(simple_entry(what, "root", DType::kU8, Op::kSum, kernel));
  };
  mover(Collective::kAllGather, &root_all_gather_kernel);
  mover(Collective::kBroadcast, &root_broadcast_kernel);
  mover(Collective::kAllToAll, &root_all_to_all_kernel);
  return table;
}

}  // namespace

KernelTable root_entries() {
  static const std::vector<KernelEntry> entries = make_entries();
  return entries;
}

}  // namespace rungs::collectives::detail
