// Misuse of clusters, of each other's shared memory and of setmaxnreg: each must end the launch
// with a report that names it.

#include "launch_kernel.hpp"

#include <rungs/gpu/kernel.hpp>
#include <rungs/ptx/cluster.hpp>
#include <rungs/ptx/cluster_async.hpp>
#include <rungs/ptx/mbarrier.hpp>
#include <rungs/ptx/sync.hpp>

#include <rungs/testing/gpu_test.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace rungs::emulator::testing {
namespace {

struct Object {
  ptx::U32x4 line;
  std::uint64_t barrier;
  std::uint32_t word;
};

template <int kCase>
RUNGS_KERNEL(64)
misuse(std::uint32_t* out) {
  RUNGS_SHARED(Object, s);
  const std::uint32_t t = threadIdx.x, rank = ptx::cluster_rank();
  if (t == 0) {
    s.word = 7;
    ptx::mbarrier_init(&s.barrier, 1);
  }
  if (kCase == 0) {  // before the other block is known to run
    if (rank == 0) {
      out[t] = ptx::ld_shared_cluster<std::uint32_t>(ptx::map_shared(ptx::shared_u32(&s.word), 1));
    }
    return;
  }
  ptx::cluster_arrive();
  ptx::cluster_wait();
  const std::uint32_t word = ptx::map_shared(ptx::shared_u32(&s.word), rank ^ 1);
  const std::uint32_t barrier = ptx::map_shared(ptx::shared_u32(&s.barrier), rank ^ 1);
  switch (kCase) {
    case 1:  // the other block may have ended
      out[t] = ptx::ld_shared_cluster<std::uint32_t>(word);
      return;
    case 2:  // a store that is under way when its destination ends
      if (rank == 1 && t == 0) ptx::st_async(word, 5u, barrier);
      if (rank == 0 && t == 0) ptx::mbarrier_arrive_expect_tx(&s.barrier, 4);
      return;
    case 3:
      if (t == 0) ptx::st_async(ptx::shared_u32(&s.word), 5u, ptx::shared_u32(&s.barrier));
      break;
    case 4:  // the barrier lies elsewhere
      if (t == 0) ptx::st_async(word, 5u, ptx::shared_u32(&s.barrier));
      break;
    case 5:
      if (t == 0) ptx::st_async_v4(word + 4, {1, 2, 3, 4}, barrier);
      break;
    case 6:
      if (t == 0) ptx::st_shared_cluster(word + (1u << 20), 5u);
      break;
    case 7:  // rank 2 of 2
      if (t == 0) ptx::st_shared_cluster((word & 0xffffffu) | 2u << 24, 5u);
      break;
    case 8:  // an arrival too many
      ptx::cluster_arrive();
      ptx::cluster_arrive();
      break;
    case 9:
      ptx::cluster_wait();
      break;
    case 10:  // the aligned form on two paths
      if (t % 2 == 0) {
        ptx::cluster_arrive();
      } else {
        ptx::cluster_arrive();
      }
      ptx::cluster_wait();
      break;
    case 11:  // one thread never arrives, but goes on for ever
      if (t == 0) {
        ptx::mbarrier_wait(&s.barrier, 0);
      } else {
        ptx::cluster_arrive();
        ptx::cluster_wait();
      }
      break;
    case 12:  // nobody waits for it
      if (t == 0 && rank == 0) ptx::red_async_add(word, 1u, barrier);
      break;
    case 13:
      out[t] = ptx::shared_rank(out);
      break;
    default:
      break;
  }
  ptx::cluster_arrive();
  ptx::cluster_wait();
}

template <int kCase>
void expect_misuse(const std::vector<const char*>& words) {
  Executor executor({4, 1});
  std::vector<std::uint32_t> out(64, 0);
  const std::string report =
      run(executor, {.grid = {2}, .block = {64}, .shared_bytes = 0, .cluster = {2}}, misuse<kCase>,
          out.data());
  for (const char* word : words) {
    EXPECT_NE(report.find(word), std::string::npos)
        << kCase << ": no \"" << word << "\" in: " << report;
  }
}

TEST(ClusterMisuse, IsReportedWithItsPlace) {
  expect_misuse<0>(
      {"ld.shared::cluster: block rank 1", "may not have started", "cluster_misuse_test.cpp:"});
  expect_misuse<1>({"ld.shared::cluster: block rank", "has ended"});
  expect_misuse<2>({"st.async: block rank 0", "has ended", "issued at cluster_misuse_test.cpp:"});
  expect_misuse<3>({"st.async to the executing block's own shared memory"});
  expect_misuse<4>({"st.async to block rank", "with a barrier of block rank"});
  expect_misuse<5>({"st.async", "not 16-byte aligned"});
  expect_misuse<6>({"st.shared::cluster: shared-memory offset", "out of bounds"});
  expect_misuse<7>({"st.shared::cluster: address", "rank 2 in a cluster of 2"});
  expect_misuse<8>({"barrier.cluster.arrive twice"});
  expect_misuse<9>({"has not executed barrier.cluster.arrive"});
  expect_misuse<10>({"diverged warp: barrier.cluster.arrive.aligned"});
  expect_misuse<11>({"deadlock", "2 threads of the cluster have not arrived"});
  expect_misuse<12>({"red.async: block rank 1", "has ended"});
  expect_misuse<13>({"getctarank: pointer"});
}

RUNGS_KERNEL(64) late_store(std::uint32_t* out) {
  RUNGS_SHARED(Object, s);
  const std::uint32_t rank = ptx::cluster_rank();
  if (threadIdx.x == 0) {
    s.word = 7;
    ptx::mbarrier_init(&s.barrier, 1);
    if (rank == 0) ptx::mbarrier_arrive_expect_tx(&s.barrier, 4);
  }
  ptx::cluster_arrive();
  ptx::cluster_wait();
  if (threadIdx.x == 0 && rank == 1) {
    ptx::st_async(ptx::map_shared(ptx::shared_u32(&s.word), 0), 9u,
                  ptx::map_shared(ptx::shared_u32(&s.barrier), 0));
  }
  ptx::cluster_arrive();
  ptx::cluster_wait();  // orders nothing that runs asynchronously
  if (threadIdx.x == 0 && rank == 0) {
    out[0] = s.word;
    ptx::mbarrier_wait_cluster(&s.barrier, 0);
    out[1] = s.word;
  }
}

// What has not landed shows as poison.
TEST(ClusterMisuse, AsynchronousStoreReadTooEarly) {
#if defined(RUNGS_SANITIZE_THREAD)
  return rungs::testing::skip(rungs::testing::Lack::kPlainBuild,
                              "ThreadSanitizer itself reports the planted race");
#endif
  Executor executor({4, 1});
  std::vector<std::uint32_t> out(2, 0);
  const gpu::LaunchConfig config{.grid = {2}, .block = {64}, .shared_bytes = 0, .cluster = {2}};
  EXPECT_EQ(run(executor, config, late_store, out.data()), "");
  EXPECT_EQ(out[0], ~0u);
  EXPECT_EQ(out[1], 9u);
}

template <int kCase>
RUNGS_KERNEL(384)
registers(std::uint32_t* out) {
  const unsigned group = threadIdx.x / 128;
  switch (kCase) {
    case 0:  // more than there are
      if (group == 0) {
        ptx::setmaxnreg_dec<40>();
      } else {
        ptx::setmaxnreg_inc<240>();
      }
      break;
    case 1:  // the wrong way
      ptx::setmaxnreg_dec<40>();
      ptx::setmaxnreg_dec<48>();
      break;
    case 2:
      if (group == 0) ptx::setmaxnreg_dec<40>();
      ptx::syncthreads();
      if (group != 0) ptx::setmaxnreg_inc<232>();
      if (group != 0) ptx::setmaxnreg_inc<224>();
      break;
    case 3:  // one warp of a warpgroup
      if (threadIdx.x < 32) ptx::setmaxnreg_dec<40>();
      break;
    case 4:  // one lane of a warp
      if (threadIdx.x == 0) ptx::setmaxnreg_dec<40>();
      break;
    case 5:  // warps of a group differ
      if (threadIdx.x < 32) ptx::setmaxnreg_dec<40>();
      if (threadIdx.x >= 32) ptx::setmaxnreg_dec<48>();
      break;
    default:
      break;
  }
  out[threadIdx.x] = 1;
}

template <int kCase>
void expect_registers(const std::vector<const char*>& words) {
  Executor executor({4, 1});
  std::vector<std::uint32_t> out(384, 0);
  const std::string report =
      run(executor, {.grid = {1}, .block = {384}}, registers<kCase>, out.data());
  for (const char* word : words) {
    EXPECT_NE(report.find(word), std::string::npos)
        << kCase << ": no \"" << word << "\" in: " << report;
  }
}

TEST(RegisterMisuse, IsReportedWithItsPlace) {
  expect_registers<0>(
      {"deadlock", "setmaxnreg.inc to 240 registers a thread", "registers are free in the block"});
  expect_registers<1>({"setmaxnreg.dec to 48 registers a thread, more than the warp's 40"});
  expect_registers<2>({"setmaxnreg.inc to 224 registers a thread, fewer than the warp's 232"});
  expect_registers<3>({"setmaxnreg by 1 of the 4 warps of warpgroup 0"});
  expect_registers<4>({"deadlock", "the other lanes of mask ffffffff"});
  expect_registers<5>({"while other warps of warpgroup 0 have executed one at line"});
}

}  // namespace
}  // namespace rungs::emulator::testing
