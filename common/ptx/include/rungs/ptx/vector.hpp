#pragma once
/// @file vector.hpp
/// 16-byte loads and stores of memory that somebody else writes or reads meanwhile (PTX ISA, ld and
/// st with .v4; "Memory Consistency Model": a vector access is its elements' accesses, in no
/// particular order). What may be relied on is less than 16 bytes: each aligned half of 8 bytes
/// arrives whole. In emulation the halves are two accesses, the upper one first at every second
/// place, and at some places other threads run between a store's halves: code that relies on more
/// fails there.

#include <rungs/ptx/where.hpp>

namespace rungs::ptx {

/// Four words, 16-byte aligned: a line of the LL protocol, a chunk of a copy.
struct alignas(16) U32x4 {
  std::uint32_t x, y, z, w;
};

#if !RUNGS_GPU_CUDA
namespace detail {
inline std::uint64_t pack(std::uint32_t low, std::uint32_t high) {
  return low | std::uint64_t{high} << 32;
}
inline bool upper_first(const void* address) {
  return (reinterpret_cast<std::uintptr_t>(address) >> 4 & 1) != 0;
}
/// An even and an odd place of 32.
inline bool pauses_between(const void* address) {
  const std::uintptr_t place = reinterpret_cast<std::uintptr_t>(address) >> 4 & 31;
  return place == 10 || place == 21;
}
}  // namespace detail
#endif

/// Load at system scope; orders nothing. Any thread; a poll. PTX: ld.volatile.v4.u32.
RUNGS_DEVICE U32x4 ld_volatile_v4(const U32x4* address RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  U32x4 value;
  asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "l"(address)
               : "memory");
  return value;
#else
  const auto* halves = reinterpret_cast<const std::uint64_t*>(address);
  std::uint64_t half[2];
  const auto load = [&] {
    const int first = detail::upper_first(address) ? 1 : 0;
    half[first] = __atomic_load_n(halves + first, __ATOMIC_RELAXED);
    half[1 - first] = __atomic_load_n(halves + (1 - first), __ATOMIC_RELAXED);
  };
  load();
  if (emulator::model::polled(halves, half[0], where)) load();
  return {static_cast<std::uint32_t>(half[0]), static_cast<std::uint32_t>(half[0] >> 32),
          static_cast<std::uint32_t>(half[1]), static_cast<std::uint32_t>(half[1] >> 32)};
#endif
}

/// Store at system scope; orders nothing. Any thread. PTX: st.volatile.v4.u32.
RUNGS_DEVICE void st_volatile_v4(U32x4* address, U32x4 value RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(address), "r"(value.x),
               "r"(value.y), "r"(value.z), "r"(value.w)
               : "memory");
#else
  auto* halves = reinterpret_cast<std::uint64_t*>(address);
  const std::uint64_t half[2] = {detail::pack(value.x, value.y), detail::pack(value.z, value.w)};
  const int first = detail::upper_first(address) ? 1 : 0;
  __atomic_store_n(halves + first, half[first], __ATOMIC_RELAXED);
  if (detail::pauses_between(address)) emulator::model::yield(where);
  __atomic_store_n(halves + (1 - first), half[1 - first], __ATOMIC_RELAXED);
#endif
}

}  // namespace rungs::ptx
