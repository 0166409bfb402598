#pragma once
/// @file cluster_atomic.hpp
/// Read-modify-write operations on shared memory of any block of the cluster by shared::cluster
/// address (map_shared()), at cluster scope (PTX ISA, atom.cluster.shared::cluster, red). Any
/// thread; T is std::uint32_t, std::int32_t or std::uint64_t unless said otherwise. By generic
/// pointer the same do atom_...<Scope::kCluster>() of atomic_ops.hpp.

#include <rungs/ptx/atomic_ops.hpp>
#include <rungs/ptx/cluster.hpp>

namespace rungs::ptx {

#if RUNGS_GPU_CUDA
#define RUNGS_CLUSTER_ORDERS(text, ...)                                                \
  if constexpr (kOrder == Order::kRelaxed) {                                           \
    asm volatile("atom.relaxed.cluster.shared::cluster." text:__VA_ARGS__ : "memory"); \
  } else if constexpr (kOrder == Order::kAcquire) {                                    \
    asm volatile("atom.acquire.cluster.shared::cluster." text:__VA_ARGS__ : "memory"); \
  } else if constexpr (kOrder == Order::kRelease) {                                    \
    asm volatile("atom.release.cluster.shared::cluster." text:__VA_ARGS__ : "memory"); \
  } else {                                                                             \
    asm volatile("atom.acq_rel.cluster.shared::cluster." text:__VA_ARGS__ : "memory"); \
  }
// `u` and `s`: the type's letter, `b` for bits, where unsigned and signed differ.
#define RUNGS_CLUSTER_ATOM(op, Functor, u, s)                                                     \
  template <Order kOrder = Order::kRelaxed, class T>                                              \
  RUNGS_DEVICE T atom_##op##_shared_cluster(std::uint32_t address, T value) {                     \
    static_assert(detail::kOneOf<T, std::uint32_t, std::int32_t, std::uint64_t>);                 \
    T before;                                                                                     \
    if constexpr (sizeof(T) == 8) {                                                               \
      RUNGS_CLUSTER_ORDERS(#op "." u "64 %0, [%1], %2;", "=l"(before) : "r"(address), "l"(value)) \
    } else if constexpr (std::is_signed_v<T>) {                                                   \
      RUNGS_CLUSTER_ORDERS(#op "." s "32 %0, [%1], %2;", "=r"(before) : "r"(address), "r"(value)) \
    } else {                                                                                      \
      RUNGS_CLUSTER_ORDERS(#op "." u "32 %0, [%1], %2;", "=r"(before) : "r"(address), "r"(value)) \
    }                                                                                             \
    return before;                                                                                \
  }
#else
#define RUNGS_CLUSTER_ATOM(op, Functor, u, s)                                                 \
  template <Order kOrder = Order::kRelaxed, class T>                                          \
  RUNGS_DEVICE T atom_##op##_shared_cluster(std::uint32_t address, T value RUNGS_AND_WHERE) { \
    static_assert(detail::kOneOf<T, std::uint32_t, std::int32_t, std::uint64_t>);             \
    T* word = detail::cluster_word<T>(address, "atom.shared::cluster." #op, where);           \
    return detail::update<kOrder>(word, value, emulator::atomics::Functor{},                  \
                                  "atom.shared::cluster." #op, true, where);                  \
  }
#endif
/// Adds (modulo 2^n); returns the value before. PTX: atom.add.
RUNGS_CLUSTER_ATOM(add, Add, "u", "s")
/// Stores the smaller, or the larger. PTX: atom.min, atom.max.
RUNGS_CLUSTER_ATOM(min, Min, "u", "s")
RUNGS_CLUSTER_ATOM(max, Max, "u", "s")
/// Bit by bit. PTX: atom.and, atom.or, atom.xor.
RUNGS_CLUSTER_ATOM(and, And, "b", "b")
RUNGS_CLUSTER_ATOM(or, Or, "b", "b")
RUNGS_CLUSTER_ATOM(xor, Xor, "b", "b")
/// Stores `value`. PTX: atom.exch.
RUNGS_CLUSTER_ATOM(exch, Exchange, "b", "b")
#undef RUNGS_CLUSTER_ATOM

/// Stores `desired` if the value is `expected`; returns the value before. PTX: atom.cas.
template <Order kOrder = Order::kRelaxed, class T>
RUNGS_DEVICE T atom_cas_shared_cluster(std::uint32_t address, T expected,
                                       std::type_identity_t<T> desired RUNGS_AND_WHERE) {
  static_assert(detail::kOneOf<T, std::uint32_t, std::int32_t, std::uint64_t>);
#if RUNGS_GPU_CUDA
  T before;
  if constexpr (sizeof(T) == 8) {
    RUNGS_CLUSTER_ORDERS("cas.b64 %0, [%1], %2, %3;", "=l"(before)
                         : "r"(address), "l"(expected), "l"(desired))
  } else {
    RUNGS_CLUSTER_ORDERS("cas.b32 %0, [%1], %2, %3;", "=r"(before)
                         : "r"(address), "r"(expected), "r"(desired))
  }
  return before;
#else
  T* word = detail::cluster_word<T>(address, "atom.shared::cluster.cas", where);
  return atom_cas<Scope::kCluster, kOrder>(word, expected, desired RUNGS_PASS_WHERE);
#endif
}
/// Adds at cluster scope; the sum depends on the order of arrival. PTX: atom.add.f32.
template <Order kOrder = Order::kRelaxed>
RUNGS_DEVICE float atom_add_shared_cluster(std::uint32_t address, float value RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  float before;
  RUNGS_CLUSTER_ORDERS("add.f32 %0, [%1], %2;", "=f"(before) : "r"(address), "f"(value))
  return before;
#else
  auto* word = detail::cluster_word<float>(address, "atom.shared::cluster.add", where);
  return detail::update<kOrder>(word, value, emulator::atomics::Add{}, "atom.shared::cluster.add",
                                true, where);
#endif
}
#if RUNGS_GPU_CUDA
#undef RUNGS_CLUSTER_ORDERS
#endif

}  // namespace rungs::ptx
