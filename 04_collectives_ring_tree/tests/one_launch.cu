// The kernel that notes its arguments, and this stage's algorithms for all ranks at once.

#include "one_launch_device.hpp"

#include <rungs/collectives/kernel_entries.hpp>
#include <rungs/collectives/protocol_simple_device.hpp>

#include <map>
#include <mutex>
#include <utility>

namespace rungs::collectives {
namespace {

// The communicator also launches every kernel once to load it, without operands.
RUNGS_KERNEL(1, 1)
note_arguments_kernel(KernelArgs args) {
  if (blockIdx.x == 0 && args.recv != nullptr) *static_cast<KernelArgs*>(args.recv) = args;
}

struct NotingKernels {
  template <class T, class O>
  static Kernel all_reduce() {
    return &note_arguments_kernel;
  }
  template <class T, class O>
  static Kernel reduce_scatter() {
    return &note_arguments_kernel;
  }
  static Kernel all_gather() { return &note_arguments_kernel; }
  static Kernel broadcast() { return &note_arguments_kernel; }
  static Kernel all_to_all() { return &note_arguments_kernel; }
};

}  // namespace

KernelTable noting_table(ProtocolId protocol, std::size_t slot_bytes) {
  static std::mutex mutex;
  static std::map<std::pair<ProtocolId, std::size_t>, std::vector<KernelEntry>> tables;
  const std::lock_guard lock(mutex);
  std::vector<KernelEntry>& table = tables[{protocol, slot_bytes}];
  if (table.empty()) {
    table = kernel_entries<NotingKernels, Sum>(
        {.algorithm = "noted",
         .protocol = protocol,
         .threads = 1,
         .slot_bytes = slot_bytes,
         .payload_bytes = slot_bytes,
         .illegal = [](const Surroundings& /*surroundings*/) { return std::string_view(); }});
  }
  return table;
}

void launch_ring_simple(const KernelArgs* ranks, unsigned count, unsigned channels,
                        gpu::StreamHandle stream) {
  launch_all_ranks(&ring_of_all_ranks_kernel<Simple>, ranks, count, channels, stream);
}

void launch_root_simple(const KernelArgs* ranks, unsigned count, unsigned channels,
                        gpu::StreamHandle stream) {
  launch_all_ranks(&root_of_all_ranks_kernel<Simple>, ranks, count, channels, stream);
}

}  // namespace rungs::collectives
