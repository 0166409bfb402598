#pragma once
/// @file atomic_wide.hpp
/// Read-modify-write operations on 16 bytes, and additions of vectors of floats (PTX ISA, atom,
/// red). Any thread; orders and scopes as in atomic_ops.hpp.

#include <rungs/ptx/atomic_ops.hpp>

namespace rungs::ptx {

#if RUNGS_GPU_CUDA
// 128-bit operands are built of two words: s of the first pair of inputs, c of the second.
#define RUNGS_ATOM_ASM_B128(text, ...)                                                   \
  if constexpr (kOrder == Order::kRelaxed) {                                             \
    RUNGS_SCOPES_ASM(RUNGS_B128_OPEN "atom.relaxed", text RUNGS_B128_CLOSE, __VA_ARGS__) \
  } else if constexpr (kOrder == Order::kAcquire) {                                      \
    RUNGS_SCOPES_ASM(RUNGS_B128_OPEN "atom.acquire", text RUNGS_B128_CLOSE, __VA_ARGS__) \
  } else if constexpr (kOrder == Order::kRelease) {                                      \
    RUNGS_SCOPES_ASM(RUNGS_B128_OPEN "atom.release", text RUNGS_B128_CLOSE, __VA_ARGS__) \
  } else {                                                                               \
    RUNGS_SCOPES_ASM(RUNGS_B128_OPEN "atom.acq_rel", text RUNGS_B128_CLOSE, __VA_ARGS__) \
  }
#define RUNGS_B128_OPEN "{\n.reg .b128 d, s, c;\nmov.b128 s, {%3, %4};\nmov.b128 c, {%5, %6};\n"
#define RUNGS_B128_CLOSE "\nmov.b128 {%0, %1}, d;\n}"
#endif

/// atom_exch() of 16 bytes. PTX: atom.exch.b128.
template <Scope kScope = Scope::kGpu, Order kOrder = Order::kRelaxed>
RUNGS_DEVICE U64x2 atom_exch_b128(U64x2* address, U64x2 value RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  U64x2 before;
  RUNGS_ATOM_ASM_B128(".exch.b128 d, [%2], s;", "=l"(before.low), "=l"(before.high)
                      : "l"(address), "l"(value.low), "l"(value.high), "l"(value.low),
                        "l"(value.high))
  return before;
#else
  emulator::model::check_aligned(address, 16, "atom.exch.b128", where);
  U64x2 before = *address;  // a guess
  while (!emulator::model::compare_exchange_128(&address->low, &before.low, &value.low)) {
  }
  return before;
#endif
}

/// atom_cas() of 16 bytes. PTX: atom.cas.b128.
template <Scope kScope = Scope::kGpu, Order kOrder = Order::kRelaxed>
RUNGS_DEVICE U64x2 atom_cas_b128(U64x2* address, U64x2 expected, U64x2 desired RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  U64x2 before;
  RUNGS_ATOM_ASM_B128(".cas.b128 d, [%2], c, s;", "=l"(before.low), "=l"(before.high)
                      : "l"(address), "l"(desired.low), "l"(desired.high), "l"(expected.low),
                        "l"(expected.high))
  return before;
#else
  emulator::model::check_aligned(address, 16, "atom.cas.b128", where);
  if (!emulator::model::compare_exchange_128(&address->low, &expected.low, &desired.low))
    static_cast<void>(emulator::model::polled(address, expected.low, where));
  return expected;
#endif
}

/// Adds 2 or 4 floats in global memory, aligned to all of them, each addition atomic by itself.
/// PTX: red.global.add.v2.f32 / .v4.f32.
template <Scope kScope = Scope::kGpu, Order kOrder = Order::kRelaxed>
RUNGS_DEVICE void red_add_v2(float* address, float x, float y RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  RUNGS_RED_ASM(".global.add.v2.f32 [%0], {%1, %2};",
                : "l"(__cvta_generic_to_global(address)), "f"(x), "f"(y))
#else
  emulator::model::check_aligned(address, 8, "red.global.add.v2.f32", where);
  detail::update<kOrder>(address, x, emulator::atomics::Add{}, "red.add.v2", false, where);
  detail::update<kOrder>(address + 1, y, emulator::atomics::Add{}, "red.add.v2", false, where);
#endif
}
template <Scope kScope = Scope::kGpu, Order kOrder = Order::kRelaxed>
RUNGS_DEVICE void red_add_v4(float* address, float x, float y, float z, float w RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  RUNGS_RED_ASM(".global.add.v4.f32 [%0], {%1, %2, %3, %4};",
                : "l"(__cvta_generic_to_global(address)), "f"(x), "f"(y), "f"(z), "f"(w))
#else
  emulator::model::check_aligned(address, 16, "red.global.add.v4.f32", where);
  const float values[4] = {x, y, z, w};
  for (int i = 0; i < 4; i++)
    detail::update<kOrder>(address + i, values[i], emulator::atomics::Add{}, "red.add.v4", false,
                           where);
#endif
}

#if RUNGS_GPU_CUDA
#undef RUNGS_ATOM_ASM_B128
#undef RUNGS_B128_OPEN
#undef RUNGS_B128_CLOSE
#endif

}  // namespace rungs::ptx
