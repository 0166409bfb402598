// Collectives around a ring over the Simple protocol.
//
// New against the root: every rank's links carry the same 2(n - 1)/n of the data at once, where the
// root's carried n - 1 times all of it, one peer after the other.
// Layout: the data is cut into channels (one block each), rounds of n chunks, chunks of at most
// four slots. Cost: 2(n - 1) steps and 2 S (n - 1)/n bytes a rank for all-reduce, half of it for
// its halves. The algorithm stands in ring_device.hpp, the waiting in protocol_simple_device.hpp.
// Blocks of one grid do not wait for each other, only for the same channel of the neighbours'
// grids. So no cooperative launch: two of those may not share a GPU, and two ranks must.

#include <rungs/collectives/protocol_simple_device.hpp>
#include <rungs/collectives/ring_device.hpp>

#include "detail/entries.hpp"

#include <cstdint>

namespace rungs::collectives::detail {
namespace {

static_assert(ProtocolPrimitives<Simple::Primitives<float, Sum>, float>);

template <class T, class O>
RUNGS_KERNEL(kThreads, 1)
ring_all_reduce_kernel(KernelArgs args) {
  ring_all_reduce<Simple, T, O>(args);
}

template <class T, class O>
RUNGS_KERNEL(kThreads, 1)
ring_reduce_scatter_kernel(KernelArgs args) {
  ring_reduce_scatter<Simple, T, O>(args);
}

RUNGS_KERNEL(kThreads, 1)
ring_all_gather_kernel(KernelArgs args) { ring_all_gather<Simple, std::uint8_t>(args); }

RUNGS_KERNEL(kThreads, 1)
ring_broadcast_kernel(KernelArgs args) { ring_broadcast<Simple, std::uint8_t>(args); }

RUNGS_KERNEL(kThreads, 1)
pairwise_all_to_all_kernel(KernelArgs args) { pairwise_all_to_all<Simple, std::uint8_t>(args); }

/// The kernels above, by name.
struct RingKernels {
  template <class T, class O>
  static Kernel all_reduce() {
    return &ring_all_reduce_kernel<T, O>;
  }
  template <class T, class O>
  static Kernel reduce_scatter() {
    return &ring_reduce_scatter_kernel<T, O>;
  }
  static Kernel all_gather() { return &ring_all_gather_kernel; }
  static Kernel broadcast() { return &ring_broadcast_kernel; }
  static Kernel all_to_all() { return &pairwise_all_to_all_kernel; }
};

}  // namespace

KernelTable ring_entries() {
  static const std::vector<KernelEntry> entries =
      kernel_entries<RingKernels, Sum, Max, Avg>(simple_family("ring"));
  return entries;
}

}  // namespace rungs::collectives::detail
