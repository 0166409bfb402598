#pragma once
/// @file cluster.hpp
/// Blocks of a cluster and each other's shared memory (PTX ISA, "barrier.cluster", "mapa",
/// "getctarank", state space .shared::cluster). cluster_rank(), map_shared(), cluster_arrive() and
/// cluster_wait() stand in sync.hpp.
///
/// A shared::cluster address comes from map_shared(shared_u32(&object), rank). The other block must
/// have started and may not have ended: a cluster barrier before the first access and one after the
/// last. The emulator reports accesses outside that time, out of bounds or misaligned.

#include <rungs/ptx/descriptor.hpp>
#include <rungs/ptx/sync.hpp>
#include <rungs/ptx/vector.hpp>

namespace rungs::ptx {

/// The number of blocks of the cluster. PTX: %cluster_nctarank.
RUNGS_DEVICE std::uint32_t cluster_size() {
#if RUNGS_GPU_CUDA
  std::uint32_t size;
  asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
  return size;
#else
  return emulator::model::cluster_size();
#endif
}

/// Three numbers, as CUDA's built-in indices.
struct ClusterExtent {
  std::uint32_t x, y, z;
};

#if RUNGS_GPU_CUDA
#define RUNGS_CLUSTER_REGISTER(name, text, which)                                                  \
  RUNGS_DEVICE ClusterExtent name() {                                                              \
    ClusterExtent v;                                                                               \
    asm volatile("mov.u32 %0, %%" text ".x;\nmov.u32 %1, %%" text ".y;\nmov.u32 %2, %%" text ".z;" \
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z));                                               \
    return v;                                                                                      \
  }
#else
#define RUNGS_CLUSTER_REGISTER(name, text, which)                                                 \
  RUNGS_DEVICE ClusterExtent name() {                                                             \
    constexpr auto kWhich = emulator::model::ClusterIndex::which;                                 \
    return {emulator::model::cluster_index(kWhich, 0), emulator::model::cluster_index(kWhich, 1), \
            emulator::model::cluster_index(kWhich, 2)};                                           \
  }
#endif
/// The block's position in its cluster. PTX: %cluster_ctaid.
RUNGS_CLUSTER_REGISTER(cluster_block_index, "cluster_ctaid", kBlock)
/// The cluster's extents in blocks. PTX: %cluster_nctaid.
RUNGS_CLUSTER_REGISTER(cluster_extent, "cluster_nctaid", kBlocks)
/// The cluster's position in the grid of clusters. PTX: %clusterid.
RUNGS_CLUSTER_REGISTER(cluster_index, "clusterid", kCluster)
/// The extents of the grid in clusters. PTX: %nclusterid.
RUNGS_CLUSTER_REGISTER(cluster_grid, "nclusterid", kClusters)
#undef RUNGS_CLUSTER_REGISTER

/// The object at `pointer` (in the block's shared memory) in block `rank` of the cluster, as a
/// generic pointer for ordinary accesses. PTX: mapa.u64.
template <class T>
RUNGS_DEVICE T* map_shared_pointer(T* pointer, std::uint32_t rank RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  T* mapped;
  asm volatile("mapa.u64 %0, %1, %2;" : "=l"(mapped) : "l"(pointer), "r"(rank));
  return mapped;
#else
  return static_cast<T*>(emulator::model::map_shared_pointer(pointer, rank, where));
#endif
}

/// The rank of the block in whose shared memory the address lies. PTX:
/// getctarank.shared::cluster.u32.
RUNGS_DEVICE std::uint32_t shared_rank(std::uint32_t cluster_address RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  std::uint32_t rank;
  asm volatile("getctarank.shared::cluster.u32 %0, %1;" : "=r"(rank) : "r"(cluster_address));
  return rank;
#else
  return emulator::model::shared_rank(cluster_address, where);
#endif
}
/// The same for a generic pointer. PTX: getctarank.u64.
RUNGS_DEVICE std::uint32_t shared_rank(const void* pointer RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  std::uint32_t rank;
  asm volatile("getctarank.u64 %0, %1;" : "=r"(rank) : "l"(pointer));
  return rank;
#else
  return emulator::model::shared_rank(pointer, where);
#endif
}

/// cluster_arrive() that releases nothing: where only the others' progress is waited for. All
/// threads of the cluster, aligned. PTX: barrier.cluster.arrive.relaxed.aligned.
RUNGS_DEVICE void cluster_arrive_relaxed(RUNGS_WHERE) {
#if RUNGS_GPU_CUDA
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#else
  emulator::model::cluster_barrier_arrive(false, true, where);
#endif
}
/// cluster_arrive() for lanes of a warp that come from different paths. All threads of the cluster.
/// PTX: barrier.cluster.arrive.release.
RUNGS_DEVICE void cluster_arrive_unaligned(RUNGS_WHERE) {
#if RUNGS_GPU_CUDA
  asm volatile("barrier.cluster.arrive.release;" ::: "memory");
#else
  emulator::model::cluster_barrier_arrive(true, false, where);
#endif
}
/// cluster_arrive_relaxed() for such lanes. PTX: barrier.cluster.arrive.relaxed.
RUNGS_DEVICE void cluster_arrive_relaxed_unaligned(RUNGS_WHERE) {
#if RUNGS_GPU_CUDA
  asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
#else
  emulator::model::cluster_barrier_arrive(false, false, where);
#endif
}
/// cluster_wait() for such lanes. PTX: barrier.cluster.wait.acquire.
RUNGS_DEVICE void cluster_wait_unaligned(RUNGS_WHERE) {
#if RUNGS_GPU_CUDA
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
#else
  emulator::model::cluster_barrier_wait(false, where);
#endif
}

namespace detail {
template <class T>
inline constexpr bool kClusterWord =
    std::is_same_v<T, std::uint32_t> || std::is_same_v<T, std::int32_t> ||
    std::is_same_v<T, std::uint64_t> || std::is_same_v<T, float> || std::is_same_v<T, double>;

#if RUNGS_GPU_CUDA
// One load or store with the qualifiers `text`, in the register class of T.
#define RUNGS_CLUSTER_LOAD(text)                            \
  T value;                                                  \
  if constexpr (std::is_same_v<T, float>) {                 \
    asm volatile("ld" text ".shared::cluster.f32 %0, [%1];" \
                 : "=f"(value)                              \
                 : "r"(address)                             \
                 : "memory");                               \
  } else if constexpr (std::is_same_v<T, double>) {         \
    asm volatile("ld" text ".shared::cluster.f64 %0, [%1];" \
                 : "=d"(value)                              \
                 : "r"(address)                             \
                 : "memory");                               \
  } else if constexpr (sizeof(T) == 8) {                    \
    asm volatile("ld" text ".shared::cluster.b64 %0, [%1];" \
                 : "=l"(value)                              \
                 : "r"(address)                             \
                 : "memory");                               \
  } else {                                                  \
    asm volatile("ld" text ".shared::cluster.b32 %0, [%1];" \
                 : "=r"(value)                              \
                 : "r"(address)                             \
                 : "memory");                               \
  }                                                         \
  return value
#define RUNGS_CLUSTER_STORE(text)                                                      \
  if constexpr (std::is_same_v<T, float>) {                                            \
    asm volatile("st" text ".shared::cluster.f32 [%0], %1;" ::"r"(address), "f"(value) \
                 : "memory");                                                          \
  } else if constexpr (std::is_same_v<T, double>) {                                    \
    asm volatile("st" text ".shared::cluster.f64 [%0], %1;" ::"r"(address), "d"(value) \
                 : "memory");                                                          \
  } else if constexpr (sizeof(T) == 8) {                                               \
    asm volatile("st" text ".shared::cluster.b64 [%0], %1;" ::"r"(address), "l"(value) \
                 : "memory");                                                          \
  } else {                                                                             \
    asm volatile("st" text ".shared::cluster.b32 [%0], %1;" ::"r"(address), "r"(value) \
                 : "memory");                                                          \
  }
#else
template <class T>
T* cluster_word(std::uint32_t address, const char* instruction, emulator::Location where) {
  return static_cast<T*>(emulator::model::cluster_memory(address, sizeof(T), instruction, where));
}
template <int Order, class T>
T cluster_load(std::uint32_t address, emulator::Location where) {
  T* word = cluster_word<T>(address, "ld.shared::cluster", where);
  T value;
  __atomic_load(word, &value, Order);
  std::uint64_t bits = 0;
  memcpy(&bits, &value, sizeof(value));
  if (emulator::model::polled(word, bits, where)) __atomic_load(word, &value, Order);
  return value;
}
#endif
}  // namespace detail

/// An ordinary load from shared memory of any block of the cluster, the executing one's included.
/// T: std::uint32_t, std::int32_t, std::uint64_t, float, double. Any thread; orders nothing. PTX:
/// ld.shared::cluster.
template <class T>
RUNGS_DEVICE T ld_shared_cluster(std::uint32_t address RUNGS_AND_WHERE) {
  static_assert(detail::kClusterWord<T>);
#if RUNGS_GPU_CUDA
  RUNGS_CLUSTER_LOAD("");
#else
  return *detail::cluster_word<T>(address, "ld.shared::cluster", where);
#endif
}
/// 16 bytes, 16-byte aligned. PTX: ld.shared::cluster.v4.u32.
RUNGS_DEVICE U32x4 ld_shared_cluster_v4(std::uint32_t address RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  U32x4 value;
  asm volatile("ld.shared::cluster.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "r"(address)
               : "memory");
  return value;
#else
  return *detail::cluster_word<U32x4>(address, "ld.shared::cluster.v4", where);
#endif
}
/// An ordinary store. T as ld_shared_cluster(). PTX: st.shared::cluster.
template <class T>
RUNGS_DEVICE void st_shared_cluster(std::uint32_t address, T value RUNGS_AND_WHERE) {
  static_assert(detail::kClusterWord<T>);
#if RUNGS_GPU_CUDA
  RUNGS_CLUSTER_STORE("")
#else
  *detail::cluster_word<T>(address, "st.shared::cluster", where) = value;
#endif
}
/// 16 bytes, 16-byte aligned. PTX: st.shared::cluster.v4.u32.
RUNGS_DEVICE void st_shared_cluster_v4(std::uint32_t address, U32x4 value RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  asm volatile("st.shared::cluster.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(value.x),
               "r"(value.y), "r"(value.z), "r"(value.w)
               : "memory");
#else
  *detail::cluster_word<U32x4>(address, "st.shared::cluster.v4", where) = value;
#endif
}

/// Load at cluster scope; orders nothing. Any thread; a poll. T as ld_shared_cluster(). PTX:
/// ld.relaxed.cluster.shared::cluster.
template <class T>
RUNGS_DEVICE T ld_relaxed_shared_cluster(std::uint32_t address RUNGS_AND_WHERE) {
  static_assert(detail::kClusterWord<T>);
#if RUNGS_GPU_CUDA
  RUNGS_CLUSTER_LOAD(".relaxed.cluster");
#else
  return detail::cluster_load<__ATOMIC_RELAXED, T>(address, where);
#endif
}
/// Load at cluster scope; acquires. Any thread; a poll. T as ld_shared_cluster(). PTX:
/// ld.acquire.cluster.shared::cluster.
template <class T>
RUNGS_DEVICE T ld_acquire_shared_cluster(std::uint32_t address RUNGS_AND_WHERE) {
  static_assert(detail::kClusterWord<T>);
#if RUNGS_GPU_CUDA
  RUNGS_CLUSTER_LOAD(".acquire.cluster");
#else
  return detail::cluster_load<__ATOMIC_ACQUIRE, T>(address, where);
#endif
}
/// Store at cluster scope; orders nothing. Any thread. PTX: st.relaxed.cluster.shared::cluster.
template <class T>
RUNGS_DEVICE void st_relaxed_shared_cluster(std::uint32_t address, T value RUNGS_AND_WHERE) {
  static_assert(detail::kClusterWord<T>);
#if RUNGS_GPU_CUDA
  RUNGS_CLUSTER_STORE(".relaxed.cluster")
#else
  __atomic_store(detail::cluster_word<T>(address, "st.shared::cluster", where), &value,
                 __ATOMIC_RELAXED);
#endif
}
/// Store at cluster scope; releases the thread's earlier writes. Any thread. PTX:
/// st.release.cluster.shared::cluster.
template <class T>
RUNGS_DEVICE void st_release_shared_cluster(std::uint32_t address, T value RUNGS_AND_WHERE) {
  static_assert(detail::kClusterWord<T>);
#if RUNGS_GPU_CUDA
  RUNGS_CLUSTER_STORE(".release.cluster")
#else
  __atomic_store(detail::cluster_word<T>(address, "st.shared::cluster", where), &value,
                 __ATOMIC_RELEASE);
#endif
}
#if RUNGS_GPU_CUDA
#undef RUNGS_CLUSTER_LOAD
#undef RUNGS_CLUSTER_STORE
#endif

}  // namespace rungs::ptx
