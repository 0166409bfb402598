#pragma once
/// @file tiles_device.hpp
/// The pieces the tiled kernels are made of: own rows, staged tiles, and the two products. For
/// kernel sources only.
///
/// One layout for all of them. A block has 64 threads and each thread *owns* one row: a query row
/// in the forward and dQ kernels, a key row in the dK/dV kernel. The rows of the other side pass by
/// in tiles that the whole block stages in shared memory as fp32, in one or both of two orders:
///
///     columns[d][n]   for  score[n]  += own[d] * columns[d][n]      (n runs over the tile's rows)
///     rows[n][d]      for  result[d] += weight[n] * rows[n][d]
///
/// In both inner loops the thread walks consecutive addresses that are the same for all threads: on
/// a GPU a broadcast 16-byte load for every four multiply-adds, on the emulator a loop the host
/// compiler vectorises. No sum is spread over threads, so nothing is shuffled and every sum has one
/// fixed order.

#include "../detail/rows_device.hpp"

#include <rungs/ptx/sync.hpp>

#include <cmath>
#include <cstdint>

namespace rungs::attention::detail {

/// Threads of a block, and the rows they own.
inline constexpr int kThreads = 64;
/// Blocks that must fit an SM at once: all 65,536 registers for 256 threads, so that nothing
/// spills. (Left alone, ptxas aims at more blocks and spills a few words.)
inline constexpr int kBlocksAnSm = 4;
/// Rows of the other side a thread works on at once; their scores stay in registers.
inline constexpr int kStep = 16;

inline constexpr float kLog2E = 1.4426950408889634f;
inline constexpr float kLn2 = 0.6931471805599453f;

/// Every thread's own row, two elements a word: thread t reads and writes column t only (no barrier
/// needed, and consecutive threads hit consecutive banks).
template <int D>
using OwnRows = std::uint32_t[D / 2][kThreads];

/// Copies row[0..D) to the calling thread's column; a null row becomes zeros.
template <int D>
RUNGS_DEVICE void load_own(OwnRows<D>& own, const bf16* row, bool vectors) {
  for (int d = 0; d < D; d += 8) {
    const Eight eight = row == nullptr ? Eight{} : load_eight(row + d, vectors);
    for (int i = 0; i < 4; ++i)
      own[d / 2 + i][threadIdx.x] = pack(eight.at[2 * i], eight.at[2 * i + 1]);
  }
}

/// The whole block stages rows [first, first + N) of `base`, transposed; rows from `end` on become
/// zeros. Consecutive threads take consecutive rows: their stores fall into consecutive banks.
template <int D, int N>
RUNGS_DEVICE void stage_columns(float (&columns)[D][N], const bf16* base, std::int64_t row_stride,
                                int first, int end, bool vectors) {
  for (int chunk = static_cast<int>(threadIdx.x); chunk < N * D / 8; chunk += kThreads) {
    const int n = chunk % N;
    const int d = chunk / N * 8;
    const Eight eight =
        first + n < end ? load_eight(base + (first + n) * row_stride + d, vectors) : Eight{};
    RUNGS_UNROLL
    for (int i = 0; i < 8; ++i) columns[d + i][n] = to_float(eight.at[i]);
  }
}

/// The same rows in their own order. Consecutive threads take consecutive pieces of a row.
template <int D, int N>
RUNGS_DEVICE void stage_rows(float (&rows)[N][D], const bf16* base, std::int64_t row_stride,
                             int first, int end, bool vectors) {
  for (int chunk = static_cast<int>(threadIdx.x); chunk < N * D / 8; chunk += kThreads) {
    const int n = chunk / (D / 8);
    const int d = chunk % (D / 8) * 8;
    const Eight eight =
        first + n < end ? load_eight(base + (first + n) * row_stride + d, vectors) : Eight{};
    RUNGS_UNROLL
    for (int i = 0; i < 8; ++i) rows[n][d + i] = to_float(eight.at[i]);
  }
}

/// scores[n] = own row · staged row (first + n), for kStep rows.
template <int D, int N>
RUNGS_DEVICE void multiply_own(float (&scores)[kStep], const OwnRows<D>& own,
                               const float (&columns)[D][N], int first) {
  RUNGS_UNROLL
  for (int n = 0; n < kStep; ++n) scores[n] = 0.0f;
  for (int d = 0; d < D; d += 2) {
    const std::uint32_t pair = own[d / 2][threadIdx.x];
    const float x = first_of(pair);
    const float y = second_of(pair);
    RUNGS_UNROLL
    for (int n = 0; n < kStep; ++n) scores[n] += x * columns[d][first + n];
    RUNGS_UNROLL
    for (int n = 0; n < kStep; ++n) scores[n] += y * columns[d + 1][first + n];
  }
}

/// sums[d] += weights[n] * staged row (first + n)[d], over n in [begin, end) within [0, kStep).
/// Rows outside are not touched: a NaN there stays there.
template <int D, int N>
RUNGS_DEVICE void accumulate(float (&sums)[D], const float (&weights)[kStep],
                             const float (&rows)[N][D], int first, int begin, int end) {
  RUNGS_UNROLL
  for (int n = 0; n < kStep; ++n) {
    if (n >= begin && n < end) {
      RUNGS_UNROLL
      for (int d = 0; d < D; ++d) sums[d] += weights[n] * rows[first + n][d];
    }
  }
}

/// Rounds a finished row and writes it.
template <int D>
RUNGS_DEVICE void store_row(bf16* row, const float (&values)[D], float factor, bool vectors) {
  RUNGS_UNROLL
  for (int d = 0; d < D; d += 8) {
    float eight[8];
    RUNGS_UNROLL
    for (int i = 0; i < 8; ++i) eight[i] = values[d + i] * factor;
    store_eight(row + d, eight, vectors);
  }
}

/// Which rows a block owns: blocks of one head are neighbours, so its K and V stay in the L2 cache.
struct Work {
  int batch, head, tile;
};

/// Block `index` of a grid of `tiles` blocks for each head of each batch.
RUNGS_DEVICE Work work_of(unsigned index, int tiles, const Shape& shape) {
  const int head_of_all = static_cast<int>(index) / tiles;
  return {head_of_all / shape.heads, head_of_all % shape.heads, static_cast<int>(index) % tiles};
}

}  // namespace rungs::attention::detail
