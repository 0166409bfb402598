// Kernels of the conformance suite: clusters and each other's shared memory.

#include "memory_conformance.hpp"

#include <rungs/gpu/kernel.hpp>
#include <rungs/ptx/cluster.hpp>
#include <rungs/ptx/cluster_async.hpp>
#include <rungs/ptx/mbarrier.hpp>
#include <rungs/ptx/sync.hpp>

namespace rungs::ptx::test {
namespace {

RUNGS_KERNEL(32) cluster_indices_kernel(std::uint32_t* out) {
  RUNGS_SHARED(std::uint32_t, word);
  if (threadIdx.x == 0) word = cluster_rank();
  cluster_arrive();
  cluster_wait();
  if (threadIdx.x == 0) {
    const std::uint32_t block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    std::uint32_t* row = out + block * kIndexWords;
    row[0] = cluster_rank();
    row[1] = cluster_size();
    const ClusterExtent values[4] = {cluster_block_index(), cluster_extent(), cluster_index(),
                                     cluster_grid()};
    for (int i = 0; i < 4; i++) {
      row[2 + 3 * i] = values[i].x;
      row[3 + 3 * i] = values[i].y;
      row[4 + 3 * i] = values[i].z;
    }
    const std::uint32_t peer = (cluster_rank() + 3) % 8;
    const std::uint32_t* remote = map_shared_pointer(&word, peer);
    row[14] = *remote * 100 + shared_rank(remote) * 10 + shared_rank(&word);
    row[15] = shared_rank(map_shared(shared_u32(&word), peer));
  }
  cluster_arrive();
  cluster_wait();
}

struct Words {
  U32x4 lines[4];
  double wide[4];
  std::uint64_t u64[4];
  std::uint32_t u32[4];
  std::int32_t i32[4];
  float f32[4];
};

RUNGS_KERNEL(32) cluster_words_kernel(std::uint32_t* out) {
  RUNGS_SHARED(Words, words);
  const std::uint32_t t = threadIdx.x, rank = cluster_rank();
  cluster_arrive_relaxed();
  cluster_wait();
  const std::uint32_t right = (rank + 1) % 4;
  if (t < 4) {
    const std::uint32_t value = rank * 100 + t;
    st_shared_cluster(map_shared(shared_u32(&words.u32[t]), right), value);
    st_shared_cluster(map_shared(shared_u32(&words.i32[t]), right),
                      -static_cast<std::int32_t>(value));
    st_shared_cluster(map_shared(shared_u32(&words.u64[t]), right), std::uint64_t{value} << 33);
    st_shared_cluster(map_shared(shared_u32(&words.f32[t]), right),
                      static_cast<float>(value) * 0.5f);
    st_shared_cluster(map_shared(shared_u32(&words.wide[t]), right),
                      static_cast<double>(value) * 0.25);
    st_shared_cluster_v4(map_shared(shared_u32(&words.lines[t]), right),
                         {value, value + 1, value + 2, value + 3});
  }
  cluster_arrive();
  cluster_wait();
  const std::uint32_t across = (rank + 2) % 4;  // written by rank + 1
  if (t < 4) {
    std::uint32_t* row = out + rank * 64 + t * 16;
    row[0] = ld_shared_cluster<std::uint32_t>(map_shared(shared_u32(&words.u32[t]), across));
    row[1] = static_cast<std::uint32_t>(
        ld_shared_cluster<std::int32_t>(map_shared(shared_u32(&words.i32[t]), across)));
    row[2] = static_cast<std::uint32_t>(
        ld_shared_cluster<std::uint64_t>(map_shared(shared_u32(&words.u64[t]), across)) >> 32);
    row[3] = static_cast<std::uint32_t>(
        4 * ld_shared_cluster<float>(map_shared(shared_u32(&words.f32[t]), across)));
    row[4] = static_cast<std::uint32_t>(
        8 * ld_shared_cluster<double>(map_shared(shared_u32(&words.wide[t]), across)));
    const U32x4 line = ld_shared_cluster_v4(map_shared(shared_u32(&words.lines[t]), across));
    row[5] = line.x;
    row[6] = line.y;
    row[7] = line.z;
    row[8] = line.w;
  }
  cluster_arrive();
  cluster_wait();
}

// flag · written by the left neighbour, once a round · read by the block's thread 0 · only grows
RUNGS_KERNEL(32) cluster_flags_kernel(std::uint32_t* out, std::uint32_t rounds) {
  RUNGS_SHARED(std::uint32_t, flag);
  RUNGS_SHARED(std::uint64_t, data);
  const std::uint32_t rank = cluster_rank();
  if (threadIdx.x == 0) {
    flag = 0;
    data = 0;
  }
  cluster_arrive();
  cluster_wait();
  if (threadIdx.x == 0) {
    const std::uint32_t right = (rank + 1) % 4;
    const std::uint32_t right_flag = map_shared(shared_u32(&flag), right);
    const std::uint32_t right_data = map_shared(shared_u32(&data), right);
    std::uint64_t sum = 0;
    for (std::uint32_t round = 1; round <= rounds; round++) {
      if (rank != 0) {
        while (ld_acquire_shared_cluster<std::uint32_t>(shared_u32(&flag)) != round) {
        }
        sum = ld_shared_cluster<std::uint64_t>(shared_u32(&data));
      }
      st_relaxed_shared_cluster(right_data, sum + rank + 1);
      st_release_shared_cluster(right_flag, round);
      if (rank == 0) {
        while (ld_relaxed_shared_cluster<std::uint32_t>(shared_u32(&flag)) != round) {
        }
        while (ld_acquire_shared_cluster<std::uint32_t>(shared_u32(&flag)) != round) {
        }
        sum = ld_relaxed_shared_cluster<std::uint64_t>(shared_u32(&data));
      }
    }
    out[rank] = static_cast<std::uint32_t>(sum);
  }
  cluster_arrive();
  cluster_wait();
}

RUNGS_KERNEL(64) cluster_barriers_kernel(std::uint32_t* out) {
  RUNGS_SHARED_ARRAY(std::uint32_t, words, 64);
  const std::uint32_t t = threadIdx.x, rank = cluster_rank();
  words[t] = rank * 1000 + t;
  if (rank == 0 && t >= 32) return;  // a warp that has ended is not waited for
  // Lanes that come from different paths; two arrive instructions in one warp hang an H200.
  if (t % 2 != 0) nanosleep(100);
  cluster_arrive_relaxed_unaligned();
  cluster_wait_unaligned();
  if (t % 2 == 0) nanosleep(100);
  cluster_arrive_unaligned();
  cluster_wait_unaligned();
  syncwarp();
  const std::uint32_t from = t % 32;
  const std::uint32_t seen =
      ld_shared_cluster<std::uint32_t>(map_shared(shared_u32(&words[from]), rank ^ 1));
  cluster_arrive();
  cluster_wait();
  out[rank * 64 + t] = seen;
}

struct Inbox {
  U32x4 lines[32 / 4];
  std::uint64_t pairs[16];
  std::uint64_t wide[8];
  std::uint32_t doubles[16];
  std::uint32_t words[8];
  float reals[8];
  std::uint64_t landed;
};

RUNGS_KERNEL(32) store_async_kernel(std::uint32_t* out) {
  RUNGS_SHARED(Inbox, inbox);
  const std::uint32_t t = threadIdx.x, rank = cluster_rank();
  // 8 threads send 4 + 4 + 8 + 8 + 16 + 16 bytes each.
  if (t == 0) {
    mbarrier_init(&inbox.landed, 1);
    fence_mbarrier_init();
    mbarrier_arrive_expect_tx(&inbox.landed, 8 * 56);
  }
  cluster_arrive();
  cluster_wait();
  const std::uint32_t barrier = map_shared(shared_u32(&inbox.landed), rank ^ 1);
  const auto at = [&](const void* object) { return map_shared(shared_u32(object), rank ^ 1); };
  if (t < 8) {
    const std::uint32_t v = rank * 1000 + t * 10;
    st_async(at(&inbox.words[t]), v, barrier);
    st_async(at(&inbox.reals[t]), static_cast<float>(v) * 0.5f, barrier);
    st_async(at(&inbox.wide[t]), std::uint64_t{v} << 32 | 5, barrier);
    st_async_v2(at(&inbox.doubles[2 * t]), v + 1, v + 2, barrier);
    st_async_v2(at(&inbox.pairs[2 * t]), std::uint64_t{v + 3}, std::uint64_t{v + 4} << 32, barrier);
    st_async_v4(at(&inbox.lines[t]), {v + 5, v + 6, v + 7, v + 8}, barrier);
  }
  mbarrier_wait_cluster(&inbox.landed, 0);
  if (t < 8) {
    std::uint32_t* row = out + rank * 96 + t * 12;
    row[0] = inbox.words[t];
    row[1] = static_cast<std::uint32_t>(inbox.reals[t] * 4);
    row[2] = static_cast<std::uint32_t>(inbox.wide[t] >> 32);
    row[3] = static_cast<std::uint32_t>(inbox.wide[t]);
    row[4] = inbox.doubles[2 * t];
    row[5] = inbox.doubles[2 * t + 1];
    row[6] = static_cast<std::uint32_t>(inbox.pairs[2 * t]);
    row[7] = static_cast<std::uint32_t>(inbox.pairs[2 * t + 1] >> 32);
    row[8] = inbox.lines[t].x;
    row[9] = inbox.lines[t].y;
    row[10] = inbox.lines[t].z;
    row[11] = inbox.lines[t].w;
  }
  cluster_arrive();
  cluster_wait();
}

struct Sums {
  std::uint64_t add_u64;
  std::uint32_t words[14];
  std::uint64_t landed;
};

RUNGS_KERNEL(32) reduce_async_kernel(std::uint32_t* out) {
  RUNGS_SHARED(Sums, sums);
  const std::uint32_t t = threadIdx.x, rank = cluster_rank();
  if (t == 0 && rank == 0) {
    sums.add_u64 = std::uint64_t{1} << 40;
    constexpr std::uint32_t kStart[14] = {7,  0,   5000,        100, 0, 0, 2,
                                          50, ~0u, 0x80000000u, 0,   1, 1, 1};
    for (int i = 0; i < 14; i++) sums.words[i] = kStart[i];
    mbarrier_init(&sums.landed, 1);
    fence_mbarrier_init();
    mbarrier_arrive_expect_tx(&sums.landed, 3 * 32 * (11 * 4 + 8));
  }
  cluster_arrive();
  cluster_wait();
  if (rank != 0) {
    const std::uint32_t barrier = map_shared(shared_u32(&sums.landed), 0);
    const auto word = [&](int i) { return map_shared(shared_u32(&sums.words[i]), 0); };
    const std::uint32_t id = rank * 32 + t;  // 32 to 127
    const auto signed_id = static_cast<std::int32_t>(id);
    red_async_add(word(0), id, barrier);
    red_async_add(word(1), -signed_id, barrier);
    red_async_min(word(2), id * 3, barrier);
    red_async_min(word(3), 50 - signed_id, barrier);
    red_async_max(word(4), id * 5, barrier);
    red_async_max(word(5), signed_id - 60, barrier);
    red_async_inc(word(6), 9u, barrier);
    red_async_dec(word(7), 60u, barrier);
    red_async_and(word(8), ~(1u << t), barrier);
    red_async_or(word(9), 1u << t / 2, barrier);
    red_async_xor(word(10), id, barrier);
    red_async_add(map_shared(shared_u32(&sums.add_u64), 0), std::uint64_t{id} << 32, barrier);
  } else {
    mbarrier_wait_cluster(&sums.landed, 0);
    if (t < 14) out[t] = sums.words[t];
    if (t == 14) out[14] = static_cast<std::uint32_t>(sums.add_u64 >> 32);
    if (t == 15) out[15] = static_cast<std::uint32_t>(sums.add_u64);
  }
  cluster_arrive();
  cluster_wait();
}

RUNGS_KERNEL(384, 1) register_rounds_kernel(std::uint32_t* out) {
  if (threadIdx.x < 128) {
    setmaxnreg_dec<24>();
    syncthreads();
    setmaxnreg_inc<168>();
  } else {
    setmaxnreg_inc<240>();
    syncthreads();
    setmaxnreg_dec<168>();
  }
  if (blockIdx.x == 0) out[threadIdx.x] = threadIdx.x * 3;
}

}  // namespace

void launch_cluster_indices(StreamHandle stream, std::uint32_t* out) {
  gpu::launch("cluster_indices",
              {.grid = {4, 4, 2}, .block = {32}, .shared_bytes = 0, .cluster = {2, 2, 2}}, stream,
              cluster_indices_kernel, out);
}
void launch_cluster_words(StreamHandle stream, std::uint32_t* out) {
  gpu::launch("cluster_words", {.grid = {4}, .block = {32}, .shared_bytes = 0, .cluster = {4}},
              stream, cluster_words_kernel, out);
}
void launch_cluster_flags(StreamHandle stream, std::uint32_t* out, std::uint32_t rounds) {
  gpu::launch("cluster_flags", {.grid = {4}, .block = {32}, .shared_bytes = 0, .cluster = {4}},
              stream, cluster_flags_kernel, out, rounds);
}
void launch_cluster_barriers(StreamHandle stream, std::uint32_t* out) {
  gpu::launch("cluster_barriers", {.grid = {2}, .block = {64}, .shared_bytes = 0, .cluster = {2}},
              stream, cluster_barriers_kernel, out);
}
void launch_store_async(StreamHandle stream, std::uint32_t* out) {
  gpu::launch("store_async", {.grid = {2}, .block = {32}, .shared_bytes = 0, .cluster = {2}},
              stream, store_async_kernel, out);
}
void launch_reduce_async(StreamHandle stream, std::uint32_t* out) {
  gpu::launch("reduce_async", {.grid = {4}, .block = {32}, .shared_bytes = 0, .cluster = {4}},
              stream, reduce_async_kernel, out);
}
void launch_register_rounds(StreamHandle stream, std::uint32_t* out) {
  gpu::launch("register_rounds", {.grid = {2}, .block = {384}}, stream, register_rounds_kernel,
              out);
}

}  // namespace rungs::ptx::test
