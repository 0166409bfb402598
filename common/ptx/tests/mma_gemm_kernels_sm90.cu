// A matrix multiplication as on Ampere, by the warp-level instructions together: cp.async fills a
// ring of stages, ldmatrix feeds mma.sync, stmatrix and shared memory rearrange the result.
//
// Tile: 64 x 32 of D by four warps, 16 rows each; 32 of K a stage. Layout: rows of 64 bytes, whose
// 16-byte chunk c lies at c ^ (row / 2 % 4), so that the eight rows of an ldmatrix meet no bank
// twice.

#include "warp_conformance.hpp"

#include <rungs/gpu/kernel.hpp>
#include <rungs/ptx/async_copy.hpp>
#include <rungs/ptx/convert.hpp>
#include <rungs/ptx/matrix.hpp>
#include <rungs/ptx/mma.hpp>
#include <rungs/ptx/sync.hpp>

namespace rungs::ptx::test {
namespace {

constexpr unsigned kTileM = 64;
constexpr unsigned kTileN = 32;
constexpr unsigned kTileK = 32;
constexpr unsigned kThreads = 128;
constexpr unsigned kStages = 3;

struct alignas(128) Operands {
  bf16 a[kTileM * kTileK];
  bf16 b[kTileN * kTileK];
};

RUNGS_DEVICE bf16* chunk_of(bf16* tile, unsigned row, unsigned chunk) {
  return tile + row * kTileK + (chunk ^ (row / 2 % 4)) * 8;
}

// Rows past the end of the matrix become zeros.
RUNGS_DEVICE void start_tile(bf16* tile, const bf16* from, unsigned first_row, unsigned rows,
                             unsigned tile_rows, unsigned k, unsigned first_k) {
  for (unsigned i = threadIdx.x; i < tile_rows * 4; i += kThreads) {
    const unsigned row = i / 4, chunk = i % 4;
    const bool inside = first_row + row < rows;
    const bf16* source = inside ? from + (first_row + row) * k + first_k + chunk * 8 : from;
    cp_async_cg_zero_fill(chunk_of(tile, row, chunk), source, inside ? 16 : 0);
  }
}

RUNGS_KERNEL(kThreads)
mma_gemm_kernel(const bf16* a, const bf16* b, float* d, unsigned m, unsigned n, unsigned k) {
  RUNGS_SHARED_ARRAY(Operands, stages, kStages);
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const unsigned first_m = blockIdx.y * kTileM, first_n = blockIdx.x * kTileN;
  const unsigned steps = k / kTileK;
  const auto start = [&](unsigned step) {
    if (step < steps) {
      Operands& stage = stages[step % kStages];
      start_tile(stage.a, a, first_m, m, kTileM, k, step * kTileK);
      start_tile(stage.b, b, first_n, n, kTileN, k, step * kTileK);
    }
    cp_async_commit_group();  // empty at the end, so that the count of groups stays
  };

  // 1. Fill all stages but one.
  for (unsigned step = 0; step < kStages - 1; step++) start(step);
  float sum[4][4] = {};
  for (unsigned step = 0; step < steps; step++) {
    // 2. This step's group has landed, everybody's; and everybody has read the stage before it.
    cp_async_wait_group<kStages - 2>();
    syncthreads();
    // 3. Refill the stage of the step before.
    start(step + kStages - 1);
    // 4. Multiply.
    Operands& stage = stages[step % kStages];
    for (unsigned half = 0; half < kTileK / 16; half++) {
      std::uint32_t fragment_a[4];
      ldmatrix(fragment_a, chunk_of(stage.a, warp * 16 + lane % 16, half * 2 + lane / 16));
      for (unsigned pair = 0; pair < 2; pair++) {
        std::uint32_t fragment_b[4];
        ldmatrix(fragment_b,
                 chunk_of(stage.b, pair * 16 + lane / 16 * 8 + lane % 8, half * 2 + lane / 8 % 2));
        const std::uint32_t left[2] = {fragment_b[0], fragment_b[1]};
        const std::uint32_t right[2] = {fragment_b[2], fragment_b[3]};
        mma_m16n8k16_bf16(sum[2 * pair], fragment_a, left, sum[2 * pair]);
        mma_m16n8k16_bf16(sum[2 * pair + 1], fragment_a, right, sum[2 * pair + 1]);
      }
    }
  }

  // 5. D leaves by way of shared memory, as bf16, so that a thread stores whole rows of 8.
  cp_async_wait_all();
  syncthreads();
  bf16* tile = stages[0].a;
  std::uint32_t packed[4];
  for (unsigned pair = 0; pair < 2; pair++) {
    for (unsigned i = 0; i < 4; i++) {
      const float* two = &sum[2 * pair + i / 2][i % 2 * 2];
      packed[i] = cvt_bf16x2(two[0], two[1]);
    }
    // Matrices (rows 0-7, 8-15) of the left 8 columns, then of the right ones.
    stmatrix(chunk_of(tile, warp * 16 + lane % 16, pair * 2 + lane / 16), packed);
  }
  syncwarp();
  for (unsigned i = lane; i < 16 * 4; i += 32) {
    const unsigned row = warp * 16 + i / 4, chunk = i % 4;
    for (unsigned j = 0; j < 8; j++) {
      const unsigned column = first_n + chunk * 8 + j;
      if (first_m + row < m && column < n)
        d[(first_m + row) * n + column] = to_float(chunk_of(tile, row, chunk)[j]);
    }
  }
}

}  // namespace

void launch_mma_gemm(StreamHandle stream, const bf16* a, const bf16* b, float* d, unsigned m,
                     unsigned n, unsigned k) {
  gpu::launch("mma_gemm",
              {.grid = {(n + kTileN - 1) / kTileN, (m + kTileM - 1) / kTileM}, .block = {kThreads}},
              stream, mma_gemm_kernel, a, b, d, m, n, k);
}

}  // namespace rungs::ptx::test
