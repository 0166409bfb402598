#pragma once
/// @file rows_device.hpp
/// Moves pieces of bf16 rows between global memory, registers and shared tiles. For kernel sources
/// only.

#include "params.hpp"

#include <rungs/gpu/kernel.hpp>

#include <cstdint>

/// Unrolls the next loop on a GPU, where arrays live in registers only if their indices are
/// constants. The host compiler vectorises these loops better when they are left alone (-O3: a
/// third of the time of the backward pass).
#if RUNGS_GPU_CUDA
#define RUNGS_UNROLL _Pragma("unroll")
#else
#define RUNGS_UNROLL
#endif

namespace rungs::attention::detail {

/// Eight consecutive elements, the most one thread can load or store with one instruction (16
/// bytes).
struct alignas(16) Eight {
  bf16 at[8];
};

/// Reads row[0..8). `vectors`: the address is a multiple of 16 bytes.
RUNGS_DEVICE Eight load_eight(const bf16* row, bool vectors) {
  if (vectors) return *reinterpret_cast<const Eight*>(row);
  Eight result;
  for (int i = 0; i < 8; ++i) result.at[i] = row[i];
  return result;
}

/// Rounds eight values and writes them to row[0..8).
RUNGS_DEVICE void store_eight(bf16* row, const float* values, bool vectors) {
  Eight rounded;
  for (int i = 0; i < 8; ++i) rounded.at[i] = to_bf16(values[i]);
  if (vectors) {
    *reinterpret_cast<Eight*>(row) = rounded;
  } else {
    for (int i = 0; i < 8; ++i) row[i] = rounded.at[i];
  }
}

/// Two bf16 of one row in one word, the first in the lower half.
RUNGS_DEVICE std::uint32_t pack(bf16 first, bf16 second) {
  return std::uint32_t{first.bits} | std::uint32_t{second.bits} << 16;
}
RUNGS_DEVICE float first_of(std::uint32_t pair) {
  return to_float(bf16{static_cast<std::uint16_t>(pair & 0xffffu)});
}
RUNGS_DEVICE float second_of(std::uint32_t pair) {
  return to_float(bf16{static_cast<std::uint16_t>(pair >> 16)});
}

}  // namespace rungs::attention::detail
