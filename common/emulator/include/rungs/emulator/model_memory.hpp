#pragma once
/// @file model_memory.hpp
/// Models of what moves single words and of what orders them: mbarriers in full, shared memory of
/// the cluster's other blocks, register allocation, dependent launches. See model.hpp.

#include <rungs/emulator/model.hpp>

namespace rungs::emulator::model {

// --- mbarriers

/// What one instruction does to an mbarrier, in this order: bytes, arrivals, end of the phase.
struct MbarrierUpdate {
  std::uint32_t address = 0;  ///< shared::cluster
  std::uint32_t arrivals = 0;
  std::uint32_t expect_bytes = 0;
  std::uint32_t complete_bytes = 0;
  bool drop = false;         ///< the arrivals are missing from the count of later phases
  bool no_complete = false;  ///< a report if it ends the phase
  bool relaxed = false;      ///< releases nothing
};
/// Returns the token of the phase before it. Only tokens of no_complete know a pending count.
std::uint64_t mbarrier_update(const MbarrierUpdate& update, const char* instruction,
                              Location where);
void mbarrier_inval(std::uint32_t address, Location where);
std::uint32_t mbarrier_pending_count(std::uint64_t token, Location where);
/// mbarrier_test() by token: of another barrier, or of a phase before the last one, is a report.
bool mbarrier_test_token(std::uint32_t address, std::uint64_t token, bool block, Location where);

// --- clusters

/// barrier.cluster.arrive. `aligned`: reports lanes of a warp that come from different places.
void cluster_barrier_arrive(bool release, bool aligned, Location where);
/// barrier.cluster.wait.
void cluster_barrier_wait(bool aligned, Location where);
/// Position of the block in its cluster, the cluster's extents, the cluster's position in the grid
/// of clusters, and that grid's extents; `axis` 0 to 2.
enum class ClusterIndex : std::uint8_t { kBlock, kBlocks, kCluster, kClusters };
std::uint32_t cluster_index(ClusterIndex which, int axis);
std::uint32_t cluster_size();
/// The memory behind a shared::cluster address: checks rank, bounds, alignment to `size_bytes`, and
/// that the block has started and not ended.
void* cluster_memory(std::uint32_t address, std::uint32_t size_bytes, const char* instruction,
                     Location where);
/// mapa and getctarank on generic addresses.
void* map_shared_pointer(const void* pointer, std::uint32_t rank, Location where);
std::uint32_t shared_rank(const void* pointer, Location where);
std::uint32_t shared_rank(std::uint32_t address, Location where);

/// st.async of `size_bytes` (4, 8 or 16) to another block. The destination is poisoned until it
/// lands; then complete_tx on `barrier`, in the same block.
void store_async(std::uint32_t address, const void* value, std::uint32_t size_bytes,
                 std::uint32_t barrier, Location where);
enum class Reduction : std::uint8_t {
  kAddU32,
  kAddU64,
  kMinU32,
  kMinS32,
  kMaxU32,
  kMaxS32,
  kInc,
  kDec,
  kAnd,
  kOr,
  kXor,
};
/// red.async: the same with a relaxed read-modify-write at cluster scope.
void reduce_async(std::uint32_t address, Reduction reduction, std::uint64_t value,
                  std::uint32_t barrier, Location where);

// --- registers

/// setmaxnreg: the lanes of the warp meet. A block starts with 65536 / threads registers a thread,
/// rounded down to 8 and at most 256, as a kernel with one block an SM is compiled to; an increase
/// waits until they are free in the block.
void set_registers(unsigned count, bool increase, Location where);

// --- dependent launches

/// griddepcontrol.launch_dependents. The block that makes the dependent launch possible lets it run
/// before it goes on itself (unless RUNGS_EMULATOR_ASYNC=early).
void launch_dependents(Location where);
/// griddepcontrol.wait. Nothing to wait for outside programmatic launches.
void wait_for_prerequisites(Location where);

/// fence_proxy_async() on shared memory of every block of the cluster.
void fence_proxy_async_cluster();

}  // namespace rungs::emulator::model
