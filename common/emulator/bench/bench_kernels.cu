// Kernels in the styles that the emulator meets: a plain thread an element, barriers, a shared tile
// between barriers, and a warp-specialised tensor-core pipeline.

#include "bench_kernels.hpp"

#include <rungs/gpu/kernel.hpp>
#include <rungs/ptx/fence.hpp>
#include <rungs/ptx/mbarrier.hpp>
#include <rungs/ptx/sync.hpp>
#include <rungs/ptx/tma.hpp>
#include <rungs/ptx/wgmma.hpp>

namespace rungs::emulator::bench {

RUNGS_KERNEL(256) axpy_kernel(float a, const float* x, float* y, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) y[i] = a * x[i] + y[i];
}

RUNGS_KERNEL(1024) barriers_kernel(int rounds) {
  for (int i = 0; i < rounds; i++) ptx::syncthreads();
}

RUNGS_KERNEL(1024) shuffles_kernel(int rounds, std::uint32_t* sums) {
  std::uint32_t value = threadIdx.x;
  for (int i = 0; i < rounds; i++) value += ptx::shfl_xor(~0u, value, 1);
  sums[threadIdx.x] = value;
}

RUNGS_KERNEL(1024) meet_once_kernel(std::uint32_t* met) {
  ptx::syncthreads();
  if (threadIdx.x == 0) met[blockIdx.x]++;
}

namespace {

constexpr int kTile = 16;

struct Tiles {
  float a[kTile][kTile];
  float b[kTile][kTile];
};

}  // namespace

RUNGS_KERNEL(256) tiled_gemm_kernel(const float* a, const float* b, float* c, int n) {
  RUNGS_SHARED(Tiles, tile);
  const int x = static_cast<int>(threadIdx.x);
  const int y = static_cast<int>(threadIdx.y);
  const int row = static_cast<int>(blockIdx.y) * kTile + y;
  const int column = static_cast<int>(blockIdx.x) * kTile + x;
  float sum = 0;
  for (int k = 0; k < n; k += kTile) {
    tile.a[y][x] = a[row * n + k + x];
    tile.b[y][x] = b[(k + y) * n + column];
    ptx::syncthreads();
    for (int i = 0; i < kTile; i++) sum += tile.a[y][i] * tile.b[i][x];
    ptx::syncthreads();
  }
  c[row * n + column] = sum;
}

namespace {

constexpr int kStages = 4;

struct alignas(1024) Ring {
  bf16 a[kStages][kGemmRows * kGemmDepth];
  bf16 b[kStages][kGemmCols * kGemmDepth];
  std::uint64_t full[kStages];   // 1 arrival and the tiles' bytes
  std::uint64_t empty[kStages];  // 1 arrival a consumer warp
};

}  // namespace

std::uint32_t wgmma_gemm_shared_bytes() { return sizeof(Ring); }

RUNGS_KERNEL(kGemmThreads)
wgmma_gemm_kernel(RUNGS_GRID_CONSTANT const gpu::TensorMap map_a,
                  RUNGS_GRID_CONSTANT const gpu::TensorMap map_b, float* c, int n, int k) {
  RUNGS_DYNAMIC_SHARED(Ring, ring);
  const int thread = static_cast<int>(threadIdx.x);
  const int first_row = static_cast<int>(blockIdx.y) * kGemmRows;
  const int first_column = static_cast<int>(blockIdx.x) * kGemmCols;
  const int steps = k / kGemmDepth;
  if (thread == 0) {
    for (int stage = 0; stage < kStages; stage++) {
      ptx::mbarrier_init(&ring.full[stage], 1);
      ptx::mbarrier_init(&ring.empty[stage], 8);
    }
    ptx::fence_mbarrier_init();
    ptx::fence_proxy_async();
  }
  ptx::syncthreads();

  if (thread < 128) {
    if (thread != 0) return;
    for (int step = 0; step < steps; step++) {
      const int stage = step % kStages;
      const auto parity = static_cast<std::uint32_t>(step / kStages % 2);
      ptx::mbarrier_wait(&ring.empty[stage], parity ^ 1);
      ptx::mbarrier_arrive_expect_tx(&ring.full[stage], sizeof(ring.a[0]) + sizeof(ring.b[0]));
      const int depth = step * kGemmDepth;
      ptx::tma_load_2d(ring.a[stage], &map_a, &ring.full[stage], depth, first_row);
      ptx::tma_load_2d(ring.b[stage], &map_b, &ring.full[stage], depth, first_column);
    }
    return;
  }

  const int panel = thread / 128 - 1;
  float d[kGemmCols / 2];
  for (int step = 0; step < steps; step++) {
    const int stage = step % kStages;
    ptx::mbarrier_wait(&ring.full[stage], static_cast<std::uint32_t>(step / kStages % 2));
    const std::uint32_t a = ptx::shared_u32(ring.a[stage] + panel * 64 * kGemmDepth);
    const std::uint32_t b = ptx::shared_u32(ring.b[stage]);
    ptx::wgmma_fence();
    for (std::uint32_t i = 0; i < kGemmDepth / 16; i++) {
      ptx::wgmma_bf16<kGemmCols, false, false>(
          d, ptx::wgmma_descriptor(a + 32 * i, 16, 1024, gpu::Swizzle::k128B),
          ptx::wgmma_descriptor(b + 32 * i, 16, 1024, gpu::Swizzle::k128B), step + i > 0);
    }
    ptx::wgmma_commit();
    ptx::wgmma_wait<0>(d);
    if (thread % 32 == 0) ptx::mbarrier_arrive(&ring.empty[stage]);
  }
  // Accumulator j: see wgmma.mma_async's register fragment of D.
  const int row = first_row + 64 * panel + thread % 128 / 32 * 16 + thread % 32 / 4;
  const int column = first_column + thread % 4 * 2;
  for (int j = 0; j < kGemmCols / 2; j++)
    c[(row + j / 2 % 2 * 8) * n + column + j / 4 * 8 + j % 2] = d[j];
}

}  // namespace rungs::emulator::bench
