#pragma once
/// @file entries.hpp
/// How this stage's kernels enter its table.

#include <rungs/collectives/kernel_entries.hpp>

#include <string_view>

namespace rungs::collectives::detail {

// A GPU needs many threads and long slots to keep a link busy. In the emulator a barrier costs a
// switch a thread, and eight ranks' buffers lie in one host's memory.
inline constexpr unsigned kThreads = RUNGS_GPU_CUDA ? 512 : 32;
inline constexpr std::size_t kSlotBytes = RUNGS_GPU_CUDA ? 128 << 10 : 32 << 10;

inline std::string_view needs_mapped_memory(const Surroundings& surroundings) {
  return surroundings.peer_mapped ? "" : "needs peers' memory mapped";
}

inline KernelFamily simple_family(std::string_view algorithm) {
  return {.algorithm = algorithm,
          .protocol = ProtocolId::kSimple,
          .threads = kThreads,
          .slot_bytes = kSlotBytes,
          .payload_bytes = kSlotBytes,
          .illegal = &needs_mapped_memory};
}

KernelTable ring_entries();
KernelTable root_entries();

}  // namespace rungs::collectives::detail
