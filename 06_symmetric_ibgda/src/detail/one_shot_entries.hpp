#pragma once
/// @file one_shot_entries.hpp
/// How the one-shot kernels enter the table, and where they may not be used.

#include <rungs/collectives/kernel_table.hpp>

#include <cstddef>
#include <string_view>
#include <vector>

namespace rungs::symmetric::detail {

inline constexpr std::string_view kOneShot = "one_shot";

// A thread polls the lines of all peers that it adds up. On a GPU the sizes are LL's. In the
// emulator some stores let the other threads go first (rungs/ptx/vector.hpp); where a thread gives
// many lines away before it takes any, those rounds look fruitless, and the worker sleeps.
inline constexpr unsigned kOneShotThreads = RUNGS_GPU_CUDA ? 512 : 32;
inline constexpr std::size_t kOneShotSlotBytes = RUNGS_GPU_CUDA ? 64 << 10 : 2 << 10;

/// As LL, it asks for nothing but whole 8-byte stores into the peers' memory.
inline std::string_view one_shot_illegal(const collectives::Surroundings& surroundings) {
  return surroundings.peer_mapped ? ""
                                  : "one_shot stores its lines into every peer's memory, which is "
                                    "not mapped here";
}

std::vector<collectives::KernelEntry> one_shot_entries();

/// Microseconds of a call, as stage 05's tuner models the others.
double one_shot_us(const collectives::Question& question, int channels);

}  // namespace rungs::symmetric::detail
