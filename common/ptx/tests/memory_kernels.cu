// Kernels of the conformance suite: synchronising loads and stores, atomics, fences, fma.

#include "conformance.hpp"

#include <rungs/gpu/kernel.hpp>
#include <rungs/ptx/atomic.hpp>
#include <rungs/ptx/fence.hpp>
#include <rungs/ptx/math.hpp>
#include <rungs/ptx/memory.hpp>
#include <rungs/ptx/sync.hpp>
#include <rungs/ptx/vector.hpp>

namespace rungs::ptx::test {
namespace {

RUNGS_KERNEL(32)
loads_kernel(const std::uint32_t* u32, const std::int32_t* i32, const std::uint64_t* u64,
             std::uint64_t* out) {
  if (threadIdx.x != 0) return;
  out[0] = ld_relaxed_gpu(&u32[0]);
  out[1] = ld_relaxed_sys(&u32[1]);
  out[2] = ld_acquire_gpu(&u32[2]);
  out[3] = ld_acquire_sys(&u32[3]);
  out[4] = static_cast<std::uint64_t>(std::int64_t{ld_relaxed_gpu(&i32[0])});
  out[5] = static_cast<std::uint64_t>(std::int64_t{ld_relaxed_sys(&i32[1])});
  out[6] = static_cast<std::uint64_t>(std::int64_t{ld_acquire_gpu(&i32[2])});
  out[7] = static_cast<std::uint64_t>(std::int64_t{ld_acquire_sys(&i32[3])});
  out[8] = ld_relaxed_gpu(&u64[0]);
  out[9] = ld_relaxed_sys(&u64[1]);
  out[10] = ld_acquire_gpu(&u64[2]);
  out[11] = ld_acquire_sys(&u64[3]);
  out[12] = peek_relaxed_gpu(&u64[3]);
}

RUNGS_KERNEL(32) stores_kernel(std::uint32_t* u32, std::int32_t* i32, std::uint64_t* u64) {
  if (threadIdx.x != 0) return;
  st_relaxed_gpu(&u32[0], 0x80000001u);
  st_relaxed_sys(&u32[1], 2u);
  st_release_gpu(&u32[2], 3u);
  st_release_sys(&u32[3], 4u);
  st_relaxed_gpu(&i32[0], -1);
  st_relaxed_sys(&i32[1], -2);
  st_release_gpu(&i32[2], -3);
  st_release_sys(&i32[3], -4);
  st_relaxed_gpu(&u64[0], std::uint64_t{1} << 63);
  st_relaxed_sys(&u64[1], std::uint64_t{2} << 40);
  st_release_gpu(&u64[2], std::uint64_t{3} << 40);
  st_release_sys(&u64[3], std::uint64_t{4} << 40);
}

// flag · written by block 0 once · read by block 1 · reset by the host
RUNGS_KERNEL(64)
message_kernel(std::uint32_t* data, std::uint32_t* flag, std::uint32_t* out, unsigned count,
               int how) {
  const unsigned t = threadIdx.x;
  if (blockIdx.x == 0) {
    for (unsigned i = t; i < count; i += blockDim.x) data[i] = i * 17 + 1;
    syncthreads();
    if (t != 0) return;
    if (how == 0) st_release_gpu(flag, 1u);
    if (how == 1) st_release_sys(flag, 1u);
    if (how == 2) {
      fence_acq_rel_gpu();
      st_relaxed_gpu(flag, 1u);
    }
    if (how == 3) {
      fence_acq_rel_sys();
      st_relaxed_sys(flag, 1u);
    }
    return;
  }
  if (t == 0) {
    if (how == 0) {
      while (ld_acquire_gpu(flag) == 0) {
      }
    }
    if (how == 1) {
      while (ld_acquire_sys(flag) == 0) {
      }
    }
    if (how == 2) {
      while (ld_relaxed_gpu(flag) == 0) {
      }
      fence_acq_rel_gpu();
    }
    if (how == 3) {
      while (ld_relaxed_sys(flag) == 0) {
      }
      fence_acq_rel_sys();
    }
  }
  syncthreads();
  for (unsigned i = t; i < count; i += blockDim.x) out[i] = data[i];
}

// lines · written by block 0, a thread a line, round after round · read by block 1, which counts
// the flags' mismatches, checks nothing else · echo carries the round back: line free again
RUNGS_KERNEL(64)
lines_kernel(U32x4* lines, std::uint32_t* echo, std::uint32_t* out, std::uint32_t rounds) {
  const unsigned t = threadIdx.x;
  for (std::uint32_t round = 1; round <= rounds; round++) {
    if (blockIdx.x == 0) {
      st_volatile_v4(&lines[t], {t * 1000 + round, round, t * 1000 + round + 500, round});
      while (ld_relaxed_gpu(&echo[t]) != round) {
      }
    } else {
      U32x4 line = ld_volatile_v4(&lines[t]);
      while (line.y != round || line.w != round) line = ld_volatile_v4(&lines[t]);
      if (line.x != t * 1000 + round || line.z != line.x + 500) atomic_add_gpu(out, 1u);
      st_relaxed_gpu(&echo[t], round);
    }
  }
}

RUNGS_KERNEL(64) atomics_kernel(AtomicCells* cells, std::uint32_t* tickets) {
  const std::uint32_t thread = blockIdx.x * blockDim.x + threadIdx.x;
  const auto signed_thread = static_cast<std::int32_t>(thread);
  tickets[thread] = atomic_add_gpu(&cells->u32[0], 1u);
  atomic_add_sys(&cells->u32[1], thread);
  red_add_gpu(&cells->u32[2], 3u);
  red_add_sys(&cells->u32[3], thread);
  atomic_max_gpu(&cells->u32[4], 0x80000000u + (thread * 37) % 256);
  atomic_cas_gpu(&cells->u32[5], 0u, 7u);   // one of them succeeds
  atomic_cas_sys(&cells->u32[6], 99u, 7u);  // none does
  red_add_gpu(&cells->u32[7], atomic_exchange_gpu(&cells->i32[7], 5) == 0 ? 1u : 0u);  // one sees 0

  atomic_add_gpu(&cells->i32[0], -1);
  atomic_add_sys(&cells->i32[1], -signed_thread);
  red_add_gpu(&cells->i32[2], -2);
  red_add_sys(&cells->i32[3], signed_thread);
  atomic_max_gpu(&cells->i32[4], -1000 + (signed_thread * 37) % 256);
  atomic_cas_sys(&cells->i32[5], 0, -7);
  red_add_gpu(&cells->i32[6], atomic_exchange_sys(&cells->u64[5], std::uint64_t{9}) == 0 ? 1 : 0);

  atomic_add_gpu(&cells->u64[0], std::uint64_t{1} << 33);
  atomic_add_sys(&cells->u64[1], std::uint64_t{thread} << 33);
  red_add_gpu(&cells->u64[2], std::uint64_t{1} << 34);
  red_add_sys(&cells->u64[3], std::uint64_t{thread});
  atomic_cas_gpu(&cells->u64[4], std::uint64_t{0}, std::uint64_t{1} << 50);

  // Small integers: exact in any order.
  atomic_add_gpu(&cells->f32[0], 1.0f);
  atomic_add_sys(&cells->f32[1], static_cast<float>(thread));
  red_add_gpu(&cells->f32[2], 0.5f);
  red_add_sys(&cells->f32[3], -static_cast<float>(thread));
}

// lock · taken with cas, released with exchange by the holder
RUNGS_KERNEL(32) spin_lock_kernel(std::uint32_t* lock, std::uint32_t* counter) {
  if (threadIdx.x != 0) return;
  for (int i = 0; i < 20; i++) {
    while (atomic_cas_gpu(lock, 0u, 1u) != 0) {
    }
    fence_acq_rel_gpu();
    st_relaxed_gpu(counter, ld_relaxed_gpu(counter) + 1);
    fence_acq_rel_gpu();
    atomic_exchange_gpu(lock, 0u);
  }
}

RUNGS_KERNEL(128)
fma_kernel(const float* a, const float* b, const float* c, float* out, unsigned count) {
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    out[i] = fma(a[i], b[i], c[i]);
  }
}

}  // namespace

void launch_loads(StreamHandle stream, const std::uint32_t* u32, const std::int32_t* i32,
                  const std::uint64_t* u64, std::uint64_t* out) {
  gpu::launch("loads", {.grid = {1}, .block = {32}}, stream, loads_kernel, u32, i32, u64, out);
}
void launch_stores(StreamHandle stream, std::uint32_t* u32, std::int32_t* i32, std::uint64_t* u64) {
  gpu::launch("stores", {.grid = {1}, .block = {32}}, stream, stores_kernel, u32, i32, u64);
}
void launch_message(StreamHandle stream, std::uint32_t* data, std::uint32_t* flag,
                    std::uint32_t* out, unsigned count, int how) {
  gpu::LaunchConfig config{.grid = {2}, .block = {64}};
  config.cooperative = true;
  gpu::launch("message", config, stream, message_kernel, data, flag, out, count, how);
}
void launch_lines(StreamHandle stream, U32x4* lines, std::uint32_t* echo, std::uint32_t* out,
                  std::uint32_t rounds) {
  gpu::launch("lines", {.grid = {2}, .block = {64}, .cooperative = true}, stream, lines_kernel,
              lines, echo, out, rounds);
}

void launch_atomics(StreamHandle stream, AtomicCells* cells, std::uint32_t* tickets) {
  gpu::launch("atomics", {.grid = {4}, .block = {64}}, stream, atomics_kernel, cells, tickets);
}
void launch_spin_lock(StreamHandle stream, std::uint32_t* lock, std::uint32_t* counter) {
  gpu::LaunchConfig config{.grid = {8}, .block = {32}};
  config.cooperative = true;
  gpu::launch("spin_lock", config, stream, spin_lock_kernel, lock, counter);
}
void launch_fma(StreamHandle stream, const float* a, const float* b, const float* c, float* out,
                unsigned count) {
  gpu::launch("fma", {.grid = {2}, .block = {128}}, stream, fma_kernel, a, b, c, out, count);
}

}  // namespace rungs::ptx::test
