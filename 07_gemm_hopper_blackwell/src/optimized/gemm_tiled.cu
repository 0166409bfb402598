/// Rung 1: shared-memory tiles and register tiles, on the CUDA cores.
/// New: a block of 64 threads computes a 64×64 tile of C. It stages 64×32 elements of A and of B in
///   shared memory, so that each is fetched from device memory once a tile instead of once an
///   element, and every thread keeps an 8×8 piece of C in registers, so that 16 shared-memory reads
///   feed 64 multiply-adds.
/// Layout: any strides. In shared memory both tiles lie as float [k][row]. A k-major operand is
///   transposed on the way in; rows padded from 64 to 68 make those writes 4-way bank conflicts
///   instead of 32-way and keep 16-byte reads aligned. A thread's 8 rows (columns) are two runs of
///   four, 32 apart: the 8 threads of a row read 128 consecutive bytes, and write whole sectors of
///   C.
/// Cost: 2·M·N·K FLOPs; 2·M·N·K/64 elements fetched; 2 barriers per 32 of K.
/// Source: CUDA C++ Programming Guide, "Shared Memory"; register tiling as in every SGEMM since
///   Volkov and Demmel, "Benchmarking GPUs to tune dense linear algebra", SC08.

#include <rungs/gpu/kernel.hpp>
#include <rungs/gpu/launch.hpp>
#include <rungs/ptx/sync.hpp>

#include "../detail/bounds_device.hpp"
#include "../detail/problem.hpp"

#include <algorithm>
#include <cstdint>

namespace rungs::gemm::detail {
namespace {

constexpr int kTile = 64;     // rows and columns of C a block
constexpr int kDepth = 32;    // of K a step
constexpr int kThreads = 64;  // 8×8 threads of 8×8 elements
constexpr int kPitch = kTile + 4;
constexpr int kBlocksPerSm =
    8;  // resident blocks on a GPU; more tiles than that are walked in turn
constexpr int kElementsPerThread = kTile * kDepth / kThreads;

/// 64 rows of an operand, transposed: line k holds element k of every row.
struct alignas(16) TiledStage {
  float a[kDepth * kPitch];
  float b[kDepth * kPitch];
};

/// All threads of the block. Copies rows [first, first + 64) × depth [depth, depth + 32) of an
/// operand into `stage`; what lies outside [0, extent) × [0, live_depth) becomes zero. Neighbouring
/// threads take neighbours in memory, whichever way the operand lies.
RUNGS_DEVICE void load_tile(float* stage, const Operand& operand, int first, int extent, int depth,
                            int live_depth) {
  const int thread = static_cast<int>(threadIdx.x);
  const bool k_major = operand.major == Major::kDepth;
  for (int i = 0; i < kElementsPerThread; ++i) {
    const int flat = i * kThreads + thread;
    const int row = k_major ? flat / kDepth : flat % kTile;
    const int k = k_major ? flat % kDepth : flat / kTile;
    float value = 0.0f;
    if (first + row < extent && depth + k < live_depth) {
      value = to_float(
          operand.data[(first + row) * operand.extent_stride + (depth + k) * operand.depth_stride]);
    }
    stage[k * kPitch + row] = value;
  }
}

/// The j-th of a thread's eight rows (or columns) inside the tile.
RUNGS_DEVICE int tile_index(int lane, int j) { return lane * 4 + (j & 3) + (j >> 2) * 32; }

RUNGS_KERNEL(kThreads, kBlocksPerSm) gemm_tiled_kernel(const Problem problem) {
  RUNGS_SHARED(TiledStage, stage);
  const Bounds bounds = live_bounds(problem);
  const int thread_col = static_cast<int>(threadIdx.x) % 8;
  const int thread_row = static_cast<int>(threadIdx.x) / 8;
  const int tiles_n = (problem.n + kTile - 1) / kTile;
  const int tiles = (bounds.rows + kTile - 1) / kTile * tiles_n;

  // 1. The block walks tiles of C, neighbours in N one after the other.
  for (int tile = static_cast<int>(blockIdx.x); tile < tiles; tile += static_cast<int>(gridDim.x)) {
    const int first_row = tile / tiles_n * kTile;
    const int first_col = tile % tiles_n * kTile;
    float sum[8][8] = {};
    for (int depth = 0; depth < bounds.depth; depth += kDepth) {
      // 2. Everyone copies a share of both tiles, then waits for the others' shares.
      load_tile(stage.a, problem.a, first_row, bounds.rows, depth, bounds.depth);
      load_tile(stage.b, problem.b, first_col, problem.n, depth, bounds.depth);
      ptx::syncthreads();
      // 3. An outer product of 8 by 8 per k, from registers.
      for (int k = 0; k < kDepth; ++k) {
        const float* const a_line = stage.a + k * kPitch + thread_row * 4;
        const float* const b_line = stage.b + k * kPitch + thread_col * 4;
        float a[8];
        float b[8];
#pragma unroll
        for (int j = 0; j < 8; ++j) {
          a[j] = a_line[(j & 3) + (j >> 2) * 32];
          b[j] = b_line[(j & 3) + (j >> 2) * 32];
        }
#pragma unroll
        for (int i = 0; i < 8; ++i) {
#pragma unroll
          for (int j = 0; j < 8; ++j) sum[i][j] += a[i] * b[j];
        }
      }
      // 4. Nobody overwrites the tiles while someone still reads them.
      ptx::syncthreads();
    }
    // 5. Store what lies inside C.
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int row = first_row + tile_index(thread_row, i);
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const int col = first_col + tile_index(thread_col, j);
        if (row < bounds.rows && col < problem.n) store(problem.c, row, col, sum[i][j]);
      }
    }
  }
}

class Tiled final : public ladder::Prepared {
 public:
  Tiled(const Problem& problem, unsigned blocks) : problem_(problem), blocks_(blocks) {}
  void operator()(gpu::StreamHandle stream) override {
    if (blocks_ == 0) return;
    gpu::launch("gemm_tiled", {.grid = {blocks_}, .block = {kThreads}}, stream, &gemm_tiled_kernel,
                problem_);
  }

 private:
  Problem problem_;
  unsigned blocks_;
};

}  // namespace

std::unique_ptr<ladder::Prepared> prepare_tiled(const Args& args, const ladder::Machine& machine) {
  const Problem problem = checked(args);
  const auto tiles_of = [](std::int64_t extent) { return (extent + kTile - 1) / kTile; };
  const std::int64_t tiles = tiles_of(problem.m) * tiles_of(problem.n);
  const std::int64_t most =
      static_cast<std::int64_t>(machine.device->info().sm_count) * kBlocksPerSm;
  return std::make_unique<Tiled>(problem, static_cast<unsigned>(std::min(tiles, most)));
}

}  // namespace rungs::gemm::detail
