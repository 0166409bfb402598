// Kernels of the conformance suite: atomics on the cluster's shared memory, wider proxy fences.

#include "memory_conformance.hpp"

#include <rungs/gpu/kernel.hpp>
#include <rungs/ptx/cluster_atomic.hpp>
#include <rungs/ptx/fence.hpp>
#include <rungs/ptx/wgmma.hpp>

namespace rungs::ptx::test {
namespace {

struct Cells {
  std::uint64_t u64[8];
  std::uint32_t u32[8];
  std::int32_t i32[4];
  float f32[4];
};

RUNGS_DEVICE void start(Cells& cells) {
  for (int i = 0; i < 8; i++) {
    cells.u64[i] = std::uint64_t{0x0f0f0f0f} << 20;
    cells.u32[i] = 0x0f0f0f0fu;
  }
  for (int i = 0; i < 4; i++) {
    cells.i32[i] = 3;
    cells.f32[i] = 0.5f;
  }
}

RUNGS_DEVICE void write(const Cells& cells, std::uint64_t* row) {
  for (int i = 0; i < 5; i++) row[i] = cells.u64[i];
  for (int i = 0; i < 7; i++) row[5 + i] = cells.u32[i];
  for (int i = 0; i < 3; i++) row[12 + i] = static_cast<std::uint64_t>(std::int64_t{cells.i32[i]});
  row[15] = static_cast<std::uint64_t>(cells.f32[0] * 2);
}

RUNGS_KERNEL(32) cluster_atomics_kernel(std::uint64_t* out) {
  RUNGS_SHARED(Cells, near);
  RUNGS_SHARED(Cells, far);
  RUNGS_SHARED(std::uint32_t, tickets);
  const std::uint32_t rank = cluster_rank(), id = rank * 32 + threadIdx.x;
  const auto signed_id = static_cast<std::int32_t>(id);
  if (rank == 0 && threadIdx.x == 0) {
    start(near);
    start(far);
    tickets = 0;
  }
  cluster_arrive();
  cluster_wait();
  const auto at = [](const void* object) { return map_shared(shared_u32(object), 0); };
  atom_add_shared_cluster(at(&near.u64[0]), std::uint64_t{id} << 33);
  atom_max_shared_cluster<Order::kAcquire>(at(&near.u64[1]), std::uint64_t{id} << 40);
  atom_min_shared_cluster<Order::kRelease>(at(&near.u64[2]), std::uint64_t{id} + 5);
  atom_exch_shared_cluster<Order::kAcqRel>(at(&near.u64[3]), std::uint64_t{77} << 32);
  atom_cas_shared_cluster(at(&near.u64[4]), std::uint64_t{0x0f0f0f0f} << 20, 99);
  atom_add_shared_cluster(at(&near.u32[0]), id);
  atom_and_shared_cluster(at(&near.u32[1]), ~(1u << id % 16));
  atom_or_shared_cluster(at(&near.u32[2]), 1u << id % 32);
  atom_xor_shared_cluster<Order::kAcqRel>(at(&near.u32[3]), id * 9);
  atom_exch_shared_cluster(at(&near.u32[4]), 78u);
  atom_cas_shared_cluster<Order::kRelease>(at(&near.u32[5]), 0x0f0f0f0fu, 98u);
  atom_max_shared_cluster(at(&near.u32[6]), 0x0f0f0f00u + id);
  atom_add_shared_cluster(at(&near.i32[0]), -signed_id);
  atom_min_shared_cluster(at(&near.i32[1]), 20 - signed_id);
  atom_max_shared_cluster(at(&near.i32[2]), signed_id - 20);
  atom_add_shared_cluster(at(&near.f32[0]), static_cast<float>(id));

  Cells& there = *map_shared_pointer(&far, 0);
  constexpr Scope kScope = Scope::kCluster;
  atom_add<kScope>(&there.u64[0], std::uint64_t{id} << 33);
  red_max<kScope>(&there.u64[1], std::uint64_t{id} << 40);
  atom_min<kScope, Order::kRelease>(&there.u64[2], std::uint64_t{id} + 5);
  atom_exch<kScope, Order::kAcqRel>(&there.u64[3], std::uint64_t{77} << 32);
  atom_cas<kScope>(&there.u64[4], std::uint64_t{0x0f0f0f0f} << 20, 99);
  red_add<kScope>(&there.u32[0], id);
  red_and<kScope>(&there.u32[1], ~(1u << id % 16));
  red_or<kScope, Order::kRelease>(&there.u32[2], 1u << id % 32);
  red_xor<kScope>(&there.u32[3], id * 9);
  atom_exch<kScope>(&there.u32[4], 78u);
  atom_cas<kScope>(&there.u32[5], 0x0f0f0f0fu, 98u);
  atom_max<kScope>(&there.u32[6], 0x0f0f0f00u + id);
  red_add<kScope>(&there.i32[0], -signed_id);
  red_min<kScope>(&there.i32[1], 20 - signed_id);
  red_max<kScope>(&there.i32[2], signed_id - 20);
  atom_add<kScope>(&there.f32[0], static_cast<float>(id));

  const std::uint32_t ticket = atom_add_shared_cluster(at(&tickets), 1u);
  out[2 * kClusterCells + ticket] = ticket + 1;
  cluster_arrive();
  cluster_wait();
  if (rank == 0 && threadIdx.x == 0) {
    write(near, out);
    write(far, out + kClusterCells);
  }
}

struct alignas(1024) Ones {
  bf16 values[64 * 64];
};

RUNGS_KERNEL(128) proxy_fences_kernel(float* out) {
  RUNGS_DYNAMIC_SHARED(Ones, s);
  for (unsigned round = 0; round < 2; round++) {
    for (unsigned i = threadIdx.x; i < 64 * 64; i += 128)
      s.values[i] = to_bf16(round == 0 ? 1.0f : 2.0f);
    if (round == 0) fence_proxy_async_cluster();
    if (round == 1) fence_proxy_async_all();
    syncthreads();
    float d[32];
    for (float& value : d) value = 0;
    const std::uint64_t operand =
        wgmma_descriptor(shared_u32(s.values), 16, 1024, gpu::Swizzle::k128B);
    wgmma_fence();
    wgmma_bf16<64>(d, operand, operand, false);
    wgmma_commit();
    wgmma_wait<0>(d);
    float sum = 0;
    for (const float value : d) sum += value;
    out[round * 128 + threadIdx.x] = sum;
    syncthreads();
  }
}

}  // namespace

void launch_cluster_atomics(StreamHandle stream, std::uint64_t* out) {
  gpu::launch("cluster_atomics", {.grid = {4}, .block = {32}, .shared_bytes = 0, .cluster = {4}},
              stream, cluster_atomics_kernel, out);
}
void launch_proxy_fences(StreamHandle stream, float* out) {
  gpu::launch("proxy_fences", {.grid = {1}, .block = {128}, .shared_bytes = sizeof(Ones)}, stream,
              proxy_fences_kernel, out);
}

}  // namespace rungs::ptx::test
