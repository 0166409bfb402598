#pragma once
/// @file atomic.hpp
/// Read-modify-write operations on global (or shared) memory, relaxed (PTX ISA, atom, red). They
/// order nothing: put a fence before one that publishes and after one that takes. Scope gpu: atomic
/// among this device's threads; sys: also with peers and the host. In emulation they are the host's
/// atomics, whatever the scope.

#include <rungs/ptx/where.hpp>

#include <cstring>
#include <type_traits>

namespace rungs::ptx {

namespace detail {
template <class T>
inline constexpr bool kAtomicInteger =
    std::is_same_v<T, std::uint32_t> || std::is_same_v<T, std::int32_t> ||
    std::is_same_v<T, std::uint64_t>;

enum class Scope { kGpu, kSys };

#if RUNGS_GPU_CUDA
// One instruction in the scope `kScope` of the function around it. After the text: the operands.
#define RUNGS_SCOPED_ASM(instruction, text, ...)                             \
  do {                                                                       \
    if constexpr (kScope == Scope::kGpu) {                                   \
      asm volatile(instruction ".relaxed.gpu." text:__VA_ARGS__ : "memory"); \
    } else {                                                                 \
      asm volatile(instruction ".relaxed.sys." text:__VA_ARGS__ : "memory"); \
    }                                                                        \
  } while (false)
#else
template <class T>
T add(T* address, T value) {
  if constexpr (std::is_same_v<T, float>) {
    auto* word = reinterpret_cast<std::uint32_t*>(address);
    std::uint32_t seen = __atomic_load_n(word, __ATOMIC_RELAXED);
    for (;;) {
      float before;
      memcpy(&before, &seen, sizeof(before));
      const float sum = before + value;
      std::uint32_t next;
      memcpy(&next, &sum, sizeof(next));
      if (__atomic_compare_exchange_n(word, &seen, next, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        return before;
    }
  } else {
    return __atomic_fetch_add(address, value, __ATOMIC_RELAXED);
  }
}
#endif

template <Scope kScope, class T>
RUNGS_DEVICE T atomic_add(T* address, T value RUNGS_AND_WHERE) {
  static_assert(kAtomicInteger<T> || std::is_same_v<T, float>);
#if RUNGS_GPU_CUDA
  T before;
  if constexpr (std::is_same_v<T, float>) {
    RUNGS_SCOPED_ASM("atom", "add.f32 %0, [%1], %2;", "=f"(before) : "l"(address), "f"(value));
  } else if constexpr (sizeof(T) == 8) {
    RUNGS_SCOPED_ASM("atom", "add.u64 %0, [%1], %2;", "=l"(before) : "l"(address), "l"(value));
  } else {
    RUNGS_SCOPED_ASM("atom", "add.u32 %0, [%1], %2;", "=r"(before) : "l"(address), "r"(value));
  }
  return before;
#else
  const T before = add(address, value);
  if constexpr (!std::is_same_v<T, float>) {  // adding nothing is how a counter is polled
    if (value == 0 && emulator::model::polled(address, static_cast<std::uint64_t>(before), where)) {
      return add(address, value);
    }
  }
  return before;
#endif
}

template <Scope kScope, class T>
RUNGS_DEVICE void red_add(T* address, T value) {
  static_assert(kAtomicInteger<T> || std::is_same_v<T, float>);
#if RUNGS_GPU_CUDA
  if constexpr (std::is_same_v<T, float>) {
    RUNGS_SCOPED_ASM("red", "add.f32 [%0], %1;", : "l"(address), "f"(value));
  } else if constexpr (sizeof(T) == 8) {
    RUNGS_SCOPED_ASM("red", "add.u64 [%0], %1;", : "l"(address), "l"(value));
  } else {
    RUNGS_SCOPED_ASM("red", "add.u32 [%0], %1;", : "l"(address), "r"(value));
  }
#else
  add(address, value);
#endif
}

template <Scope kScope, class T>
RUNGS_DEVICE T atomic_cas(T* address, T expected, T desired RUNGS_AND_WHERE) {
  static_assert(kAtomicInteger<T>);
#if RUNGS_GPU_CUDA
  T before;
  if constexpr (sizeof(T) == 8) {
    RUNGS_SCOPED_ASM("atom", "cas.b64 %0, [%1], %2, %3;", "=l"(before)
                     : "l"(address), "l"(expected), "l"(desired));
  } else {
    RUNGS_SCOPED_ASM("atom", "cas.b32 %0, [%1], %2, %3;", "=r"(before)
                     : "l"(address), "r"(expected), "r"(desired));
  }
  return before;
#else
  T before = expected;
  if (!__atomic_compare_exchange_n(address, &before, desired, false, __ATOMIC_RELAXED,
                                   __ATOMIC_RELAXED)) {
    static_cast<void>(emulator::model::polled(address, static_cast<std::uint64_t>(before), where));
  }
  return before;
#endif
}

template <Scope kScope, class T>
RUNGS_DEVICE T atomic_exchange(T* address, T value RUNGS_AND_WHERE) {
  static_assert(kAtomicInteger<T>);
#if RUNGS_GPU_CUDA
  T before;
  if constexpr (sizeof(T) == 8) {
    RUNGS_SCOPED_ASM("atom", "exch.b64 %0, [%1], %2;", "=l"(before) : "l"(address), "l"(value));
  } else {
    RUNGS_SCOPED_ASM("atom", "exch.b32 %0, [%1], %2;", "=r"(before) : "l"(address), "r"(value));
  }
  return before;
#else
  const T before = __atomic_exchange_n(address, value, __ATOMIC_RELAXED);
  if (before == value)
    static_cast<void>(emulator::model::polled(address, static_cast<std::uint64_t>(before), where));
  return before;
#endif
}
#undef RUNGS_SCOPED_ASM
}  // namespace detail

/// Adds at device scope and returns the value before. T: uint32_t, int32_t, uint64_t, float. Float
/// sums depend on the order of arrival: not for results that must repeat. PTX:
/// atom.relaxed.gpu.add.
template <class T>
RUNGS_DEVICE T atomic_add_gpu(T* address, std::type_identity_t<T> value RUNGS_AND_WHERE) {
  return detail::atomic_add<detail::Scope::kGpu>(address, value RUNGS_PASS_WHERE);
}
/// The same at system scope. PTX: atom.relaxed.sys.add.
template <class T>
RUNGS_DEVICE T atomic_add_sys(T* address, std::type_identity_t<T> value RUNGS_AND_WHERE) {
  return detail::atomic_add<detail::Scope::kSys>(address, value RUNGS_PASS_WHERE);
}

/// Adds at device scope without a result. T as atomic_add_gpu(). PTX: red.relaxed.gpu.add.
template <class T>
RUNGS_DEVICE void red_add_gpu(T* address, std::type_identity_t<T> value) {
  detail::red_add<detail::Scope::kGpu>(address, value);
}
/// The same at system scope. PTX: red.relaxed.sys.add.
template <class T>
RUNGS_DEVICE void red_add_sys(T* address, std::type_identity_t<T> value) {
  detail::red_add<detail::Scope::kSys>(address, value);
}

/// Stores `desired` if the value is `expected`, at device scope; returns the value before.
/// T: uint32_t, int32_t, uint64_t. A failed exchange is a poll. PTX: atom.relaxed.gpu.cas.
template <class T>
RUNGS_DEVICE T atomic_cas_gpu(T* address, std::type_identity_t<T> expected,
                              std::type_identity_t<T> desired RUNGS_AND_WHERE) {
  return detail::atomic_cas<detail::Scope::kGpu>(address, expected, desired RUNGS_PASS_WHERE);
}
/// The same at system scope. PTX: atom.relaxed.sys.cas.
template <class T>
RUNGS_DEVICE T atomic_cas_sys(T* address, std::type_identity_t<T> expected,
                              std::type_identity_t<T> desired RUNGS_AND_WHERE) {
  return detail::atomic_cas<detail::Scope::kSys>(address, expected, desired RUNGS_PASS_WHERE);
}

/// Stores `value` at device scope and returns the value before. T: uint32_t, int32_t, uint64_t.
/// Getting the same value back is a poll. PTX: atom.relaxed.gpu.exch.
template <class T>
RUNGS_DEVICE T atomic_exchange_gpu(T* address, std::type_identity_t<T> value RUNGS_AND_WHERE) {
  return detail::atomic_exchange<detail::Scope::kGpu>(address, value RUNGS_PASS_WHERE);
}
/// The same at system scope. PTX: atom.relaxed.sys.exch.
template <class T>
RUNGS_DEVICE T atomic_exchange_sys(T* address, std::type_identity_t<T> value RUNGS_AND_WHERE) {
  return detail::atomic_exchange<detail::Scope::kSys>(address, value RUNGS_PASS_WHERE);
}

/// Stores the larger of the value and `value`, at device scope; returns the value before. T:
/// uint32_t, int32_t. PTX: atom.relaxed.gpu.max.
template <class T>
RUNGS_DEVICE T atomic_max_gpu(T* address, std::type_identity_t<T> value) {
  static_assert(std::is_same_v<T, std::uint32_t> || std::is_same_v<T, std::int32_t>);
#if RUNGS_GPU_CUDA
  T before;
  if constexpr (std::is_signed_v<T>) {
    asm volatile("atom.relaxed.gpu.max.s32 %0, [%1], %2;"
                 : "=r"(before)
                 : "l"(address), "r"(value)
                 : "memory");
  } else {
    asm volatile("atom.relaxed.gpu.max.u32 %0, [%1], %2;"
                 : "=r"(before)
                 : "l"(address), "r"(value)
                 : "memory");
  }
  return before;
#else
  T before = __atomic_load_n(address, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(address, &before, before < value ? value : before, false,
                                      __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return before;
#endif
}

}  // namespace rungs::ptx
