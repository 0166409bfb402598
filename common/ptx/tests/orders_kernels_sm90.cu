// Kernels of the conformance suite: loads and stores of every order, scope and hint; fences.

#include "memory_conformance.hpp"

#include <rungs/gpu/kernel.hpp>
#include <rungs/ptx/cache_hints.hpp>
#include <rungs/ptx/cluster.hpp>
#include <rungs/ptx/fence.hpp>
#include <rungs/ptx/memory_orders.hpp>
#include <rungs/ptx/sync.hpp>

namespace rungs::ptx::test {
namespace {

RUNGS_KERNEL(32) orders_kernel(const std::uint64_t* words, std::uint64_t* out) {
  if (threadIdx.x != 0) return;
  out[0] = ld_weak(&words[0]);
  out[1] = ld_volatile(&words[1]);
  out[2] = ld_relaxed_cta(&words[2]);
  out[3] = ld_relaxed_cluster(&words[3]);
  out[4] = ld_relaxed_gpu(&words[4]);
  out[5] = ld_relaxed_sys(&words[5]);
  out[6] = ld_acquire_cta(&words[6]);
  out[7] = ld_acquire_cluster(&words[7]);
  out[8] = ld_acquire_gpu(&words[8]);
  out[9] = ld_acquire_sys(&words[9]);
  out[10] = ld_mmio(&words[10]);
  st_weak(&out[11], words[11]);
  st_volatile(&out[12], words[12]);
  st_relaxed_cta(&out[13], words[13]);
  st_relaxed_cluster(&out[14], words[14]);
  st_release_cta(&out[15], words[15]);
  st_release_cluster(&out[16], words[16]);
  st_mmio(&out[17], words[17]);
  // The lower halves of the rest.
  const auto* low = reinterpret_cast<const std::uint32_t*>(words);
  auto* low_out = reinterpret_cast<std::uint32_t*>(out);
  st_weak(&low_out[36], ld_weak(&low[36]));
  st_volatile(&low_out[38], ld_volatile(&low[38]));
  st_relaxed_cta(&low_out[40], ld_relaxed_cta(&low[40]));
  st_relaxed_cluster(&low_out[42], ld_relaxed_cluster(&low[42]));
  st_release_cta(&low_out[44], ld_acquire_cta(&low[44]));
  st_release_cluster(&low_out[46], ld_acquire_cluster(&low[46]));
  st_mmio(&low_out[48], ld_mmio(&low[48]));
  st_weak(reinterpret_cast<std::int32_t*>(&low_out[50]),
          ld_weak(reinterpret_cast<const std::int32_t*>(&low[50])));
}

RUNGS_KERNEL(32) hints_kernel(const U32x4* from, U32x4* to) {
  if (threadIdx.x != 0) return;
  prefetch_l1(from);
  prefetch_l2(from + 8);
  to[0] = ld_nc(&from[0]);
  to[1] = ld_nc_no_allocate(&from[1]);
  to[2] = ld_nc_no_allocate_l2_128(&from[2]);
  to[3] = ld_nc_no_allocate_l2_256(&from[3]);
  to[4] = ld_no_allocate(&from[4]);
  to[5] = ld_evict_first(&from[5]);
  to[6] = ld_evict_last(&from[6]);
  to[7] = ld_l2_64(&from[7]);
  to[8] = ld_l2_128(&from[8]);
  to[9] = ld_l2_256(&from[9]);
  st_no_allocate(&to[10], from[10]);
  st_evict_first(&to[11], from[11]);
  st_evict_last(reinterpret_cast<U64x2*>(&to[12]),
                ld_nc_no_allocate_l2_128(reinterpret_cast<const U64x2*>(&from[12])));
  st_no_allocate(&to[13].x, ld_nc(&from[13].x));
  st_evict_first(reinterpret_cast<float*>(&to[13].y),
                 ld_evict_first(reinterpret_cast<const float*>(&from[13].y)));
  st_evict_last(reinterpret_cast<std::uint64_t*>(&to[13].z),
                ld_nc_no_allocate(reinterpret_cast<const std::uint64_t*>(&from[13].z)));
}

// flags · written by either side once a round, each its own word · read by the other · one pair a
// round, zero at the start
RUNGS_KERNEL(64)
handshake_kernel(std::uint32_t* flags, std::uint32_t* out, std::uint32_t rounds, int scope) {
  RUNGS_SHARED_ARRAY(std::uint32_t, near, 128);
  const std::uint32_t rank = cluster_rank(), t = threadIdx.x;
  near[t] = near[t + 64] = 0;
  syncthreads();
  cluster_arrive();
  cluster_wait();
  const bool first = rank == 0 && t == 0;
  const bool second = scope == 0 ? rank == 0 && t == 32 : rank == 1 && t == 0;
  if (first || second) {
    const std::uint32_t side = second ? 1 : 0;
    for (std::uint32_t i = 0; i < rounds; i++) {
      std::uint32_t seen = 0;
      const std::uint32_t mine = 2 * i + side, theirs = 2 * i + 1 - side;
      if (scope == 0) {
        st_relaxed_cta(&near[mine], 1u);
        fence_sc_cta();
        seen = ld_relaxed_cta(&near[theirs]);
      } else if (scope == 1) {
        st_relaxed_shared_cluster(map_shared(shared_u32(&near[mine]), 0), 1u);
        fence_sc_cluster();
        seen = ld_relaxed_shared_cluster<std::uint32_t>(map_shared(shared_u32(&near[theirs]), 0));
      } else if (scope == 2) {
        st_relaxed_gpu(&flags[mine], 1u);
        fence_sc_gpu();
        seen = ld_relaxed_gpu(&flags[theirs]);
      } else {
        st_relaxed_sys(&flags[mine], 1u);
        fence_sc_sys();
        seen = ld_relaxed_sys(&flags[theirs]);
      }
      red_add(&out[i], seen);
    }
  }
  cluster_arrive();
  cluster_wait();
}

// flag · written by thread 0 · read by thread 32 · one a round, zero at the start
RUNGS_KERNEL(64) block_message_kernel(std::uint32_t* out, std::uint32_t rounds, int how) {
  RUNGS_SHARED_ARRAY(std::uint32_t, flags, 16);
  RUNGS_SHARED_ARRAY(std::uint32_t, data, 16 * 32);
  const std::uint32_t t = threadIdx.x, lane = t % 32;
  if (t < 16) flags[t] = 0;
  syncthreads();
  for (std::uint32_t i = 0; i < rounds; i++) {
    if (t < 32) {
      data[i * 32 + lane] = i * 1000 + lane;
      syncwarp();
      if (lane == 0) {
        if (how == 0) st_release_cta(&flags[i], 1u);
        if (how == 1) {
          fence_acq_rel_cta();
          st_relaxed_cta(&flags[i], 1u);
        }
        if (how == 2) st_release_cluster(&flags[i], 1u);
        if (how == 3) {
          fence_acq_rel_cluster();
          st_relaxed_cluster(&flags[i], 1u);
        }
      }
    } else {
      if (lane == 0) {
        if (how == 0) {
          while (ld_acquire_cta(&flags[i]) == 0) {
          }
        }
        if (how == 1) {
          while (ld_relaxed_cta(&flags[i]) == 0) {
          }
          fence_acq_rel_cta();
        }
        if (how == 2) {
          while (ld_acquire_cluster(&flags[i]) == 0) {
          }
        }
        if (how == 3) {
          while (ld_relaxed_cluster(&flags[i]) == 0) {
          }
          fence_acq_rel_cluster();
        }
      }
      syncwarp();
      out[i * 32 + lane] = data[i * 32 + 31 - lane];
    }
  }
}

// pair · written by block 0, again and again · read by block 1 until it holds `rounds`
RUNGS_KERNEL(32) pairs_kernel(U64x2* pair, std::uint32_t* out, std::uint32_t rounds) {
  if (threadIdx.x != 0) return;
  if (blockIdx.x == 0) {
    for (std::uint64_t n = 1; n <= rounds; n++) {
      const U64x2 value{n, ~n};
      if (n % 4 == 0) st_relaxed_gpu_b128(pair, value);
      if (n % 4 == 1) st_relaxed_sys_b128(pair, value);
      if (n % 4 == 2) st_release_gpu_b128(pair, value);
      if (n % 4 == 3) st_release_sys_b128(pair, value);
    }
    return;
  }
  std::uint32_t broken = 0;
  for (std::uint32_t i = 0;; i++) {
    U64x2 value{};
    if (i % 4 == 0) value = ld_relaxed_gpu_b128(pair);
    if (i % 4 == 1) value = ld_relaxed_sys_b128(pair);
    if (i % 4 == 2) value = ld_acquire_gpu_b128(pair);
    if (i % 4 == 3) value = ld_acquire_sys_b128(pair);
    if (value.high != ~value.low) broken++;
    if (value.low == rounds) break;
  }
  out[0] = broken;
}

}  // namespace

void launch_orders(StreamHandle stream, const std::uint64_t* words, std::uint64_t* out) {
  gpu::launch("orders", {.grid = {1}, .block = {32}}, stream, orders_kernel, words, out);
}
void launch_hints(StreamHandle stream, const std::uint32_t* words, std::uint32_t* out) {
  gpu::launch("hints", {.grid = {1}, .block = {32}}, stream, hints_kernel,
              reinterpret_cast<const U32x4*>(words), reinterpret_cast<U32x4*>(out));
}
void launch_handshake(StreamHandle stream, std::uint32_t* flags, std::uint32_t* out,
                      std::uint32_t rounds, int scope) {
  gpu::launch("handshake", {.grid = {2}, .block = {64}, .shared_bytes = 0, .cluster = {2}}, stream,
              handshake_kernel, flags, out, rounds, scope);
}
void launch_block_message(StreamHandle stream, std::uint32_t* out, std::uint32_t rounds, int how) {
  gpu::launch("block_message", {.grid = {1}, .block = {64}}, stream, block_message_kernel, out,
              rounds, how);
}
void launch_pairs(StreamHandle stream, std::uint64_t* pair, std::uint32_t* out,
                  std::uint32_t rounds) {
  gpu::LaunchConfig config{.grid = {2}, .block = {32}};
  config.cooperative = true;
  gpu::launch("pairs", config, stream, pairs_kernel, reinterpret_cast<U64x2*>(pair), out, rounds);
}

}  // namespace rungs::ptx::test
