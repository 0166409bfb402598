#pragma once
/// @file memory_orders.hpp
/// Single loads and stores with the orders and scopes that memory.hpp lacks (PTX ISA, ld, st), and
/// 16-byte accesses that arrive whole. T is std::uint32_t, std::int32_t or std::uint64_t, naturally
/// aligned; addresses are generic. Any thread. The ordered loads are polls (memory.hpp).
///
/// Scope cta: threads of the block; cluster: of the cluster. In emulation the scope changes
/// nothing: one that is too narrow does not show.

#include <rungs/ptx/atomic_ops.hpp>
#include <rungs/ptx/memory.hpp>

namespace rungs::ptx {

// One load and one store with the qualifiers `text`; the host's `order`; whether it is a poll.
#if RUNGS_GPU_CUDA
#define RUNGS_LOAD(name, text, order, polls)                                            \
  template <class T>                                                                    \
  RUNGS_DEVICE T name(const T* address) {                                               \
    detail::check_word<T>();                                                            \
    T value;                                                                            \
    if constexpr (sizeof(T) == 8) {                                                     \
      asm volatile("ld" text ".b64 %0, [%1];" : "=l"(value) : "l"(address) : "memory"); \
    } else {                                                                            \
      asm volatile("ld" text ".b32 %0, [%1];" : "=r"(value) : "l"(address) : "memory"); \
    }                                                                                   \
    return value;                                                                       \
  }
#define RUNGS_STORE(name, text, order)                                                \
  template <class T>                                                                  \
  RUNGS_DEVICE void name(T* address, std::type_identity_t<T> value) {                 \
    detail::check_word<T>();                                                          \
    if constexpr (sizeof(T) == 8) {                                                   \
      asm volatile("st" text ".b64 [%0], %1;" ::"l"(address), "l"(value) : "memory"); \
    } else {                                                                          \
      asm volatile("st" text ".b32 [%0], %1;" ::"l"(address), "r"(value) : "memory"); \
    }                                                                                 \
  }
#else
#define RUNGS_LOAD(name, text, order, polls)                              \
  template <class T>                                                      \
  RUNGS_DEVICE T name(const T* address RUNGS_AND_WHERE) {                 \
    detail::check_word<T>();                                              \
    emulator::model::check_aligned(address, sizeof(T), "ld" text, where); \
    if constexpr (polls) return detail::load<order>(address, where);      \
    return *address;                                                      \
  }
#define RUNGS_STORE(name, text, order)                                                \
  template <class T>                                                                  \
  RUNGS_DEVICE void name(T* address, std::type_identity_t<T> value RUNGS_AND_WHERE) { \
    detail::check_word<T>();                                                          \
    emulator::model::check_aligned(address, sizeof(T), "st" text, where);             \
    if constexpr ((order) < 0) {                                                      \
      *address = value;                                                               \
    } else {                                                                          \
      __atomic_store_n(address, value, (order) < 0 ? __ATOMIC_RELAXED : (order));     \
    }                                                                                 \
  }
#endif

/// An ordinary load or store: nobody else accesses the word meanwhile. PTX: ld.weak, st.weak.
RUNGS_LOAD(ld_weak, ".weak", __ATOMIC_RELAXED, false)
RUNGS_STORE(st_weak, ".weak", -1)
/// As relaxed at system scope, and never merged with or split from another. PTX: ld.volatile,
/// st.volatile.
RUNGS_LOAD(ld_volatile, ".volatile", __ATOMIC_RELAXED, true)
RUNGS_STORE(st_volatile, ".volatile", __ATOMIC_RELAXED)
/// Loads that order nothing. PTX: ld.relaxed.cta, ld.relaxed.cluster.
RUNGS_LOAD(ld_relaxed_cta, ".relaxed.cta", __ATOMIC_RELAXED, true)
RUNGS_LOAD(ld_relaxed_cluster, ".relaxed.cluster", __ATOMIC_RELAXED, true)
/// Loads that acquire. PTX: ld.acquire.cta, ld.acquire.cluster.
RUNGS_LOAD(ld_acquire_cta, ".acquire.cta", __ATOMIC_ACQUIRE, true)
RUNGS_LOAD(ld_acquire_cluster, ".acquire.cluster", __ATOMIC_ACQUIRE, true)
/// Stores that order nothing. PTX: st.relaxed.cta, st.relaxed.cluster.
RUNGS_STORE(st_relaxed_cta, ".relaxed.cta", __ATOMIC_RELAXED)
RUNGS_STORE(st_relaxed_cluster, ".relaxed.cluster", __ATOMIC_RELAXED)
/// Stores that release. PTX: st.release.cta, st.release.cluster.
RUNGS_STORE(st_release_cta, ".release.cta", __ATOMIC_RELEASE)
RUNGS_STORE(st_release_cluster, ".release.cluster", __ATOMIC_RELEASE)
/// Accesses of device registers and doorbells in global memory: each is carried out exactly once,
/// as written. PTX: ld.mmio.relaxed.sys.global, st.mmio.relaxed.sys.global.
RUNGS_LOAD(ld_mmio, ".mmio.relaxed.sys.global", __ATOMIC_RELAXED, true)
RUNGS_STORE(st_mmio, ".mmio.relaxed.sys.global", __ATOMIC_RELAXED)
#undef RUNGS_LOAD
#undef RUNGS_STORE

// 16 bytes in global memory in one access: nobody sees one half without the other.
#if RUNGS_GPU_CUDA
#define RUNGS_LOAD_B128(name, text)                                                             \
  RUNGS_DEVICE U64x2 name(const U64x2* address) {                                               \
    U64x2 value;                                                                                \
    asm volatile("{\n.reg .b128 v;\nld." text ".global.b128 v, [%2];\nmov.b128 {%0, %1}, v;\n}" \
                 : "=l"(value.low), "=l"(value.high)                                            \
                 : "l"(address)                                                                 \
                 : "memory");                                                                   \
    return value;                                                                               \
  }
#define RUNGS_STORE_B128(name, text)                                 \
  RUNGS_DEVICE void name(U64x2* address, U64x2 value) {              \
    asm volatile("{\n.reg .b128 v;\nmov.b128 v, {%1, %2};\nst." text \
                 ".global.b128 [%0], v;\n}" ::"l"(address),          \
                 "l"(value.low), "l"(value.high)                     \
                 : "memory");                                        \
  }
#else
#define RUNGS_LOAD_B128(name, text)                                        \
  RUNGS_DEVICE U64x2 name(const U64x2* address RUNGS_AND_WHERE) {          \
    emulator::model::check_global(address, 16, "ld." text ".b128", where); \
    return detail::load_b128(address, where);                              \
  }
#define RUNGS_STORE_B128(name, text)                                                         \
  RUNGS_DEVICE void name(U64x2* address, U64x2 value RUNGS_AND_WHERE) {                      \
    emulator::model::check_global(address, 16, "st." text ".b128", where);                   \
    U64x2 before{};                                                                          \
    while (!emulator::model::compare_exchange_128(&address->low, &before.low, &value.low)) { \
    }                                                                                        \
  }
namespace detail {
inline U64x2 load_b128(const U64x2* address, emulator::Location where) {
  auto* words = const_cast<std::uint64_t*>(&address->low);
  U64x2 value{};
  emulator::model::compare_exchange_128(words, &value.low, &value.low);  // writes what is there
  if (emulator::model::polled(words, value.low, where))
    emulator::model::compare_exchange_128(words, &value.low, &value.low);
  return value;
}
}  // namespace detail
#endif
/// PTX: ld.relaxed.gpu.global.b128 and its kin.
RUNGS_LOAD_B128(ld_relaxed_gpu_b128, "relaxed.gpu")
RUNGS_LOAD_B128(ld_relaxed_sys_b128, "relaxed.sys")
RUNGS_LOAD_B128(ld_acquire_gpu_b128, "acquire.gpu")
RUNGS_LOAD_B128(ld_acquire_sys_b128, "acquire.sys")
RUNGS_STORE_B128(st_relaxed_gpu_b128, "relaxed.gpu")
RUNGS_STORE_B128(st_relaxed_sys_b128, "relaxed.sys")
RUNGS_STORE_B128(st_release_gpu_b128, "release.gpu")
RUNGS_STORE_B128(st_release_sys_b128, "release.sys")
#undef RUNGS_LOAD_B128
#undef RUNGS_STORE_B128

}  // namespace rungs::ptx
