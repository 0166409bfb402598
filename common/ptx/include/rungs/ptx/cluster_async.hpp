#pragma once
/// @file cluster_async.hpp
/// Stores and reductions into the shared memory of another block that run asynchronously and report
/// to an mbarrier there (PTX ISA, "st.async", "red.async").
///
/// Any one thread. `address` and `barrier` are shared::cluster addresses (map_shared()) in the same
/// block, another than the executing one; `address` is aligned to the whole access. The barrier's
/// phase must expect the bytes (mbarrier_arrive_expect_tx()); a wait for it with cluster scope
/// (mbarrier_wait_cluster()) makes what was written visible. Nothing else orders these accesses,
/// and the block may not end before they have landed.

#include <rungs/ptx/cluster.hpp>

namespace rungs::ptx {

/// Stores 4 or 8 bytes and completes as many. T: std::uint32_t, std::int32_t, float,
/// std::uint64_t, double. PTX: st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 /
/// .b64.
template <class T>
RUNGS_DEVICE void st_async(std::uint32_t address, T value, std::uint32_t barrier RUNGS_AND_WHERE) {
  static_assert(detail::kClusterWord<T>);
#if RUNGS_GPU_CUDA
  if constexpr (sizeof(T) == 8) {
    std::uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    asm volatile(
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b64 [%0], %1, [%2];" ::"r"(
            address),
        "l"(bits), "r"(barrier)
        : "memory");
  } else {
    std::uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    asm volatile(
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(
            address),
        "r"(bits), "r"(barrier)
        : "memory");
  }
#else
  emulator::model::store_async(address, &value, sizeof(T), barrier, where);
#endif
}

/// Two words of 4 or 8 bytes. PTX: st.async ....v2.b32 / .v2.b64.
template <class T>
RUNGS_DEVICE void st_async_v2(std::uint32_t address, T first, T second,
                              std::uint32_t barrier RUNGS_AND_WHERE) {
  static_assert(std::is_same_v<T, std::uint32_t> || std::is_same_v<T, std::uint64_t>);
#if RUNGS_GPU_CUDA
  if constexpr (sizeof(T) == 8) {
    asm volatile(
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.b64 [%0], {%1, %2}, "
        "[%3];" ::"r"(address),
        "l"(first), "l"(second), "r"(barrier)
        : "memory");
  } else {
    asm volatile(
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%0], {%1, %2}, "
        "[%3];" ::"r"(address),
        "r"(first), "r"(second), "r"(barrier)
        : "memory");
  }
#else
  const T values[2] = {first, second};
  emulator::model::store_async(address, values, sizeof(values), barrier, where);
#endif
}

/// Four words of 4 bytes. PTX: st.async ....v4.b32.
RUNGS_DEVICE void st_async_v4(std::uint32_t address, U32x4 value,
                              std::uint32_t barrier RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, "
      "[%5];" ::"r"(address),
      "r"(value.x), "r"(value.y), "r"(value.z), "r"(value.w), "r"(barrier)
      : "memory");
#else
  emulator::model::store_async(address, &value, sizeof(value), barrier, where);
#endif
}

#if RUNGS_GPU_CUDA
#define RUNGS_REDUCE_ASYNC(name, T, kind, text, constraint)                                     \
  RUNGS_DEVICE void name(std::uint32_t address, T value, std::uint32_t barrier) {               \
    asm volatile("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes." text \
                 " [%0], %1, [%2];" ::"r"(address),                                             \
                 constraint(value), "r"(barrier)                                                \
                 : "memory");                                                                   \
  }
#else
#define RUNGS_REDUCE_ASYNC(name, T, kind, text, constraint)                                       \
  RUNGS_DEVICE void name(std::uint32_t address, T value, std::uint32_t barrier RUNGS_AND_WHERE) { \
    emulator::model::reduce_async(address, emulator::model::Reduction::kind,                      \
                                  static_cast<std::uint64_t>(value), barrier, where);             \
  }
#endif
/// Adds (modulo 2^32 or 2^64), relaxed at cluster scope. PTX: red.async.relaxed.cluster ....add.
RUNGS_REDUCE_ASYNC(red_async_add, std::uint32_t, kAddU32, "add.u32", "r")
RUNGS_REDUCE_ASYNC(red_async_add, std::int32_t, kAddU32, "add.s32", "r")
RUNGS_REDUCE_ASYNC(red_async_add, std::uint64_t, kAddU64, "add.u64", "l")
/// Takes the smaller, or the larger. PTX: red.async ....min / .max.
RUNGS_REDUCE_ASYNC(red_async_min, std::uint32_t, kMinU32, "min.u32", "r")
RUNGS_REDUCE_ASYNC(red_async_min, std::int32_t, kMinS32, "min.s32", "r")
RUNGS_REDUCE_ASYNC(red_async_max, std::uint32_t, kMaxU32, "max.u32", "r")
RUNGS_REDUCE_ASYNC(red_async_max, std::int32_t, kMaxS32, "max.s32", "r")
/// Counts 0, 1, ... `value` and around, or down. PTX: red.async ....inc / .dec.
RUNGS_REDUCE_ASYNC(red_async_inc, std::uint32_t, kInc, "inc.u32", "r")
RUNGS_REDUCE_ASYNC(red_async_dec, std::uint32_t, kDec, "dec.u32", "r")
/// Bit by bit. PTX: red.async ....and / .or / .xor.
RUNGS_REDUCE_ASYNC(red_async_and, std::uint32_t, kAnd, "and.b32", "r")
RUNGS_REDUCE_ASYNC(red_async_or, std::uint32_t, kOr, "or.b32", "r")
RUNGS_REDUCE_ASYNC(red_async_xor, std::uint32_t, kXor, "xor.b32", "r")
#undef RUNGS_REDUCE_ASYNC

}  // namespace rungs::ptx
