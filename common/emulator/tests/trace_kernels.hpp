#pragma once
/// @file trace_kernels.hpp
/// Small kernels to be traced, and how the pipeline among them is run.

#include "launch_kernel.hpp"

#include <rungs/core/dtype.hpp>
#include <rungs/emulator/trace.hpp>
#include <rungs/gpu/kernel.hpp>
#include <rungs/gpu/tensor_map.hpp>
#include <rungs/ptx/mbarrier.hpp>
#include <rungs/ptx/sync.hpp>
#include <rungs/ptx/tma.hpp>
#include <rungs/ptx/wgmma.hpp>

#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace rungs::emulator::testing {

constexpr int kStages = 2, kTile = 64, kDepth = 64, kSteps = 6;

struct alignas(1024) Stages {
  bf16 a[kStages][kTile * kDepth];
  bf16 b[kStages][kTile * kDepth];
  std::uint64_t full[kStages];
  std::uint64_t empty[kStages];
};

// C[64, 64] = A[64, 384] B[64, 384]^T. Warpgroup 0 multiplies, warp 4 copies.
inline RUNGS_KERNEL(160) traced_pipeline(RUNGS_GRID_CONSTANT const gpu::TensorMap map_a,
                                         RUNGS_GRID_CONSTANT const gpu::TensorMap map_b, float* c) {
  RUNGS_DYNAMIC_SHARED(Stages, s);
  const unsigned t = threadIdx.x;
  if (t == 0) {
    for (int i = 0; i < kStages; i++) {
      ptx::mbarrier_init(&s.full[i], 1);
      ptx::mbarrier_init(&s.empty[i], 4);
    }
    ptx::fence_mbarrier_init();
  }
  ptx::syncthreads();
  if (t >= 128) {
    if (ptx::elect_one()) {
      for (int i = 0; i < kSteps; i++) {
        const int stage = i % kStages;
        const auto parity = static_cast<std::uint32_t>(i / kStages & 1);
        ptx::mbarrier_wait(&s.empty[stage], parity ^ 1);
        ptx::mbarrier_arrive_expect_tx(&s.full[stage], 2 * kTile * kDepth * 2);
        ptx::tma_load_2d(s.a[stage], &map_a, &s.full[stage], i * kDepth, 0);
        ptx::tma_load_2d(s.b[stage], &map_b, &s.full[stage], i * kDepth, 0);
      }
    }
    ptx::syncwarp();
    return;
  }
  float d[32];
  for (float& value : d) value = 0;
  for (int i = 0; i < kSteps; i++) {
    const int stage = i % kStages;
    ptx::mbarrier_wait(&s.full[stage], static_cast<std::uint32_t>(i / kStages & 1));
    const auto swizzle = gpu::Swizzle::k128B;
    const std::uint64_t a = ptx::wgmma_descriptor(ptx::shared_u32(s.a[stage]), 16, 1024, swizzle);
    const std::uint64_t b = ptx::wgmma_descriptor(ptx::shared_u32(s.b[stage]), 16, 1024, swizzle);
    ptx::wgmma_fence();
    for (unsigned k = 0; k < kDepth / 16; k++) ptx::wgmma_bf16<64>(d, a + 2 * k, b + 2 * k, true);
    ptx::wgmma_commit();
    ptx::wgmma_wait<0>(d);
    if (t % 32 == 0) ptx::mbarrier_arrive(&s.empty[stage]);
  }
  for (unsigned j = 0; j < 32; j++) {
    const unsigned row = 16 * (t / 32) + t % 32 / 4 + 8 * (j / 2 % 2),
                   column = 8 * (j / 4) + 2 * (t % 4) + j % 2;
    c[row * 64 + column] = d[j];
  }
}

inline RUNGS_KERNEL(128) one_barrier() { ptx::syncthreads(); }

/// Warp 1 waits for an arrival that never comes.
inline RUNGS_KERNEL(64) never_arrives() {
  RUNGS_SHARED(std::uint64_t, barrier);
  if (threadIdx.x == 0) ptx::mbarrier_init(&barrier, 1);
  ptx::syncthreads();
  if (threadIdx.x >= 32) ptx::mbarrier_wait(&barrier, 0);
}

/// Block 1 of the cluster arrives at block 0's barrier.
inline RUNGS_KERNEL(32) hand_over() {
  RUNGS_SHARED(std::uint64_t, barrier);
  const std::uint32_t rank = ptx::cluster_rank();
  if (threadIdx.x == 0) ptx::mbarrier_init(&barrier, 1);
  ptx::cluster_arrive();
  ptx::cluster_wait();
  if (rank == 0) ptx::mbarrier_wait(&barrier, 0);
  if (rank == 1) {
    ptx::syncwarp();
    ptx::syncwarp();
    if (threadIdx.x == 0)
      ptx::mbarrier_arrive_cluster(ptx::map_shared(ptx::shared_u32(&barrier), 0));
    ptx::syncwarp();
  }
  ptx::cluster_arrive();
  ptx::cluster_wait();
}

struct PipelineRun {
  std::string report;
  bool right = false;
  std::optional<trace::Trace> trace;
};

inline PipelineRun trace_pipeline(const Options& options, const trace::Request& wanted = {}) {
  constexpr int kWidth = kDepth * kSteps;
  const ScopedOptions scope(options);
  Executor executor({4, 1});
  struct Free {
    void operator()(bf16* p) const { std::free(p); }
  };
  const std::size_t count = kTile * kWidth;
  const std::unique_ptr<bf16, Free> a(static_cast<bf16*>(std::aligned_alloc(256, count * 2)));
  const std::unique_ptr<bf16, Free> b(static_cast<bf16*>(std::aligned_alloc(256, count * 2)));
  for (std::size_t i = 0; i < count; i++) {
    a.get()[i] = to_bf16(static_cast<float>(static_cast<int>(i * 37 % 17) - 8));
    b.get()[i] = to_bf16(static_cast<float>(static_cast<int>(i * 53 % 19) - 9));
  }
  std::vector<float> c(64 * 64, std::numeric_limits<float>::quiet_NaN());
  const auto map = [](const bf16* data) {
    return gpu::make_tensor_map_2d(data, DType::kBf16, kTile, kWidth, kWidth * 2, kTile, kDepth,
                                   gpu::Swizzle::k128B);
  };
  PipelineRun result;
  trace::Session session(wanted);
  result.report = run(executor, {.grid = {1}, .block = {160}, .shared_bytes = sizeof(Stages)},
                      &traced_pipeline, map(a.get()), map(b.get()), c.data());
  result.trace = session.take();
  result.right = result.report.empty();
  for (int m = 0; m < 64 && result.right; m++) {
    for (int n = 0; n < 64; n++) {
      double sum = 0;
      for (int k = 0; k < kWidth; k++)
        sum +=
            double{to_float(a.get()[m * kWidth + k])} * double{to_float(b.get()[n * kWidth + k])};
      if (!(double{c[static_cast<std::size_t>(m * 64 + n)]} == sum)) result.right = false;
    }
  }
  return result;
}

}  // namespace rungs::emulator::testing
