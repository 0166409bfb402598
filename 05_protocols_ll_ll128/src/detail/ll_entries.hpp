#pragma once
/// @file ll_entries.hpp
/// How LL's kernels enter the table, and where they may not be used.

#include <rungs/collectives/kernel_table.hpp>

#include <cstddef>
#include <string_view>
#include <vector>

namespace rungs::protocols::detail {

// A thread polls the lines that it moves. 64 KiB of a slot are 8 lines for each of 512 threads; the
// emulator switches fibers at every failed poll, so it has few.
inline constexpr unsigned kThreads = RUNGS_GPU_CUDA ? 512 : 32;
inline constexpr std::size_t kSlotBytes = RUNGS_GPU_CUDA ? 64 << 10 : 16 << 10;

/// LL asks for nothing but whole 8-byte stores: legal wherever memory is mapped.
inline std::string_view ll_illegal(const collectives::Surroundings& surroundings) {
  return surroundings.peer_mapped
             ? ""
             : "LL writes its lines into the peer's memory, which is not mapped here";
}

std::vector<collectives::KernelEntry> ll_entries();

}  // namespace rungs::protocols::detail
