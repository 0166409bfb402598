#pragma once
/// @file integer.hpp
/// Integer instructions that C++ has no operator for (PTX ISA, "Integer Arithmetic Instructions",
/// "Data Movement and Conversion Instructions: prmt", "Logic and Shift Instructions: shf"). Any
/// thread; registers only.

#include <rungs/ptx/where.hpp>

#include <bit>
#include <cstring>
#include <type_traits>

namespace rungs::ptx {

/// Four bytes chosen from the eight of `b`:`a`: nibble i of `selector` says which becomes byte i;
/// its bit 3 replicates that byte's sign instead. PTX: prmt.b32.
RUNGS_DEVICE std::uint32_t prmt(std::uint32_t a, std::uint32_t b, std::uint32_t selector) {
#if RUNGS_GPU_CUDA
  std::uint32_t result;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(selector));
  return result;
#else
  const std::uint64_t bytes = std::uint64_t{b} << 32 | a;
  std::uint32_t result = 0;
  for (unsigned i = 0; i < 4; i++) {
    const std::uint32_t choice = selector >> 4 * i & 15;
    std::uint32_t byte = static_cast<std::uint32_t>(bytes >> 8 * (choice & 7)) & 0xff;
    if ((choice & 8) != 0) byte = (byte & 0x80) != 0 ? 0xff : 0;
    result |= byte << 8 * i;
  }
  return result;
#endif
}

/// c plus the dot product of the four bytes of a and b, modulo 2^32. PTX: dp4a.{s32.s32,u32.u32}.
/// @tparam T std::int32_t (signed bytes) or std::uint32_t (unsigned ones)
template <class T>
RUNGS_DEVICE T dp4a(T a, T b, T c) {
  static_assert(std::is_same_v<T, std::uint32_t> || std::is_same_v<T, std::int32_t>);
#if RUNGS_GPU_CUDA
  return __dp4a(a, b, c);
#else
  using Byte = std::conditional_t<std::is_signed_v<T>, std::int8_t, std::uint8_t>;
  Byte x[4], y[4];
  memcpy(x, &a, sizeof(x));
  memcpy(y, &b, sizeof(y));
  auto sum = static_cast<std::uint32_t>(c);
  for (int i = 0; i < 4; i++) sum += static_cast<std::uint32_t>(x[i] * y[i]);
  return static_cast<T>(sum);
#endif
}

/// The upper half of `high`:`low` shifted left by `shift` modulo 32. PTX: shf.l.wrap.b32.
RUNGS_DEVICE std::uint32_t funnel_shift_left(std::uint32_t low, std::uint32_t high,
                                             std::uint32_t shift) {
#if RUNGS_GPU_CUDA
  return __funnelshift_l(low, high, shift);
#else
  const std::uint64_t both = std::uint64_t{high} << 32 | low;
  return static_cast<std::uint32_t>(both << (shift & 31) >> 32);
#endif
}
/// The lower half of `high`:`low` shifted right by `shift` modulo 32. PTX: shf.r.wrap.b32.
RUNGS_DEVICE std::uint32_t funnel_shift_right(std::uint32_t low, std::uint32_t high,
                                              std::uint32_t shift) {
#if RUNGS_GPU_CUDA
  return __funnelshift_r(low, high, shift);
#else
  const std::uint64_t both = std::uint64_t{high} << 32 | low;
  return static_cast<std::uint32_t>(both >> (shift & 31));
#endif
}

/// Number of bits that are set. With lanemask_lt(): a lane's place among those of a mask. PTX:
/// popc.b32.
RUNGS_DEVICE int popc(std::uint32_t value) {
#if RUNGS_GPU_CUDA
  return __popc(value);
#else
  return std::popcount(value);
#endif
}
/// Zeros above the highest bit that is set; 32 if none is. PTX: clz.b32.
RUNGS_DEVICE int clz(std::uint32_t value) {
#if RUNGS_GPU_CUDA
  return __clz(static_cast<int>(value));
#else
  return std::countl_zero(value);
#endif
}
/// Zeros below the lowest bit that is set, in a mask of lanes the first of them; 32 if none is.
/// PTX: brev.b32, clz.b32.
RUNGS_DEVICE int ctz(std::uint32_t value) {
#if RUNGS_GPU_CUDA
  return __clz(static_cast<int>(__brev(value)));
#else
  return std::countr_zero(value);
#endif
}
/// The bits in reverse order. PTX: brev.b32.
RUNGS_DEVICE std::uint32_t brev(std::uint32_t value) {
#if RUNGS_GPU_CUDA
  return __brev(value);
#else
  std::uint32_t reversed = 0;
  for (int i = 0; i < 32; i++) reversed |= (value >> i & 1) << (31 - i);
  return reversed;
#endif
}

}  // namespace rungs::ptx
