#pragma once
/// @file atomic_ops.hpp
/// Every read-modify-write operation of Hopper with every order and scope (PTX ISA, atom, red).
/// atomic.hpp has short names for the relaxed ones that flags and counters need, atomic_wide.hpp
/// those of 16 bytes and of vectors.
///
/// The pointer is generic: global memory, or shared memory of the executing block or, from
/// map_shared_pointer(), of another block of the cluster. Naturally aligned (the emulator reports
/// others). Any thread. red_... returns nothing and takes kRelaxed or kRelease; by default both are
/// relaxed at device scope. In emulation the scope changes nothing: a scope that is too narrow does
/// not show.
///
/// Sums of float, F16x2 and Bf16x2 are rounded to nearest even at every addition, so they depend on
/// the order of arrival. float: on global memory subnormal operands and sums become zeros with
/// their sign, on shared memory they do not. F16x2, Bf16x2: two additions, each atomic by itself.

#include <rungs/ptx/orders.hpp>
#include <rungs/ptx/vector.hpp>

#include <cstring>
#include <type_traits>

#if !RUNGS_GPU_CUDA
#include <rungs/emulator/model_atomic.hpp>
#endif

namespace rungs::ptx {

/// Two binary16 numbers, the one at the lower address in the lower half.
struct F16x2 {
  std::uint32_t bits;
#if !RUNGS_GPU_CUDA
  static std::uint16_t add(std::uint16_t a, std::uint16_t b) {
    return emulator::atomics::add_half(a, b);
  }
#endif
};
/// Two bfloat16 numbers.
struct Bf16x2 {
  std::uint32_t bits;
#if !RUNGS_GPU_CUDA
  static std::uint16_t add(std::uint16_t a, std::uint16_t b) {
    return emulator::atomics::add_bf16(a, b);
  }
#endif
};
/// 16 bytes, 16-byte aligned, as two words.
struct alignas(16) U64x2 {
  std::uint64_t low, high;
};

namespace detail {
template <class T, class... U>
inline constexpr bool kOneOf = (std::is_same_v<T, U> || ...);

#if RUNGS_GPU_CUDA
// The operation `op` on T: "add" finds the right suffix.
#define RUNGS_ATOM_ON(condition, text, c, member)                                               \
  if constexpr (condition) {                                                                    \
    RUNGS_ATOM_ASM(text " %0, [%1], %2;", "=" c(before member) : "l"(address), c(value member)) \
    return before;                                                                              \
  }
#define RUNGS_RED_ON(condition, text, c, member)                      \
  if constexpr (condition) {                                          \
    RUNGS_RED_ASM(text " [%0], %1;", : "l"(address), c(value member)) \
    return;                                                           \
  }
#else
constexpr int host_order(Order order) {
  return order == Order::kRelaxed   ? __ATOMIC_RELAXED
         : order == Order::kAcquire ? __ATOMIC_ACQUIRE
         : order == Order::kRelease ? __ATOMIC_RELEASE
                                    : __ATOMIC_ACQ_REL;
}
constexpr int host_load_order(Order order) {
  return order == Order::kRelaxed || order == Order::kRelease ? __ATOMIC_RELAXED : __ATOMIC_ACQUIRE;
}
/// Replaces the value by operation(value, operand). One that changes nothing is a poll, if its
/// result is used.
template <Order kOrder, class T, class Operation>
T update(T* address, T operand, Operation operation, const char* instruction, bool returns,
         emulator::Location where) {
  emulator::model::check_aligned(address, sizeof(T), instruction, where);
  constexpr int kHost = host_order(kOrder), kLoad = host_load_order(kOrder);
  bool changed = true;
  T before = emulator::atomics::update<kHost, kLoad>(address, operand, operation, &changed);
  if (!changed && returns &&
      emulator::model::polled(address, emulator::atomics::bits_of(before), where)) {
    before = emulator::atomics::update<kHost, kLoad>(address, operand, operation, &changed);
  }
  return before;
}
#endif
}  // namespace detail

/// Adds (integers modulo 2^n). Returns the value before. T: std::uint32_t, std::int32_t,
/// std::uint64_t, std::int64_t, float, double, F16x2, Bf16x2. PTX: atom.add.
template <Scope kScope = Scope::kGpu, Order kOrder = Order::kRelaxed, class T>
RUNGS_DEVICE T atom_add(T* address, std::type_identity_t<T> value RUNGS_AND_WHERE) {
  static_assert(detail::kOneOf<T, std::uint32_t, std::int32_t, std::uint64_t, std::int64_t, float,
                               double, F16x2, Bf16x2>);
#if RUNGS_GPU_CUDA
  T before;
  RUNGS_ATOM_ON((std::is_same_v<T, std::uint32_t>), ".add.u32", "r", )
  RUNGS_ATOM_ON((std::is_same_v<T, std::int32_t>), ".add.s32", "r", )
  RUNGS_ATOM_ON((std::is_same_v<T, std::uint64_t>), ".add.u64", "l", )
  RUNGS_ATOM_ON((std::is_same_v<T, std::int64_t>), ".add.u64", "l", )
  RUNGS_ATOM_ON((std::is_same_v<T, float>), ".add.f32", "f", )
  RUNGS_ATOM_ON((std::is_same_v<T, double>), ".add.f64", "d", )
  RUNGS_ATOM_ON((std::is_same_v<T, F16x2>), ".add.noftz.f16x2", "r", .bits)
  RUNGS_ATOM_ON((std::is_same_v<T, Bf16x2>), ".add.noftz.bf16x2", "r", .bits)
#else
  return detail::update<kOrder>(address, value, emulator::atomics::Add{}, "atom.add", true, where);
#endif
}
/// The same without a result. PTX: red.add.
template <Scope kScope = Scope::kGpu, Order kOrder = Order::kRelaxed, class T>
RUNGS_DEVICE void red_add(T* address, std::type_identity_t<T> value RUNGS_AND_WHERE) {
  static_assert(detail::kOneOf<T, std::uint32_t, std::int32_t, std::uint64_t, std::int64_t, float,
                               double, F16x2, Bf16x2>);
  static_assert(kOrder == Order::kRelaxed || kOrder == Order::kRelease);
#if RUNGS_GPU_CUDA
  RUNGS_RED_ON((std::is_same_v<T, std::uint32_t>), ".add.u32", "r", )
  RUNGS_RED_ON((std::is_same_v<T, std::int32_t>), ".add.s32", "r", )
  RUNGS_RED_ON((std::is_same_v<T, std::uint64_t>), ".add.u64", "l", )
  RUNGS_RED_ON((std::is_same_v<T, std::int64_t>), ".add.u64", "l", )
  RUNGS_RED_ON((std::is_same_v<T, float>), ".add.f32", "f", )
  RUNGS_RED_ON((std::is_same_v<T, double>), ".add.f64", "d", )
  RUNGS_RED_ON((std::is_same_v<T, F16x2>), ".add.noftz.f16x2", "r", .bits)
  RUNGS_RED_ON((std::is_same_v<T, Bf16x2>), ".add.noftz.bf16x2", "r", .bits)
#else
  detail::update<kOrder>(address, value, emulator::atomics::Add{}, "red.add", false, where);
#endif
}

/// Stores the smaller of the value and `value`. Returns the value before. T: 32- and 64-bit
/// integers, signed or not. PTX: atom.min.
template <Scope kScope = Scope::kGpu, Order kOrder = Order::kRelaxed, class T>
RUNGS_DEVICE T atom_min(T* address, std::type_identity_t<T> value RUNGS_AND_WHERE) {
  static_assert(detail::kOneOf<T, std::uint32_t, std::int32_t, std::uint64_t, std::int64_t>);
#if RUNGS_GPU_CUDA
  T before;
  RUNGS_ATOM_ON((std::is_same_v<T, std::uint32_t>), ".min.u32", "r", )
  RUNGS_ATOM_ON((std::is_same_v<T, std::int32_t>), ".min.s32", "r", )
  RUNGS_ATOM_ON((std::is_same_v<T, std::uint64_t>), ".min.u64", "l", )
  RUNGS_ATOM_ON((std::is_same_v<T, std::int64_t>), ".min.s64", "l", )
#else
  return detail::update<kOrder>(address, value, emulator::atomics::Min{}, "atom.min", true, where);
#endif
}
/// The same without a result. PTX: red.min.
template <Scope kScope = Scope::kGpu, Order kOrder = Order::kRelaxed, class T>
RUNGS_DEVICE void red_min(T* address, std::type_identity_t<T> value RUNGS_AND_WHERE) {
  static_assert(detail::kOneOf<T, std::uint32_t, std::int32_t, std::uint64_t, std::int64_t>);
  static_assert(kOrder == Order::kRelaxed || kOrder == Order::kRelease);
#if RUNGS_GPU_CUDA
  RUNGS_RED_ON((std::is_same_v<T, std::uint32_t>), ".min.u32", "r", )
  RUNGS_RED_ON((std::is_same_v<T, std::int32_t>), ".min.s32", "r", )
  RUNGS_RED_ON((std::is_same_v<T, std::uint64_t>), ".min.u64", "l", )
  RUNGS_RED_ON((std::is_same_v<T, std::int64_t>), ".min.s64", "l", )
#else
  detail::update<kOrder>(address, value, emulator::atomics::Min{}, "red.min", false, where);
#endif
}

/// Stores the larger of the value and `value`. Returns the value before. T: as atom_min(). PTX:
/// atom.max.
template <Scope kScope = Scope::kGpu, Order kOrder = Order::kRelaxed, class T>
RUNGS_DEVICE T atom_max(T* address, std::type_identity_t<T> value RUNGS_AND_WHERE) {
  static_assert(detail::kOneOf<T, std::uint32_t, std::int32_t, std::uint64_t, std::int64_t>);
#if RUNGS_GPU_CUDA
  T before;
  RUNGS_ATOM_ON((std::is_same_v<T, std::uint32_t>), ".max.u32", "r", )
  RUNGS_ATOM_ON((std::is_same_v<T, std::int32_t>), ".max.s32", "r", )
  RUNGS_ATOM_ON((std::is_same_v<T, std::uint64_t>), ".max.u64", "l", )
  RUNGS_ATOM_ON((std::is_same_v<T, std::int64_t>), ".max.s64", "l", )
#else
  return detail::update<kOrder>(address, value, emulator::atomics::Max{}, "atom.max", true, where);
#endif
}
/// The same without a result. PTX: red.max.
template <Scope kScope = Scope::kGpu, Order kOrder = Order::kRelaxed, class T>
RUNGS_DEVICE void red_max(T* address, std::type_identity_t<T> value RUNGS_AND_WHERE) {
  static_assert(detail::kOneOf<T, std::uint32_t, std::int32_t, std::uint64_t, std::int64_t>);
  static_assert(kOrder == Order::kRelaxed || kOrder == Order::kRelease);
#if RUNGS_GPU_CUDA
  RUNGS_RED_ON((std::is_same_v<T, std::uint32_t>), ".max.u32", "r", )
  RUNGS_RED_ON((std::is_same_v<T, std::int32_t>), ".max.s32", "r", )
  RUNGS_RED_ON((std::is_same_v<T, std::uint64_t>), ".max.u64", "l", )
  RUNGS_RED_ON((std::is_same_v<T, std::int64_t>), ".max.s64", "l", )
#else
  detail::update<kOrder>(address, value, emulator::atomics::Max{}, "red.max", false, where);
#endif
}

/// Bitwise and. Returns the value before. T: 32- and 64-bit integers. PTX: atom.and.
template <Scope kScope = Scope::kGpu, Order kOrder = Order::kRelaxed, class T>
RUNGS_DEVICE T atom_and(T* address, std::type_identity_t<T> value RUNGS_AND_WHERE) {
  static_assert(detail::kOneOf<T, std::uint32_t, std::int32_t, std::uint64_t, std::int64_t>);
#if RUNGS_GPU_CUDA
  T before;
  RUNGS_ATOM_ON((std::is_same_v<T, std::uint32_t>), ".and.b32", "r", )
  RUNGS_ATOM_ON((std::is_same_v<T, std::int32_t>), ".and.b32", "r", )
  RUNGS_ATOM_ON((std::is_same_v<T, std::uint64_t>), ".and.b64", "l", )
  RUNGS_ATOM_ON((std::is_same_v<T, std::int64_t>), ".and.b64", "l", )
#else
  return detail::update<kOrder>(address, value, emulator::atomics::And{}, "atom.and", true, where);
#endif
}
/// The same without a result. PTX: red.and.
template <Scope kScope = Scope::kGpu, Order kOrder = Order::kRelaxed, class T>
RUNGS_DEVICE void red_and(T* address, std::type_identity_t<T> value RUNGS_AND_WHERE) {
  static_assert(detail::kOneOf<T, std::uint32_t, std::int32_t, std::uint64_t, std::int64_t>);
  static_assert(kOrder == Order::kRelaxed || kOrder == Order::kRelease);
#if RUNGS_GPU_CUDA
  RUNGS_RED_ON((std::is_same_v<T, std::uint32_t>), ".and.b32", "r", )
  RUNGS_RED_ON((std::is_same_v<T, std::int32_t>), ".and.b32", "r", )
  RUNGS_RED_ON((std::is_same_v<T, std::uint64_t>), ".and.b64", "l", )
  RUNGS_RED_ON((std::is_same_v<T, std::int64_t>), ".and.b64", "l", )
#else
  detail::update<kOrder>(address, value, emulator::atomics::And{}, "red.and", false, where);
#endif
}

/// Bitwise or. Returns the value before. T: 32- and 64-bit integers. PTX: atom.or.
template <Scope kScope = Scope::kGpu, Order kOrder = Order::kRelaxed, class T>
RUNGS_DEVICE T atom_or(T* address, std::type_identity_t<T> value RUNGS_AND_WHERE) {
  static_assert(detail::kOneOf<T, std::uint32_t, std::int32_t, std::uint64_t, std::int64_t>);
#if RUNGS_GPU_CUDA
  T before;
  RUNGS_ATOM_ON((std::is_same_v<T, std::uint32_t>), ".or.b32", "r", )
  RUNGS_ATOM_ON((std::is_same_v<T, std::int32_t>), ".or.b32", "r", )
  RUNGS_ATOM_ON((std::is_same_v<T, std::uint64_t>), ".or.b64", "l", )
  RUNGS_ATOM_ON((std::is_same_v<T, std::int64_t>), ".or.b64", "l", )
#else
  return detail::update<kOrder>(address, value, emulator::atomics::Or{}, "atom.or", true, where);
#endif
}
/// The same without a result. PTX: red.or.
template <Scope kScope = Scope::kGpu, Order kOrder = Order::kRelaxed, class T>
RUNGS_DEVICE void red_or(T* address, std::type_identity_t<T> value RUNGS_AND_WHERE) {
  static_assert(detail::kOneOf<T, std::uint32_t, std::int32_t, std::uint64_t, std::int64_t>);
  static_assert(kOrder == Order::kRelaxed || kOrder == Order::kRelease);
#if RUNGS_GPU_CUDA
  RUNGS_RED_ON((std::is_same_v<T, std::uint32_t>), ".or.b32", "r", )
  RUNGS_RED_ON((std::is_same_v<T, std::int32_t>), ".or.b32", "r", )
  RUNGS_RED_ON((std::is_same_v<T, std::uint64_t>), ".or.b64", "l", )
  RUNGS_RED_ON((std::is_same_v<T, std::int64_t>), ".or.b64", "l", )
#else
  detail::update<kOrder>(address, value, emulator::atomics::Or{}, "red.or", false, where);
#endif
}

/// Bitwise exclusive or. Returns the value before. T: 32- and 64-bit integers. PTX: atom.xor.
template <Scope kScope = Scope::kGpu, Order kOrder = Order::kRelaxed, class T>
RUNGS_DEVICE T atom_xor(T* address, std::type_identity_t<T> value RUNGS_AND_WHERE) {
  static_assert(detail::kOneOf<T, std::uint32_t, std::int32_t, std::uint64_t, std::int64_t>);
#if RUNGS_GPU_CUDA
  T before;
  RUNGS_ATOM_ON((std::is_same_v<T, std::uint32_t>), ".xor.b32", "r", )
  RUNGS_ATOM_ON((std::is_same_v<T, std::int32_t>), ".xor.b32", "r", )
  RUNGS_ATOM_ON((std::is_same_v<T, std::uint64_t>), ".xor.b64", "l", )
  RUNGS_ATOM_ON((std::is_same_v<T, std::int64_t>), ".xor.b64", "l", )
#else
  return detail::update<kOrder>(address, value, emulator::atomics::Xor{}, "atom.xor", true, where);
#endif
}
/// The same without a result. PTX: red.xor.
template <Scope kScope = Scope::kGpu, Order kOrder = Order::kRelaxed, class T>
RUNGS_DEVICE void red_xor(T* address, std::type_identity_t<T> value RUNGS_AND_WHERE) {
  static_assert(detail::kOneOf<T, std::uint32_t, std::int32_t, std::uint64_t, std::int64_t>);
  static_assert(kOrder == Order::kRelaxed || kOrder == Order::kRelease);
#if RUNGS_GPU_CUDA
  RUNGS_RED_ON((std::is_same_v<T, std::uint32_t>), ".xor.b32", "r", )
  RUNGS_RED_ON((std::is_same_v<T, std::int32_t>), ".xor.b32", "r", )
  RUNGS_RED_ON((std::is_same_v<T, std::uint64_t>), ".xor.b64", "l", )
  RUNGS_RED_ON((std::is_same_v<T, std::int64_t>), ".xor.b64", "l", )
#else
  detail::update<kOrder>(address, value, emulator::atomics::Xor{}, "red.xor", false, where);
#endif
}

/// Counts up: 0 if the value is `value` or more, else one more. Returns the value before. T:
/// std::uint32_t. PTX: atom.inc.
template <Scope kScope = Scope::kGpu, Order kOrder = Order::kRelaxed, class T>
RUNGS_DEVICE T atom_inc(T* address, std::type_identity_t<T> value RUNGS_AND_WHERE) {
  static_assert(detail::kOneOf<T, std::uint32_t>);
#if RUNGS_GPU_CUDA
  T before;
  RUNGS_ATOM_ON((std::is_same_v<T, std::uint32_t>), ".inc.u32", "r", )
#else
  return detail::update<kOrder>(address, value, emulator::atomics::Inc{}, "atom.inc", true, where);
#endif
}
/// The same without a result. PTX: red.inc.
template <Scope kScope = Scope::kGpu, Order kOrder = Order::kRelaxed, class T>
RUNGS_DEVICE void red_inc(T* address, std::type_identity_t<T> value RUNGS_AND_WHERE) {
  static_assert(detail::kOneOf<T, std::uint32_t>);
  static_assert(kOrder == Order::kRelaxed || kOrder == Order::kRelease);
#if RUNGS_GPU_CUDA
  RUNGS_RED_ON((std::is_same_v<T, std::uint32_t>), ".inc.u32", "r", )
#else
  detail::update<kOrder>(address, value, emulator::atomics::Inc{}, "red.inc", false, where);
#endif
}

/// Counts down: `value` if the value is 0 or more than `value`, else one less. Returns the value
/// before. T: std::uint32_t. PTX: atom.dec.
template <Scope kScope = Scope::kGpu, Order kOrder = Order::kRelaxed, class T>
RUNGS_DEVICE T atom_dec(T* address, std::type_identity_t<T> value RUNGS_AND_WHERE) {
  static_assert(detail::kOneOf<T, std::uint32_t>);
#if RUNGS_GPU_CUDA
  T before;
  RUNGS_ATOM_ON((std::is_same_v<T, std::uint32_t>), ".dec.u32", "r", )
#else
  return detail::update<kOrder>(address, value, emulator::atomics::Dec{}, "atom.dec", true, where);
#endif
}
/// The same without a result. PTX: red.dec.
template <Scope kScope = Scope::kGpu, Order kOrder = Order::kRelaxed, class T>
RUNGS_DEVICE void red_dec(T* address, std::type_identity_t<T> value RUNGS_AND_WHERE) {
  static_assert(detail::kOneOf<T, std::uint32_t>);
  static_assert(kOrder == Order::kRelaxed || kOrder == Order::kRelease);
#if RUNGS_GPU_CUDA
  RUNGS_RED_ON((std::is_same_v<T, std::uint32_t>), ".dec.u32", "r", )
#else
  detail::update<kOrder>(address, value, emulator::atomics::Dec{}, "red.dec", false, where);
#endif
}

/// Stores `value`; returns the value before. T: 32- and 64-bit integers. PTX: atom.exch.
template <Scope kScope = Scope::kGpu, Order kOrder = Order::kRelaxed, class T>
RUNGS_DEVICE T atom_exch(T* address, std::type_identity_t<T> value RUNGS_AND_WHERE) {
  static_assert(std::is_integral_v<T> && (sizeof(T) == 4 || sizeof(T) == 8));
#if RUNGS_GPU_CUDA
  T before;
  RUNGS_ATOM_ON(sizeof(T) == 4, ".exch.b32", "r", )
  RUNGS_ATOM_ON(sizeof(T) == 8, ".exch.b64", "l", )
#else
  return detail::update<kOrder>(address, value, emulator::atomics::Exchange{}, "atom.exch", true,
                                where);
#endif
}

/// Stores `desired` if the value is `expected`; returns the value before. T: 32- and 64-bit
/// integers. PTX: atom.cas.
template <Scope kScope = Scope::kGpu, Order kOrder = Order::kRelaxed, class T>
RUNGS_DEVICE T atom_cas(T* address, std::type_identity_t<T> expected,
                        std::type_identity_t<T> desired RUNGS_AND_WHERE) {
  static_assert(std::is_integral_v<T> && (sizeof(T) == 4 || sizeof(T) == 8));
#if RUNGS_GPU_CUDA
  T before;
  if constexpr (sizeof(T) == 4) {
    RUNGS_ATOM_ASM(".cas.b32 %0, [%1], %2, %3;", "=r"(before)
                   : "l"(address), "r"(expected), "r"(desired))
  } else {
    RUNGS_ATOM_ASM(".cas.b64 %0, [%1], %2, %3;", "=l"(before)
                   : "l"(address), "l"(expected), "l"(desired))
  }
  return before;
#else
  emulator::model::check_aligned(address, sizeof(T), "atom.cas", where);
  T before = expected;
  if (!__atomic_compare_exchange_n(address, &before, desired, false, detail::host_order(kOrder),
                                   detail::host_load_order(kOrder))) {
    static_cast<void>(emulator::model::polled(address, static_cast<std::uint64_t>(before), where));
  }
  return before;
#endif
}

#if RUNGS_GPU_CUDA
#undef RUNGS_ATOM_ON
#undef RUNGS_RED_ON
#endif

}  // namespace rungs::ptx
