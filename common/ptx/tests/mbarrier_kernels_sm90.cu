// Kernels of the conformance suite: mbarriers beyond the phases of a pipeline.

#include "memory_conformance.hpp"

#include <rungs/gpu/kernel.hpp>
#include <rungs/ptx/mbarrier.hpp>
#include <rungs/ptx/mbarrier_token.hpp>
#include <rungs/ptx/sync.hpp>

namespace rungs::ptx::test {
namespace {

RUNGS_KERNEL(32) mbarrier_tokens_kernel(std::uint32_t* out) {
  RUNGS_SHARED(std::uint64_t, barrier);
  if (threadIdx.x != 0) return;
  // Phase 0: five arrivals, of which four may not end it.
  mbarrier_init(&barrier, 5);
  fence_mbarrier_init();
  const std::uint64_t first = mbarrier_arrive_no_complete(&barrier, 1);
  const std::uint64_t second = mbarrier_arrive_no_complete(&barrier, 3);
  out[0] = mbarrier_pending_count(first);
  out[1] = mbarrier_pending_count(second);
  out[2] = mbarrier_test_wait_token(&barrier, first) ? 1 : 0;
  out[3] = mbarrier_test_wait(&barrier, 0) ? 1 : 0;
  out[4] = mbarrier_test_wait(&barrier, 1) ? 1 : 0;
  const std::uint64_t third = mbarrier_arrive_token(&barrier);
  out[5] = mbarrier_test_wait_token(&barrier, second) ? 1 : 0;
  mbarrier_wait_token(&barrier, third);
  out[6] = mbarrier_try_wait_token(&barrier, third) ? 1 : 0;
  // Phase 1: a count in one arrival, bytes expected before and after they come.
  const std::uint64_t fourth = mbarrier_arrive_token(&barrier, 4);
  mbarrier_complete_tx(&barrier, 100);
  const std::uint64_t fifth = mbarrier_arrive_expect_tx_token(&barrier, 300);
  out[7] = mbarrier_test_wait_token(&barrier, fourth) ? 1 : 0;
  out[8] = mbarrier_test_wait(&barrier, 1) ? 1 : 0;
  mbarrier_complete_tx(&barrier, 200);
  mbarrier_wait_token(&barrier, fifth);
  out[9] = mbarrier_test_wait(&barrier, 1) ? 1 : 0;
  out[10] = mbarrier_test_wait(&barrier, 0) ? 1 : 0;
  // Phase 2: two of the five drop out; phase 3 needs three.
  const std::uint64_t sixth = mbarrier_arrive_drop_no_complete(&barrier, 1);
  out[11] = mbarrier_pending_count(sixth);
  const std::uint64_t seventh = mbarrier_arrive_drop(&barrier);
  out[12] = mbarrier_test_wait_token(&barrier, seventh) ? 1 : 0;
  mbarrier_arrive(&barrier, 3);
  out[13] = mbarrier_try_wait_for(&barrier, 0, 1000) ? 1 : 0;
  const std::uint64_t eighth = mbarrier_arrive_no_complete(&barrier, 2);
  out[14] = mbarrier_pending_count(eighth);
  mbarrier_arrive_relaxed(&barrier);
  out[15] = mbarrier_try_wait_relaxed(&barrier, 1) ? 1 : 0;
  // The memory ends as a barrier, is a number, and becomes another barrier.
  mbarrier_inval(&barrier);
  barrier = 77;
  out[16] = static_cast<std::uint32_t>(barrier);
  mbarrier_init(&barrier, (1u << 20) - 1);  // the largest count
  fence_mbarrier_init();
  const std::uint64_t ninth = mbarrier_arrive_no_complete(&barrier, (1u << 20) - 2);
  out[17] = mbarrier_pending_count(ninth);
  const std::uint64_t tenth = mbarrier_arrive_token(&barrier);
  out[18] = mbarrier_test_wait_token(&barrier, tenth) ? 1 : 0;
  // The largest transaction count.
  mbarrier_expect_tx(&barrier, (1u << 20) - 1);
  mbarrier_arrive(&barrier, (1u << 20) - 1);
  out[19] = mbarrier_test_wait(&barrier, 1) ? 1 : 0;
  mbarrier_complete_tx(&barrier, (1u << 20) - 1);
  out[20] = mbarrier_test_wait(&barrier, 1) ? 1 : 0;
  mbarrier_inval(&barrier);
}

RUNGS_KERNEL(128) mbarrier_drops_kernel(std::uint32_t* out) {
  RUNGS_SHARED(std::uint64_t, barrier);
  RUNGS_SHARED_ARRAY(std::uint32_t, words, 128);
  const std::uint32_t t = threadIdx.x;
  if (t == 0) {
    mbarrier_init(&barrier, 128);
    fence_mbarrier_init();
  }
  syncthreads();
  for (std::uint32_t phase = 0; phase < 4; phase++) {
    words[t] = phase * 1000 + t;
    if (t / 32 == phase) {
      mbarrier_arrive_drop(&barrier);
      return;
    }
    const std::uint64_t token = mbarrier_arrive_token(&barrier);
    mbarrier_wait_token(&barrier, token);
    const std::uint32_t read = words[32 * phase + t % 32];  // of a thread that dropped out
    out[phase * 128 + t] = read;
  }
}

RUNGS_KERNEL(32) mbarrier_remote_kernel(std::uint32_t* out) {
  RUNGS_SHARED(std::uint64_t, barrier);
  const std::uint32_t rank = cluster_rank();
  if (threadIdx.x == 0) {
    mbarrier_init(&barrier, 4);
    fence_mbarrier_init();
  }
  cluster_arrive();
  cluster_wait();
  std::uint32_t* const seen = out + rank * kRemoteWords;
  const std::uint32_t peer = map_shared(shared_u32(&barrier), rank ^ 1);
  if (threadIdx.x == 0) {
    // Phase 0 of the other block's barrier: 1 + 2 + 1 arrivals and 64 + 32 bytes.
    mbarrier_expect_tx_cluster(peer, 64);
    mbarrier_arrive_expect_tx_cluster(peer, 32);
    mbarrier_arrive_cluster(peer, 2);
    mbarrier_arrive_relaxed_cluster(peer, 1);
    mbarrier_complete_tx_cluster(peer, 96);
    mbarrier_wait_cluster(&barrier, 0);
    seen[0] = mbarrier_try_wait_cluster(&barrier, 0) ? 1 : 0;
    seen[1] = mbarrier_test_wait(&barrier, 1) ? 1 : 0;
  }
  cluster_arrive();
  cluster_wait();
  if (threadIdx.x == 0) {
    // Phase 1: two of the four arrivals are the last of their kind; phase 2 waits for two.
    mbarrier_arrive_drop_cluster(peer, 2);
    mbarrier_arrive_cluster(peer, 2);
    mbarrier_wait_cluster(&barrier, 1);
    seen[2] = 1;
  }
  cluster_arrive();
  cluster_wait();
  if (threadIdx.x == 0) {
    mbarrier_arrive_cluster(peer, 2);
    mbarrier_wait_cluster(&barrier, 0);
    seen[3] = 1;
  }
  cluster_arrive();
  cluster_wait();
}

}  // namespace

void launch_mbarrier_tokens(StreamHandle stream, std::uint32_t* out) {
  gpu::launch("mbarrier_tokens", {.grid = {1}, .block = {32}}, stream, mbarrier_tokens_kernel, out);
}
void launch_mbarrier_drops(StreamHandle stream, std::uint32_t* out) {
  gpu::launch("mbarrier_drops", {.grid = {1}, .block = {128}}, stream, mbarrier_drops_kernel, out);
}
void launch_mbarrier_remote(StreamHandle stream, std::uint32_t* out) {
  gpu::launch("mbarrier_remote", {.grid = {2}, .block = {32}, .shared_bytes = 0, .cluster = {2}},
              stream, mbarrier_remote_kernel, out);
}

}  // namespace rungs::ptx::test
