// Kernels of the conformance suite: barriers, warp collectives, mbarrier phases, clusters, time.

#include "conformance.hpp"

#include <rungs/gpu/kernel.hpp>
#include <rungs/ptx/mbarrier.hpp>
#include <rungs/ptx/memory.hpp>
#include <rungs/ptx/sync.hpp>

namespace rungs::ptx::test {
namespace {

constexpr std::uint32_t kAll = ~0u;

RUNGS_KERNEL(128) collectives_kernel(std::uint32_t* out) {
  const unsigned t = threadIdx.x;
  const int lane = static_cast<int>(t % 32);
  const std::uint32_t value = t * 3;
  out[t] = shfl_idx(kAll, value, (lane + 5) % 32);
  out[128 + t] = shfl_xor(kAll, value, 9);
  out[256 + t] = shfl_down(kAll, value, 4);
  out[384 + t] = shfl_up(kAll, value, 4);
  out[512 + t] = ballot(kAll, lane % 3 == 0);
  out[640 + t] = (any(kAll, lane == 31) ? 1u : 0u) | (any(kAll, false) ? 2u : 0u);
  out[768 + t] = (all(kAll, true) ? 1u : 0u) | (all(kAll, lane != 7) ? 2u : 0u);
  out[896 + t] = elect_one() ? 1 : 0;
  syncwarp();
  // The two halves of each warp go different ways.
  std::uint32_t mine = t;
  if (lane < 16) {
    mine = shfl_idx(0xffffu, mine, 3);
  } else {
    mine += shfl_down(0xffff0000u, mine, 1);
  }
  syncwarp();
  out[1024 + t] = mine;
}

RUNGS_KERNEL(64) wide_shuffle_kernel(std::uint64_t* wide, float* sums) {
  const unsigned t = threadIdx.x;
  wide[t] = shfl_xor(kAll, std::uint64_t{t} << 40, 1);
  float sum = static_cast<float>(t);
  for (int step = 16; step > 0; step /= 2) sum += shfl_xor(kAll, sum, step);
  sums[t] = sum;
}

RUNGS_KERNEL(1024) neighbours_kernel(std::uint32_t* out, int rounds) {
  RUNGS_SHARED_ARRAY(std::uint32_t, values, 1024);
  const unsigned t = threadIdx.x, n = blockDim.x;
  values[t] = t;
  syncthreads();
  for (int i = 0; i < rounds; i++) {
    const std::uint32_t next = values[(t + 1) % n];
    syncthreads();
    values[t] = next;
    syncthreads();
  }
  out[blockIdx.x * n + t] = values[t];
}

// Warps 0 and 1 fill the buffer, warps 2 and 3 read it; barrier 3 says full, barrier 4 empty.
RUNGS_KERNEL(128) named_barriers_kernel(std::uint32_t* out) {
  RUNGS_SHARED_ARRAY(std::uint32_t, buffer, 64);
  for (std::uint32_t round = 0; round < 4; round++) {
    if (threadIdx.x < 64) {
      buffer[threadIdx.x] = threadIdx.x * 10 + round;
      bar_arrive(3, 128);
      bar_sync(4, 128);
    } else {
      bar_sync(3, 128);
      out[round * 64 + threadIdx.x - 64] = buffer[127 - threadIdx.x];
      bar_sync(4, 128);  // bar_arrive() would release the writes before it, not the reads
    }
  }
}

RUNGS_KERNEL(64) phases_kernel(std::uint32_t* out) {
  RUNGS_SHARED(std::uint64_t, full);
  RUNGS_SHARED(std::uint64_t, empty);
  RUNGS_SHARED(std::uint32_t, slot);
  if (threadIdx.x == 0) {
    mbarrier_init(&full, 1);
    mbarrier_init(&empty, 32);
    fence_mbarrier_init();
  }
  syncthreads();
  for (std::uint32_t i = 0; i < 6; i++) {
    if (threadIdx.x == 0) {
      mbarrier_wait(&empty, (i & 1) ^ 1);  // a fresh barrier passes parity 1
      slot = i * i + 7;
      mbarrier_arrive(&full);
    } else if (threadIdx.x >= 32) {
      while (!mbarrier_try_wait(&full, i & 1)) {
      }
      out[i * 32 + threadIdx.x - 32] = slot;
      mbarrier_arrive(&empty);
    }
  }
}

// Every thread of a block arrives at a barrier in its right neighbour's shared memory.
RUNGS_KERNEL(64) cluster_ring_kernel(std::uint32_t* out) {
  RUNGS_SHARED(std::uint64_t, arrived);
  if (threadIdx.x == 0) {
    mbarrier_init(&arrived, 64);
    fence_mbarrier_init();
  }
  cluster_arrive();
  cluster_wait();
  const std::uint32_t rank = cluster_rank();
  mbarrier_arrive_cluster(map_shared(shared_u32(&arrived), (rank + 1) % 4));
  mbarrier_wait(&arrived, 0);
  if (threadIdx.x == 0) out[blockIdx.x] = rank + 1;
  cluster_arrive();
  cluster_wait();
}

RUNGS_KERNEL(32) clock_kernel(std::uint64_t* out) {
  const std::uint64_t start = globaltimer_ns();
  std::uint64_t now = start;
  while (now < start + 20000) {
    nanosleep(100);
    now = globaltimer_ns();
  }
  if (threadIdx.x == 0) {
    out[0] = start;
    out[1] = now;
  }
}

// One warpgroup gives registers to two others (168 a thread at the start: 65536 / 384): what counts
// is that it returns.
RUNGS_KERNEL(384, 1) register_exchange_kernel(std::uint32_t* out) {
  if (threadIdx.x < 128) {
    setmaxnreg_dec<40>();
  } else {
    setmaxnreg_inc<232>();
  }
  out[threadIdx.x] = threadIdx.x + 1;
}

}  // namespace

void launch_collectives(StreamHandle stream, std::uint32_t* out) {
  gpu::launch("collectives", {.grid = {1}, .block = {128}}, stream, collectives_kernel, out);
}
void launch_wide_shuffle(StreamHandle stream, std::uint64_t* wide, float* sums) {
  gpu::launch("wide_shuffle", {.grid = {1}, .block = {64}}, stream, wide_shuffle_kernel, wide,
              sums);
}
void launch_neighbours(StreamHandle stream, std::uint32_t* out, unsigned threads, int rounds) {
  gpu::launch("neighbours", {.grid = {3}, .block = {threads}}, stream, neighbours_kernel, out,
              rounds);
}
void launch_named_barriers(StreamHandle stream, std::uint32_t* out) {
  gpu::launch("named_barriers", {.grid = {1}, .block = {128}}, stream, named_barriers_kernel, out);
}
void launch_phases(StreamHandle stream, std::uint32_t* out) {
  gpu::launch("phases", {.grid = {1}, .block = {64}}, stream, phases_kernel, out);
}
void launch_cluster_ring(StreamHandle stream, std::uint32_t* out, unsigned blocks) {
  gpu::launch("cluster_ring", {.grid = {blocks}, .block = {64}, .shared_bytes = 0, .cluster = {4}},
              stream, cluster_ring_kernel, out);
}
void launch_clock(StreamHandle stream, std::uint64_t* out) {
  gpu::launch("clock", {.grid = {1}, .block = {32}}, stream, clock_kernel, out);
}
void launch_register_exchange(StreamHandle stream, std::uint32_t* out) {
  gpu::launch("register_exchange", {.grid = {1}, .block = {384}}, stream, register_exchange_kernel,
              out);
}

}  // namespace rungs::ptx::test
