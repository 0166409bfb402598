// Collectives around a ring over the LL protocol.
//
// New against ring over Simple: the same ring template, another protocol. No fence and no counter
// between two neighbours, and a step forwards each line as it comes instead of each slot: a hop
// costs one store's way, not store + barrier + release + acquire + barrier.
// Layout: 16-byte lines, 8 bytes of data each (ll_device.hpp). Cost: 2(n - 1) steps as before,
// twice the bytes on the wire.

#include <rungs/collectives/kernel_entries.hpp>
#include <rungs/collectives/ring_device.hpp>
#include <rungs/protocols/ll_device.hpp>

#include "detail/ll_entries.hpp"

#include <cstdint>
#include <vector>

namespace rungs::protocols::detail {
namespace {

using collectives::Avg;
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

/// The kernels above, by name.
struct RingLlKernels {
  template <class T, class O>
  static Kernel all_reduce() {
    return &ring_all_reduce_ll_kernel<T, O>;
  }
  template <class T, class O>
  static Kernel reduce_scatter() {
    return &ring_reduce_scatter_ll_kernel<T, O>;
  }
  static Kernel all_gather() { return &ring_all_gather_ll_kernel; }
  static Kernel broadcast() { return &ring_broadcast_ll_kernel; }
  static Kernel all_to_all() { return &pairwise_all_to_all_ll_kernel; }
};

}  // namespace

std::vector<KernelEntry> ll_entries() {
  return collectives::kernel_entries<RingLlKernels, Sum, Max, Avg>(
      {.algorithm = "ring",
       .protocol = collectives::ProtocolId::kLl,
       .threads = kThreads,
       .slot_bytes = kSlotBytes,
       .payload_bytes = kSlotBytes / 2,
       .illegal = &ll_illegal});
}

}  // namespace rungs::protocols::detail
