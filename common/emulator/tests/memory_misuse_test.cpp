// Misuse of mbarriers and of single accesses: each must end the launch with a report that names it.

#include "launch_kernel.hpp"

#include <rungs/gpu/kernel.hpp>
#include <rungs/ptx/atomic_wide.hpp>
#include <rungs/ptx/cache_hints.hpp>
#include <rungs/ptx/mbarrier.hpp>
#include <rungs/ptx/mbarrier_token.hpp>
#include <rungs/ptx/sync.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace rungs::emulator::testing {
namespace {

template <int kCase>
RUNGS_KERNEL(32)
misuse(std::uint32_t* out) {
  RUNGS_SHARED_ARRAY(std::uint64_t, barrier, 2);
  if (threadIdx.x != 0) return;
  ptx::mbarrier_init(&barrier[0], 2);
  switch (kCase) {
    case 0:  // initialised twice
      ptx::mbarrier_init(&barrier[0], 2);
      break;
    case 1:  // used after its end
      ptx::mbarrier_inval(&barrier[0]);
      ptx::mbarrier_arrive(&barrier[0]);
      break;
    case 2:  // ended while bytes are expected
      ptx::mbarrier_expect_tx(&barrier[0], 16);
      ptx::mbarrier_inval(&barrier[0]);
      break;
    case 3:  // noComplete as the last arrival
      ptx::mbarrier_arrive_no_complete(&barrier[0], 2);
      break;
    case 4:  // pending count of a token that has none
      out[0] = ptx::mbarrier_pending_count(ptx::mbarrier_arrive_token(&barrier[0]));
      break;
    case 5: {  // a token of two phases ago
      const std::uint64_t token = ptx::mbarrier_arrive_token(&barrier[0], 2);
      ptx::mbarrier_arrive(&barrier[0], 2);
      out[0] = ptx::mbarrier_test_wait_token(&barrier[0], token) ? 1 : 0;
      break;
    }
    case 6: {  // another barrier's token
      ptx::mbarrier_init(&barrier[1], 1);
      const std::uint64_t token = ptx::mbarrier_arrive_token(&barrier[0]);
      out[0] = ptx::mbarrier_test_wait_token(&barrier[1], token) ? 1 : 0;
      break;
    }
    case 7:
      ptx::mbarrier_init(&barrier[1], 1u << 20);
      break;
    case 8:
      ptx::mbarrier_expect_tx(&barrier[0], 1u << 20);
      break;
    case 9:  // 2^20 bytes too many
      ptx::mbarrier_complete_tx(&barrier[0], (1u << 20) - 1);
      ptx::mbarrier_complete_tx(&barrier[0], 1);
      break;
    case 10:  // who dropped out arrives again
      ptx::mbarrier_arrive_drop(&barrier[0]);
      ptx::mbarrier_arrive(&barrier[0]);
      ptx::mbarrier_arrive(&barrier[0]);
      ptx::mbarrier_arrive(&barrier[0], 2);
      break;
    case 11:  // misaligned
      ptx::mbarrier_init(reinterpret_cast<std::uint64_t*>(reinterpret_cast<char*>(barrier) + 4), 1);
      break;
    case 12:  // bytes that never come
      ptx::mbarrier_arrive_expect_tx(&barrier[0], 64);
      break;
    case 13:  // not a barrier at all
      ptx::mbarrier_arrive(&barrier[1]);
      break;
    case 14:
      ptx::atom_add(reinterpret_cast<std::uint32_t*>(reinterpret_cast<char*>(out) + 2), 1u);
      break;
    case 15:  // a vector needs its whole alignment
      ptx::red_add_v4(reinterpret_cast<float*>(out) + 1, 1, 2, 3, 4);
      break;
    case 16:
      out[0] = ptx::ld_nc(reinterpret_cast<const std::uint32_t*>(&barrier[1]));
      break;
    case 17:
      ptx::st_relaxed_gpu_b128(reinterpret_cast<ptx::U64x2*>(out + 2), {1, 2});
      break;
    default:
      break;
  }
}

template <int kCase>
void expect_misuse(const std::vector<const char*>& words) {
  Executor executor({4, 1});
  alignas(16) std::uint32_t out[64] = {};
  const std::string report = run(executor, {.grid = {1}, .block = {32}}, misuse<kCase>, &out[0]);
  for (const char* word : words) {
    EXPECT_NE(report.find(word), std::string::npos) << "no \"" << word << "\" in: " << report;
  }
}

TEST(MemoryMisuse, IsReportedWithItsPlace) {
  expect_misuse<0>({"which holds a barrier already", "memory_misuse_test.cpp:"});
  expect_misuse<1>({"was invalidated (mbarrier.inval at line", "warp 0 lane 0"});
  expect_misuse<2>({"mbarrier.inval", "transaction count of 16"});
  expect_misuse<3>({"mbarrier.arrive.noComplete of 2 is the last arrival of phase 0"});
  expect_misuse<4>({"mbarrier.pending_count", "no arrive.noComplete returned"});
  expect_misuse<5>({"phase 2: a wait with token", "of another phase"});
  expect_misuse<6>({"of another barrier"});
  expect_misuse<7>({"mbarrier.init with a count of 1048576"});
  expect_misuse<8>({"1048576 more bytes expected"});
  expect_misuse<9>({"mbarrier.complete_tx of 1 bytes while -1048575 are pending"});
  expect_misuse<10>({"more arrivals than its count of 1 in phase 2"});
  expect_misuse<11>({"not 8-byte aligned"});
  expect_misuse<12>({"transaction count of 64"});
  expect_misuse<13>({"is not initialised"});
  expect_misuse<14>({"atom.add: address", "is not 4-byte aligned"});
  expect_misuse<15>({"red.global.add.v4.f32", "is not 16-byte aligned"});
  expect_misuse<16>({"ld.global.nc: address", "is in shared memory"});
  expect_misuse<17>({"st.relaxed.gpu.b128", "is not 16-byte aligned"});
}

}  // namespace
}  // namespace rungs::emulator::testing
