#pragma once
/// @file tma.hpp
/// The tensor memory accelerator: asynchronous copies of tiles that a tensor map describes (PTX
/// ISA, "Data Movement and Conversion Instructions: cp.async.bulk.tensor,
/// cp.reduce.async.bulk.tensor, cp.async.bulk.prefetch.tensor").
///
/// One thread issues a copy. The map is a kernel parameter declared
/// `RUNGS_GRID_CONSTANT const gpu::TensorMap`; coordinates are in elements, dimension 0 (the
/// contiguous one) first, as many as the map has dimensions:
/// `tma_load(tile, &map, &bar, {x, y, z})`. The tile lies 128-byte aligned in shared memory, its
/// rows of dimension 0 one after the other without gaps. A swizzle follows the bits of the address,
/// so a tile that wgmma reads starts with the pattern (at 256, 512, 1024 bytes for 32B, 64B, 128B);
/// the emulator models swizzled boxes whose rows are as wide as the span.
/// Coordinate 0 times the element size is a multiple of 16 bytes (an H200 ends other copies as an
/// illegal instruction, the emulator with a report).
/// Fences, groups and completion: bulk.hpp.

#include <rungs/ptx/bulk.hpp>

namespace rungs::ptx {

/// Starts copying the map's box at column `x`, row `y` to shared memory. Elements outside the
/// tensor arrive as zeros and count as bytes. One thread; complete_tx(box bytes) on `barrier` says
/// it has landed: the phase must expect them (mbarrier_arrive_expect_tx()). PTX:
/// cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.
/// @param shared_destination 128-byte aligned; for a swizzled box aligned to the pattern (1024
///         bytes for 128B)
/// @param x column in elements, may lie outside; x · element bytes a multiple of 16 (an H200 ends
///         other copies as an illegal instruction, the emulator with a report)
/// @param y row, any
/// @param map a kernel parameter declared `RUNGS_GRID_CONSTANT const gpu::TensorMap`
RUNGS_DEVICE void tma_load_2d(void* shared_destination, const gpu::TensorMap* map,
                              std::uint64_t* barrier, int x, int y RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, "
      "{%2, %3}], [%4];" ::"r"(shared_u32(shared_destination)),
      "l"(map), "r"(x), "r"(y), "r"(shared_u32(barrier))
      : "memory");
#else
  emulator::model::tma_load_2d(shared_u32(shared_destination, where), map,
                               shared_u32(barrier, where), x, y, 0, where);
#endif
}

/// The same into every block of the cluster whose bit is set in `cluster_mask`, at the same
/// offsets; each block's own barrier gets the bytes. PTX: ...complete_tx::bytes.multicast::cluster.
RUNGS_DEVICE void tma_load_2d_multicast(void* shared_destination, const gpu::TensorMap* map,
                                        std::uint64_t* barrier, int x, int y,
                                        std::uint16_t cluster_mask RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::"
      "cluster "
      "[%0], [%1, {%2, %3}], [%4], %5;" ::"r"(shared_u32(shared_destination)),
      "l"(map), "r"(x), "r"(y), "r"(shared_u32(barrier)), "h"(cluster_mask)
      : "memory");
#else
  emulator::model::tma_load_2d(shared_u32(shared_destination, where), map,
                               shared_u32(barrier, where), x, y, cluster_mask, where);
#endif
}

/// Brings the map into the descriptor cache. One thread, a hint. PTX: prefetch.tensormap.
RUNGS_DEVICE void tma_prefetch_descriptor(const gpu::TensorMap* map) {
#if RUNGS_GPU_CUDA
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
#else
  static_cast<void>(map);
#endif
}

#if RUNGS_GPU_CUDA
// EMIT(rank as in the instruction, its coordinates, their operands); operands 0-5 are EMIT's own.
#define RUNGS_TMA_BY_RANK(EMIT)                                                         \
  if constexpr (Rank == 1) {                                                            \
    EMIT("1d", "{%6}", "r"(at[0]));                                                     \
  } else if constexpr (Rank == 2) {                                                     \
    EMIT("2d", "{%6, %7}", "r"(at[0]), "r"(at[1]));                                     \
  } else if constexpr (Rank == 3) {                                                     \
    EMIT("3d", "{%6, %7, %8}", "r"(at[0]), "r"(at[1]), "r"(at[2]));                     \
  } else if constexpr (Rank == 4) {                                                     \
    EMIT("4d", "{%6, %7, %8, %9}", "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]));     \
  } else {                                                                              \
    EMIT("5d", "{%6, %7, %8, %9, %10}", "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), \
         "r"(at[4]));                                                                   \
  }                                                                                     \
  static_assert(Rank >= 1 && Rank <= 5)
// %0 shared memory, %1 map, %2 barrier, %3 mask, %4 policy, %5 operation; not all in all forms.
#define RUNGS_TMA_ASM(TEXT, shared, map, barrier, mask, policy, operation, ...)                    \
  asm volatile(TEXT ::"r"(shared), "l"(map), "r"(barrier), "h"(mask), "l"(policy), "C"(operation), \
               __VA_ARGS__                                                                         \
               : "memory")
namespace detail {
struct NoText {
  static constexpr const char text[] = "";
};
}  // namespace detail
#endif

/// Starts copying the map's box at the coordinates `at` to shared memory. Elements outside the
/// tensor arrive as the map's fill and count as bytes; coordinates may be negative. One thread;
/// complete_tx(box bytes) on `barrier`. With element strides of n the box bytes are those of
/// ceil(box / n) elements.
/// PTX: cp.async.bulk.tensor.{1d ... 5d}.shared::cluster.global.tile.mbarrier::complete_tx::bytes.
template <int Rank>
RUNGS_DEVICE void tma_load(void* shared_destination, const gpu::TensorMap* map,
                           std::uint64_t* barrier, const int (&at)[Rank] RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
#define RUNGS_TMA_EMIT(DIM, AT, ...)                                                        \
  RUNGS_TMA_ASM("cp.async.bulk.tensor." DIM                                                 \
                ".shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, " AT  \
                "], [%2];",                                                                 \
                shared_u32(shared_destination), map, shared_u32(barrier), std::uint16_t{0}, \
                std::uint64_t{0}, detail::NoText::text, __VA_ARGS__)
  RUNGS_TMA_BY_RANK(RUNGS_TMA_EMIT);
#undef RUNGS_TMA_EMIT
#else
  emulator::model::tma_load(shared_u32(shared_destination, where), map, shared_u32(barrier, where),
                            at, Rank, 0, 0, where);
#endif
}

/// tma_load() into the shared memory of any block of the cluster; both addresses are
/// shared::cluster ones (map_shared()), of the same block, which must not end before the copy
/// lands.
template <int Rank>
RUNGS_DEVICE void tma_load_cluster(std::uint32_t cluster_destination, const gpu::TensorMap* map,
                                   std::uint32_t cluster_barrier,
                                   const int (&at)[Rank] RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
#define RUNGS_TMA_EMIT(DIM, AT, ...)                                                           \
  RUNGS_TMA_ASM("cp.async.bulk.tensor." DIM                                                    \
                ".shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, " AT     \
                "], [%2];",                                                                    \
                cluster_destination, map, cluster_barrier, std::uint16_t{0}, std::uint64_t{0}, \
                detail::NoText::text, __VA_ARGS__)
  RUNGS_TMA_BY_RANK(RUNGS_TMA_EMIT);
#undef RUNGS_TMA_EMIT
#else
  emulator::model::tma_load(cluster_destination, map, cluster_barrier, at, Rank, 0, 0, where);
#endif
}

/// tma_load() with an L2 policy from createpolicy_fractional(). PTX: ....L2::cache_hint.
template <int Rank>
RUNGS_DEVICE void tma_load_hint(void* shared_destination, const gpu::TensorMap* map,
                                std::uint64_t* barrier, const int (&at)[Rank],
                                std::uint64_t policy RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
#define RUNGS_TMA_EMIT(DIM, AT, ...)                                                        \
  RUNGS_TMA_ASM("cp.async.bulk.tensor." DIM                                                 \
                ".shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint " \
                "[%0], [%1, " AT "], [%2], %4;",                                            \
                shared_u32(shared_destination), map, shared_u32(barrier), std::uint16_t{0}, \
                policy, detail::NoText::text, __VA_ARGS__)
  RUNGS_TMA_BY_RANK(RUNGS_TMA_EMIT);
#undef RUNGS_TMA_EMIT
#else
  emulator::model::tma_load(shared_u32(shared_destination, where), map, shared_u32(barrier, where),
                            at, Rank, 0, policy, where);
#endif
}

/// tma_load() into every block of the cluster whose bit is set in `cluster_mask`, at the same
/// offsets; each block's own barrier gets the bytes. PTX: ....multicast::cluster.
template <int Rank>
RUNGS_DEVICE void tma_load_multicast(void* shared_destination, const gpu::TensorMap* map,
                                     std::uint64_t* barrier, const int (&at)[Rank],
                                     std::uint16_t cluster_mask RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
#define RUNGS_TMA_EMIT(DIM, AT, ...)                                                           \
  RUNGS_TMA_ASM("cp.async.bulk.tensor." DIM                                                    \
                ".shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster" \
                " [%0], [%1, " AT "], [%2], %3;",                                              \
                shared_u32(shared_destination), map, shared_u32(barrier), cluster_mask,        \
                std::uint64_t{0}, detail::NoText::text, __VA_ARGS__)
  RUNGS_TMA_BY_RANK(RUNGS_TMA_EMIT);
#undef RUNGS_TMA_EMIT
#else
  emulator::model::tma_load(shared_u32(shared_destination, where), map, shared_u32(barrier, where),
                            at, Rank, cluster_mask, 0, where);
#endif
}

/// tma_load_multicast() with an L2 policy. PTX: ....multicast::cluster.L2::cache_hint.
template <int Rank>
RUNGS_DEVICE void tma_load_multicast_hint(void* shared_destination, const gpu::TensorMap* map,
                                          std::uint64_t* barrier, const int (&at)[Rank],
                                          std::uint16_t cluster_mask,
                                          std::uint64_t policy RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
#define RUNGS_TMA_EMIT(DIM, AT, ...)                                                            \
  RUNGS_TMA_ASM("cp.async.bulk.tensor." DIM                                                     \
                ".shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"  \
                ".L2::cache_hint [%0], [%1, " AT "], [%2], %3, %4;",                            \
                shared_u32(shared_destination), map, shared_u32(barrier), cluster_mask, policy, \
                detail::NoText::text, __VA_ARGS__)
  RUNGS_TMA_BY_RANK(RUNGS_TMA_EMIT);
#undef RUNGS_TMA_EMIT
#else
  emulator::model::tma_load(shared_u32(shared_destination, where), map, shared_u32(barrier, where),
                            at, Rank, cluster_mask, policy, where);
#endif
}

/// Starts copying a tile of the block's shared memory to the map's box at `at`, in the thread's
/// open bulk group. Elements outside the tensor are not written, but for those in the last 16-byte
/// chunk of a row that is no multiple of it (measured on an H200; the emulator reports such a box).
/// Every thread that wrote the tile executes fence_proxy_async() first, then a barrier; then one
/// thread issues this.
/// PTX: cp.async.bulk.tensor.{1d ... 5d}.global.shared::cta.tile.bulk_group.
/// @note the emulator models boxes that start at 0 or above and maps without element strides
template <int Rank>
RUNGS_DEVICE void tma_store(const gpu::TensorMap* map, const int (&at)[Rank],
                            const void* shared_source RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
#define RUNGS_TMA_EMIT(DIM, AT, ...)                                                       \
  RUNGS_TMA_ASM("cp.async.bulk.tensor." DIM ".global.shared::cta.tile.bulk_group [%1, " AT \
                "], [%0];",                                                                \
                shared_u32(shared_source), map, 0u, std::uint16_t{0}, std::uint64_t{0},    \
                detail::NoText::text, __VA_ARGS__)
  RUNGS_TMA_BY_RANK(RUNGS_TMA_EMIT);
#undef RUNGS_TMA_EMIT
#else
  emulator::model::tma_store(map, at, Rank, shared_u32(shared_source, where), 0, where);
#endif
}

/// tma_store() with an L2 policy. PTX: ....bulk_group.L2::cache_hint.
template <int Rank>
RUNGS_DEVICE void tma_store_hint(const gpu::TensorMap* map, const int (&at)[Rank],
                                 const void* shared_source, std::uint64_t policy RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
#define RUNGS_TMA_EMIT(DIM, AT, ...)                                                          \
  RUNGS_TMA_ASM("cp.async.bulk.tensor." DIM                                                   \
                ".global.shared::cta.tile.bulk_group.L2::cache_hint [%1, " AT "], [%0], %4;", \
                shared_u32(shared_source), map, 0u, std::uint16_t{0}, policy,                 \
                detail::NoText::text, __VA_ARGS__)
  RUNGS_TMA_BY_RANK(RUNGS_TMA_EMIT);
#undef RUNGS_TMA_EMIT
#else
  emulator::model::tma_store(map, at, Rank, shared_u32(shared_source, where), policy, where);
#endif
}

/// Reduces a tile of the block's shared memory into the map's box at `at`: element = element op
/// tile's. The element type is the map's; operations and types as bulk_reduce(), but for
/// the bitwise ones of s64 (an H200 has them for u64 only). Otherwise as tma_store(). PTX:
/// cp.reduce.async.bulk.tensor.{1d ... 5d}.global.shared::cta.{add ... xor}.
template <BulkReduction Reduction, int Rank>
RUNGS_DEVICE void tma_reduce(const gpu::TensorMap* map, const int (&at)[Rank],
                             const void* shared_source RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
#define RUNGS_TMA_EMIT(DIM, AT, ...)                                                    \
  RUNGS_TMA_ASM("cp.reduce.async.bulk.tensor." DIM                                      \
                ".global.shared::cta.%5.tile.bulk_group [%1, " AT "], [%0];",           \
                shared_u32(shared_source), map, 0u, std::uint16_t{0}, std::uint64_t{0}, \
                detail::ReductionText<Reduction>::text, __VA_ARGS__)
  RUNGS_TMA_BY_RANK(RUNGS_TMA_EMIT);
#undef RUNGS_TMA_EMIT
#else
  emulator::model::tma_reduce(map, at, Rank, shared_u32(shared_source, where), Reduction, 0, where);
#endif
}

/// tma_reduce() with an L2 policy. PTX: ....bulk_group.L2::cache_hint.
template <BulkReduction Reduction, int Rank>
RUNGS_DEVICE void tma_reduce_hint(const gpu::TensorMap* map, const int (&at)[Rank],
                                  const void* shared_source, std::uint64_t policy RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
#define RUNGS_TMA_EMIT(DIM, AT, ...)                                                             \
  RUNGS_TMA_ASM("cp.reduce.async.bulk.tensor." DIM                                               \
                ".global.shared::cta.%5.tile.bulk_group.L2::cache_hint [%1, " AT "], [%0], %4;", \
                shared_u32(shared_source), map, 0u, std::uint16_t{0}, policy,                    \
                detail::ReductionText<Reduction>::text, __VA_ARGS__)
  RUNGS_TMA_BY_RANK(RUNGS_TMA_EMIT);
#undef RUNGS_TMA_EMIT
#else
  emulator::model::tma_reduce(map, at, Rank, shared_u32(shared_source, where), Reduction, policy,
                              where);
#endif
}

/// Brings the map's box at `at` into L2. One thread, a hint.
/// PTX: cp.async.bulk.prefetch.tensor.{1d ... 5d}.L2.global.tile.
template <int Rank>
RUNGS_DEVICE void tma_prefetch(const gpu::TensorMap* map, const int (&at)[Rank] RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
#define RUNGS_TMA_EMIT(DIM, AT, ...)                                                               \
  RUNGS_TMA_ASM("cp.async.bulk.prefetch.tensor." DIM ".L2.global.tile [%1, " AT "];", 0u, map, 0u, \
                std::uint16_t{0}, std::uint64_t{0}, detail::NoText::text, __VA_ARGS__)
  RUNGS_TMA_BY_RANK(RUNGS_TMA_EMIT);
#undef RUNGS_TMA_EMIT
#else
  emulator::model::tma_prefetch(map, at, Rank, 0, where);
#endif
}

/// tma_prefetch() with an L2 policy. PTX: ....L2.global.tile.L2::cache_hint.
template <int Rank>
RUNGS_DEVICE void tma_prefetch_hint(const gpu::TensorMap* map, const int (&at)[Rank],
                                    std::uint64_t policy RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
#define RUNGS_TMA_EMIT(DIM, AT, ...)                                                           \
  RUNGS_TMA_ASM("cp.async.bulk.prefetch.tensor." DIM ".L2.global.tile.L2::cache_hint [%1, " AT \
                "], %4;",                                                                      \
                0u, map, 0u, std::uint16_t{0}, policy, detail::NoText::text, __VA_ARGS__)
  RUNGS_TMA_BY_RANK(RUNGS_TMA_EMIT);
#undef RUNGS_TMA_EMIT
#else
  emulator::model::tma_prefetch(map, at, Rank, policy, where);
#endif
}

#if RUNGS_GPU_CUDA
#undef RUNGS_TMA_BY_RANK
#undef RUNGS_TMA_ASM
#endif

}  // namespace rungs::ptx
