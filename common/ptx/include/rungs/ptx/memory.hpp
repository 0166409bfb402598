#pragma once
/// @file memory.hpp
/// Loads and stores with a memory order and a scope (PTX ISA, "Memory Consistency Model", ld, st),
/// for flags and for data that another block, GPU or the host reads meanwhile. Scope gpu: threads
/// of this device; sys: also peers and the host. T is std::uint32_t, std::int32_t or std::uint64_t,
/// naturally aligned.
///
/// A load here may be polled: in emulation the other threads run when a thread keeps seeing the
/// same value.

#include <rungs/ptx/where.hpp>

#include <type_traits>

namespace rungs::ptx {

namespace detail {
template <class T>
RUNGS_HD void check_word() {
  static_assert(std::is_same_v<T, std::uint32_t> || std::is_same_v<T, std::int32_t> ||
                    std::is_same_v<T, std::uint64_t>,
                "synchronising accesses take std::uint32_t, std::int32_t and std::uint64_t");
}
#if !RUNGS_GPU_CUDA
template <int Order, class T>
T load(const T* address, emulator::Location where) {
  const T value = __atomic_load_n(address, Order);
  if (!emulator::model::polled(address, static_cast<std::uint64_t>(value), where)) return value;
  return __atomic_load_n(address, Order);
}
#endif
}  // namespace detail

/// Load at device scope; orders nothing. Any thread; a poll. PTX: ld.relaxed.gpu.
template <class T>
RUNGS_DEVICE T ld_relaxed_gpu(const T* address RUNGS_AND_WHERE) {
  detail::check_word<T>();
#if RUNGS_GPU_CUDA
  T value;
  if constexpr (sizeof(T) == 8) {
    asm volatile("ld.relaxed.gpu.b64 %0, [%1];" : "=l"(value) : "l"(address) : "memory");
  } else {
    asm volatile("ld.relaxed.gpu.b32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
  }
  return value;
#else
  return detail::load<__ATOMIC_RELAXED>(address, where);
#endif
}

/// Load at system scope; orders nothing. Any thread; a poll. PTX: ld.relaxed.sys.
template <class T>
RUNGS_DEVICE T ld_relaxed_sys(const T* address RUNGS_AND_WHERE) {
  detail::check_word<T>();
#if RUNGS_GPU_CUDA
  T value;
  if constexpr (sizeof(T) == 8) {
    asm volatile("ld.relaxed.sys.b64 %0, [%1];" : "=l"(value) : "l"(address) : "memory");
  } else {
    asm volatile("ld.relaxed.sys.b32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
  }
  return value;
#else
  return detail::load<__ATOMIC_RELAXED>(address, where);
#endif
}

/// Load at device scope; acquires: what the releasing store's thread wrote before is visible after
/// it. Any thread; a poll. PTX: ld.acquire.gpu.
template <class T>
RUNGS_DEVICE T ld_acquire_gpu(const T* address RUNGS_AND_WHERE) {
  detail::check_word<T>();
#if RUNGS_GPU_CUDA
  T value;
  if constexpr (sizeof(T) == 8) {
    asm volatile("ld.acquire.gpu.b64 %0, [%1];" : "=l"(value) : "l"(address) : "memory");
  } else {
    asm volatile("ld.acquire.gpu.b32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
  }
  return value;
#else
  return detail::load<__ATOMIC_ACQUIRE>(address, where);
#endif
}

/// Load at system scope; acquires: what the releasing store's thread wrote before is visible after
/// it. Any thread; a poll. PTX: ld.acquire.sys.
template <class T>
RUNGS_DEVICE T ld_acquire_sys(const T* address RUNGS_AND_WHERE) {
  detail::check_word<T>();
#if RUNGS_GPU_CUDA
  T value;
  if constexpr (sizeof(T) == 8) {
    asm volatile("ld.acquire.sys.b64 %0, [%1];" : "=l"(value) : "l"(address) : "memory");
  } else {
    asm volatile("ld.acquire.sys.b32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
  }
  return value;
#else
  return detail::load<__ATOMIC_ACQUIRE>(address, where);
#endif
}

/// ld_relaxed_gpu() for whoever takes the value as it is, such as a counter's lower bound, and does
/// not wait for another: no poll. Not in a loop, where in emulation nobody else would ever run. Any
/// thread. PTX: ld.relaxed.gpu.
template <class T>
RUNGS_DEVICE T peek_relaxed_gpu(const T* address) {
  detail::check_word<T>();
#if RUNGS_GPU_CUDA
  return ld_relaxed_gpu(address);
#else
  return __atomic_load_n(address, __ATOMIC_RELAXED);
#endif
}

/// Store at device scope; orders nothing. Any thread. PTX: st.relaxed.gpu.
template <class T>
RUNGS_DEVICE void st_relaxed_gpu(T* address, std::type_identity_t<T> value) {
  detail::check_word<T>();
#if RUNGS_GPU_CUDA
  if constexpr (sizeof(T) == 8) {
    asm volatile("st.relaxed.gpu.b64 [%0], %1;" ::"l"(address), "l"(value) : "memory");
  } else {
    asm volatile("st.relaxed.gpu.b32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
  }
#else
  __atomic_store_n(address, value, __ATOMIC_RELAXED);
#endif
}

/// Store at system scope; orders nothing. Any thread. PTX: st.relaxed.sys.
template <class T>
RUNGS_DEVICE void st_relaxed_sys(T* address, std::type_identity_t<T> value) {
  detail::check_word<T>();
#if RUNGS_GPU_CUDA
  if constexpr (sizeof(T) == 8) {
    asm volatile("st.relaxed.sys.b64 [%0], %1;" ::"l"(address), "l"(value) : "memory");
  } else {
    asm volatile("st.relaxed.sys.b32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
  }
#else
  __atomic_store_n(address, value, __ATOMIC_RELAXED);
#endif
}

/// Store at device scope; releases the thread's earlier writes. Any thread. PTX: st.release.gpu.
template <class T>
RUNGS_DEVICE void st_release_gpu(T* address, std::type_identity_t<T> value) {
  detail::check_word<T>();
#if RUNGS_GPU_CUDA
  if constexpr (sizeof(T) == 8) {
    asm volatile("st.release.gpu.b64 [%0], %1;" ::"l"(address), "l"(value) : "memory");
  } else {
    asm volatile("st.release.gpu.b32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
  }
#else
  __atomic_store_n(address, value, __ATOMIC_RELEASE);
#endif
}

/// Store at system scope; releases the thread's earlier writes. Any thread. PTX: st.release.sys.
template <class T>
RUNGS_DEVICE void st_release_sys(T* address, std::type_identity_t<T> value) {
  detail::check_word<T>();
#if RUNGS_GPU_CUDA
  if constexpr (sizeof(T) == 8) {
    asm volatile("st.release.sys.b64 [%0], %1;" ::"l"(address), "l"(value) : "memory");
  } else {
    asm volatile("st.release.sys.b32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
  }
#else
  __atomic_store_n(address, value, __ATOMIC_RELEASE);
#endif
}

}  // namespace rungs::ptx
