#pragma once
/// @file cache_hints.hpp
/// Ordinary loads and stores of global memory that say what the caches should keep (PTX ISA, ld,
/// st, ld.global.nc, prefetch). Hints change no value. Any thread; T is std::uint32_t,
/// std::int32_t, std::uint64_t, float, U32x4 or U64x2, naturally aligned. The emulator reports
/// misaligned addresses and ones in shared memory.
///
/// ld_nc_...: nobody may write the memory while the kernel runs (the read-only path of the first
/// level cache). In emulation a write shows at once: the misuse does not.

#include <rungs/ptx/memory_orders.hpp>

namespace rungs::ptx {

namespace detail {
template <class T>
inline constexpr bool kCached =
    kOneOf<T, std::uint32_t, std::int32_t, std::uint64_t, float, U32x4, U64x2>;
}  // namespace detail

#if RUNGS_GPU_CUDA
#define RUNGS_CACHED_LOAD(name, text)                                                          \
  template <class T>                                                                           \
  RUNGS_DEVICE T name(const T* address) {                                                      \
    static_assert(detail::kCached<T>);                                                         \
    T value;                                                                                   \
    if constexpr (std::is_same_v<T, U32x4>) {                                                  \
      asm volatile("ld.global" text ".v4.u32 {%0, %1, %2, %3}, [%4];"                          \
                   : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)                \
                   : "l"(address)                                                              \
                   : "memory");                                                                \
    } else if constexpr (std::is_same_v<T, U64x2>) {                                           \
      asm volatile("ld.global" text ".v2.u64 {%0, %1}, [%2];"                                  \
                   : "=l"(value.low), "=l"(value.high)                                         \
                   : "l"(address)                                                              \
                   : "memory");                                                                \
    } else if constexpr (std::is_same_v<T, float>) {                                           \
      asm volatile("ld.global" text ".f32 %0, [%1];" : "=f"(value) : "l"(address) : "memory"); \
    } else if constexpr (sizeof(T) == 8) {                                                     \
      asm volatile("ld.global" text ".b64 %0, [%1];" : "=l"(value) : "l"(address) : "memory"); \
    } else {                                                                                   \
      asm volatile("ld.global" text ".b32 %0, [%1];" : "=r"(value) : "l"(address) : "memory"); \
    }                                                                                          \
    return value;                                                                              \
  }
#define RUNGS_CACHED_STORE(name, text)                                                        \
  template <class T>                                                                          \
  RUNGS_DEVICE void name(T* address, std::type_identity_t<T> value) {                         \
    static_assert(detail::kCached<T>);                                                        \
    if constexpr (std::is_same_v<T, U32x4>) {                                                 \
      asm volatile("st.global" text ".v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(address),         \
                   "r"(value.x), "r"(value.y), "r"(value.z), "r"(value.w)                     \
                   : "memory");                                                               \
    } else if constexpr (std::is_same_v<T, U64x2>) {                                          \
      asm volatile("st.global" text ".v2.u64 [%0], {%1, %2};" ::"l"(address), "l"(value.low), \
                   "l"(value.high)                                                            \
                   : "memory");                                                               \
    } else if constexpr (std::is_same_v<T, float>) {                                          \
      asm volatile("st.global" text ".f32 [%0], %1;" ::"l"(address), "f"(value) : "memory");  \
    } else if constexpr (sizeof(T) == 8) {                                                    \
      asm volatile("st.global" text ".b64 [%0], %1;" ::"l"(address), "l"(value) : "memory");  \
    } else {                                                                                  \
      asm volatile("st.global" text ".b32 [%0], %1;" ::"l"(address), "r"(value) : "memory");  \
    }                                                                                         \
  }
#else
#define RUNGS_CACHED_LOAD(name, text)                                           \
  template <class T>                                                            \
  RUNGS_DEVICE T name(const T* address RUNGS_AND_WHERE) {                       \
    static_assert(detail::kCached<T>);                                          \
    emulator::model::check_global(address, sizeof(T), "ld.global" text, where); \
    return *address;                                                            \
  }
#define RUNGS_CACHED_STORE(name, text)                                                \
  template <class T>                                                                  \
  RUNGS_DEVICE void name(T* address, std::type_identity_t<T> value RUNGS_AND_WHERE) { \
    static_assert(detail::kCached<T>);                                                \
    emulator::model::check_global(address, sizeof(T), "st.global" text, where);       \
    *address = value;                                                                 \
  }
#endif
/// Through the read-only path. PTX: ld.global.nc.
RUNGS_CACHED_LOAD(ld_nc, ".nc")
/// Read once: takes no place in the first level. PTX: ld.global.nc.L1::no_allocate.
RUNGS_CACHED_LOAD(ld_nc_no_allocate, ".nc.L1::no_allocate")
/// The same, and the second level fetches the 128 or 256 bytes around it. PTX:
/// ld.global.nc.L1::no_allocate.L2::128B / .L2::256B.
RUNGS_CACHED_LOAD(ld_nc_no_allocate_l2_128, ".nc.L1::no_allocate.L2::128B")
RUNGS_CACHED_LOAD(ld_nc_no_allocate_l2_256, ".nc.L1::no_allocate.L2::256B")
/// Memory that others may have written before. PTX: ld.global.L1::no_allocate.
RUNGS_CACHED_LOAD(ld_no_allocate, ".L1::no_allocate")
/// First, or last, to leave the first level. PTX: ld.global.L1::evict_first / evict_last.
RUNGS_CACHED_LOAD(ld_evict_first, ".L1::evict_first")
RUNGS_CACHED_LOAD(ld_evict_last, ".L1::evict_last")
/// The second level fetches the 64, 128 or 256 bytes around it. PTX: ld.global.L2::64B and so on.
RUNGS_CACHED_LOAD(ld_l2_64, ".L2::64B")
RUNGS_CACHED_LOAD(ld_l2_128, ".L2::128B")
RUNGS_CACHED_LOAD(ld_l2_256, ".L2::256B")
/// Stores: no place in the first level; first, or last, to leave it. PTX: st.global.L1::...
RUNGS_CACHED_STORE(st_no_allocate, ".L1::no_allocate")
RUNGS_CACHED_STORE(st_evict_first, ".L1::evict_first")
RUNGS_CACHED_STORE(st_evict_last, ".L1::evict_last")
#undef RUNGS_CACHED_LOAD
#undef RUNGS_CACHED_STORE

/// Brings the line at `address` (global memory) into the first or the second level. PTX:
/// prefetch.global.L1, prefetch.global.L2.
RUNGS_DEVICE void prefetch_l1(const void* address RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  asm volatile("prefetch.global.L1 [%0];" ::"l"(address) : "memory");
#else
  emulator::model::check_global(address, 1, "prefetch.global.L1", where);
#endif
}
RUNGS_DEVICE void prefetch_l2(const void* address RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address) : "memory");
#else
  emulator::model::check_global(address, 1, "prefetch.global.L2", where);
#endif
}

}  // namespace rungs::ptx
