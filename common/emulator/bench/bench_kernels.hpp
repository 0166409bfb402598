#pragma once
/// @file bench_kernels.hpp
/// The kernels whose emulation is timed.

#include <rungs/core/dtype.hpp>
#include <rungs/gpu/tensor_map.hpp>

#include <cstdint>

namespace rungs::emulator::bench {

/// y[i] = a·x[i] + y[i], one element a thread.
void axpy_kernel(float a, const float* x, float* y, int n);

/// `rounds` block-wide barriers and nothing else.
void barriers_kernel(int rounds);

/// sums[thread]: `rounds` times added up with the neighbour's. One block.
void shuffles_kernel(int rounds, std::uint32_t* sums);

/// One barrier: every thread has to have a stack of its own.
void meet_once_kernel(std::uint32_t* met);

/// C = A·B, all [n, n] row-major, one element a thread, tiles of 16 × 16 in shared memory.
/// Blocks of 16 × 16; n is a multiple of 16.
void tiled_gemm_kernel(const float* a, const float* b, float* c, int n);

inline constexpr int kGemmRows = 128;  // of C, a block
inline constexpr int kGemmCols = 256;
inline constexpr int kGemmDepth = 64;
inline constexpr unsigned kGemmThreads = 384;
std::uint32_t wgmma_gemm_shared_bytes();

/// C = A·Bᵀ in float; A [M, K] and B [N, K] in bf16, row-major. One producer warp feeds two
/// warpgroups through a ring of four TMA stages; a block makes kGemmRows × kGemmCols of C.
/// @param map_a,map_b boxes of kGemmRows or kGemmCols rows × kGemmDepth columns, 128-byte swizzle
void wgmma_gemm_kernel(const gpu::TensorMap map_a, const gpu::TensorMap map_b, float* c, int n,
                       int k);

}  // namespace rungs::emulator::bench
