#pragma once
/// @file model.hpp
/// The emulator's models of instructions: what the wrappers of rungs/ptx call in an emulated build.
/// PTX section, callers and memory order stand at the wrappers; here stands what the model does
/// beyond the instruction. Every function is called from inside a kernel. A misuse ends the launch
/// with a report (see executor.hpp).

#include <rungs/config.hpp>
#include <rungs/gpu/tensor_map.hpp>

#include <cstdint>
#include <cstring>

namespace rungs::emulator {

/// Where in the kernel source an instruction stands; for reports.
struct Location {
  const char* file = "";
  int line = 0;
};

}  // namespace rungs::emulator

namespace rungs::emulator::model {

/// bar.sync (`wait`) and bar.arrive on one of the block's 16 barriers. `threads` < 0: the whole
/// block.
void block_barrier(int id, int threads, bool wait, Location where);

/// Instructions in which the lanes of `mask` meet.
enum class Collective : std::uint8_t {
  kShuffleIndex,
  kShuffleXor,
  kShuffleDown,
  kShuffleUp,
  kBallot,
  kAny,
  kAll,
  kSyncWarp,
  kElect,
};
/// Blocks until every lane of `mask` has called with the same mask and kind; returns the lane's
/// result.
std::uint64_t warp_collective(Collective kind, std::uint32_t mask, std::uint64_t value,
                              std::uint32_t argument, Location where);

/// The 32-bit shared-space address of a pointer into the calling block's shared memory; block rank
/// in the cluster in bits 24 and up, so that it is a valid shared::cluster address too.
std::uint32_t shared_address(const void* pointer, Location where);

void mbarrier_init(std::uint32_t address, std::uint32_t count, Location where);
/// `arrivals` may be 0 (expect_tx alone). The address may be another block's of the cluster.
void mbarrier_arrive(std::uint32_t address, std::uint32_t arrivals, std::uint32_t expect_bytes,
                     Location where);
/// Whether the phase of that parity is over; `block`: waits until it is. A failed test is a spin.
bool mbarrier_test(std::uint32_t address, std::uint32_t parity, bool block, Location where);

/// Starts a tile copy. Its destination is poisoned until it lands, as late as RUNGS_EMULATOR_ASYNC
/// says.
/// @param cluster_mask blocks of the cluster that receive it; 0: the calling block
void tma_load_2d(std::uint32_t destination, const gpu::TensorMap* map, std::uint32_t barrier, int x,
                 int y, std::uint16_t cluster_mask, Location where);

void wgmma_fence(Location where);
/// One m64nNk16 multiplication of the calling warpgroup; `d`, this thread's N/2 accumulators, is
/// poisoned until the wait that covers it.
void wgmma_bf16(float* d, int n, bool transpose_a, bool transpose_b, std::uint64_t descriptor_a,
                std::uint64_t descriptor_b, bool accumulate, Location where);
void wgmma_commit(Location where);
void wgmma_wait(int pending, Location where);

/// fence.proxy.async: generic writes to shared memory before it become visible to TMA and wgmma.
void fence_proxy_async();
/// fence.acq_rel: a full fence of the host.
void fence_memory();

std::uint32_t cluster_rank();
std::uint32_t map_shared(std::uint32_t address, std::uint32_t rank, Location where);
void cluster_barrier(bool arrive, bool wait, Location where);

/// Called with what a load of synchronisation state returned. True if the calling thread keeps
/// seeing the same value there, that is: polls; then other threads have run meanwhile and the
/// caller must load again.
bool polled(const void* address, std::uint64_t value, Location where);
/// Lets every other runnable thread go first (nanosleep).
void yield(Location where);
/// Nanoseconds of a monotonic clock.
std::uint64_t clock_ns();

}  // namespace rungs::emulator::model
