#pragma once
/// @file warp_conformance.hpp
/// The conformance suite's kernels for instructions of a warp (warp.hpp, convert.hpp, matrix.hpp,
/// mma.hpp) and cp.async (async_copy.hpp), each behind a function that launches it.

#include <rungs/core/dtype.hpp>
#include <rungs/gpu/launch.hpp>

#include <cstdint>

namespace rungs::ptx::test {

using gpu::StreamHandle;

// warp_kernels_sm90.cu: two warps; `in` is [64]
constexpr unsigned kReduxRows = 12;
/// Rows: add, min, max of u32; add, min, max of i32; and, or, xor; then add over the lower 20 lanes
/// and the upper 12, min and max likewise.
void launch_redux(StreamHandle stream, const std::uint32_t* in,
                  std::uint32_t* out /* [kReduxRows][64] */);
constexpr unsigned kMatchRows = 6;
/// Rows: any of u32, any of u64, all of u32 (equal), all of u32 (not), all of u64 (equal), any
/// among the lower 20 lanes and the upper 12.
void launch_match(StreamHandle stream, const std::uint32_t* in,
                  std::uint32_t* out /* [kMatchRows][64] */);
constexpr unsigned kLaneRows = 7;
/// Rows: lane, masks lt, le, eq, ge, gt, active mask.
void launch_lanes(StreamHandle stream, std::uint32_t* out /* [kLaneRows][64] */);
constexpr unsigned kSegmentRows = 12;
/// Rows: idx, xor, down, up in segments of 4, 8, 16. Arguments: 5, 6, 3, 3 (xor also 9 in row 5).
void launch_segments(StreamHandle stream, std::uint32_t* out /* [kSegmentRows][64] */);
constexpr unsigned kIntegerRows = 9;
/// Rows: prmt(a, b, c), dp4a of i32, of u32, funnel shifts left and right of a, b
/// by c; popc, clz, ctz and brev of a.
void launch_integers(StreamHandle stream, const std::uint32_t* a, const std::uint32_t* b,
                     const std::uint32_t* c, std::uint32_t* out /* [kIntegerRows][count] */,
                     unsigned count);
constexpr unsigned kNarrowRows = 5;
/// Rows: bf16x2, f16x2, f8e4m3x2, f8e5m2x2 of (low, high), tf32 of low.
void launch_narrow(StreamHandle stream, const float* low, const float* high,
                   std::uint32_t* out /* [kNarrowRows][count] */, unsigned count);
/// All 65536 pairs of 8-bit floats to pairs of f16: f8e4m3, then f8e5m2.
void launch_widen(StreamHandle stream, std::uint32_t* out /* [2][65536] */);
/// Rows: ex2, rcp, tanh.
void launch_approximate(StreamHandle stream, const float* in, float* out /* [3][count] */,
                        unsigned count);

// matrix_kernels_sm90.cu
constexpr unsigned kMatrixElements = 2048;  // 16-bit elements of shared memory
/// Row r of matrix i begins at this element.
RUNGS_HD constexpr unsigned matrix_row(unsigned i, unsigned r) {
  return (8 * i + r) * 7 % 37 * 40 + 8;
}
/// @param image [kMatrixElements], @param out [count][32]
void launch_load_matrix(StreamHandle stream, int count, bool transpose, const std::uint16_t* image,
                        std::uint32_t* out);
/// @param values [count][32], @param out [kMatrixElements], 0xffff where nothing was stored
void launch_store_matrix(StreamHandle stream, int count, bool transpose,
                         const std::uint32_t* values, std::uint16_t* out);
/// d [16][8] = a [16][16] times b [16][8] (both row-major bf16) by ldmatrix, ldmatrix.trans and
/// mma.
void launch_tile_product(StreamHandle stream, const std::uint16_t* a, const std::uint16_t* b,
                         float* d);

// mma_kernels_sm90.cu
enum class Mma : std::uint8_t {
  kBf16K8,
  kBf16K16,
  kF16K8,
  kF16K16,
  kF16AccumulatorK8,
  kF16AccumulatorK16,
  kTf32K4,
  kTf32K8,
  kE4M3,
  kE4M3E5M2,
  kE5M2E4M3,
  kE5M2,
  kS8K16,
  kS8U8K16,
  kU8S8K16,
  kU8K16,
  kS8K32,
  kS8U8K32,
  kU8S8K32,
  kU8K32,
  kS8K16Saturate,
  kS8U8K16Saturate,
  kU8S8K16Saturate,
  kU8K16Saturate,
  kS8K32Saturate,
  kS8U8K32Saturate,
  kU8S8K32Saturate,
  kU8K32Saturate,
};
/// One multiplication of one warp. All arrays [32 lanes][4 registers], unused ones included.
void launch_mma(StreamHandle stream, Mma which, const std::uint32_t* a, const std::uint32_t* b,
                const std::uint32_t* c, std::uint32_t* d);

// async_copy_kernels_sm90.cu
constexpr unsigned kCopyThreads = 64;
constexpr unsigned kCopyStages = 4;
enum class CopyKind : std::uint8_t {
  kCa4,
  kCa8,
  kCa16,
  kCg16,
  kCa4Fill,
  kCa8Fill,
  kCa16Fill,
  kCg16Fill
};
RUNGS_HD constexpr unsigned copy_bytes(CopyKind kind) {
  return kind == CopyKind::kCa4 || kind == CopyKind::kCa4Fill   ? 4
         : kind == CopyKind::kCa8 || kind == CopyKind::kCa8Fill ? 8
                                                                : 16;
}
/// Bytes that thread t reads in stage s, with zero fill.
RUNGS_HD constexpr unsigned fill_bytes(unsigned t, unsigned s, unsigned bytes) {
  return (t * 3 + s * 5) % (bytes + 1);
}
/// kCopyStages groups of a copy a thread. How they are waited for: 0 wait_group<2>, <1>, <0>; 1
/// wait_all; 2 cp.async.mbarrier.arrive.noinc; 3 cp.async.mbarrier.arrive. Every thread stores what
/// its neighbour has copied. in and out [kCopyStages][kCopyThreads][bytes]
void launch_async_copy(StreamHandle stream, CopyKind kind, int how, const std::uint8_t* in,
                       std::uint8_t* out);

// mma_gemm_kernels_sm90.cu
/// d [m][n] = a [m][k] times the transpose of b [n][k], bf16 and f32, all row-major.
/// @param k a positive multiple of 32
void launch_mma_gemm(StreamHandle stream, const bf16* a, const bf16* b, float* d, unsigned m,
                     unsigned n, unsigned k);

}  // namespace rungs::ptx::test
