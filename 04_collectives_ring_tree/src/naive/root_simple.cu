// Collectives through a root over the Simple protocol: the naive rung.
//
// Layout: the data is cut into channels (one block each) and slots; a slot goes to the root, is
// worked on there, and comes back before the next one leaves. Cost: the root's links carry (n - 1)
// S bytes in and as many out for all-reduce. The algorithm stands in root_device.hpp.

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

/// The kernels above, by name.
struct RootKernels {
  template <class T, class O>
  static Kernel all_reduce() {
    return &root_all_reduce_kernel<T, O>;
  }
  template <class T, class O>
  static Kernel reduce_scatter() {
    return &root_reduce_scatter_kernel<T, O>;
  }
  static Kernel all_gather() { return &root_all_gather_kernel; }
  static Kernel broadcast() { return &root_broadcast_kernel; }
  static Kernel all_to_all() { return &root_all_to_all_kernel; }
};

}  // namespace

KernelTable root_entries() {
  static const std::vector<KernelEntry> entries =
      kernel_entries<RootKernels, Sum, Max, Avg>(simple_family("root"));
  return entries;
}

}  // namespace rungs::collectives::detail
