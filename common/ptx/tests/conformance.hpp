#pragma once
/// @file conformance.hpp
/// The conformance suite's kernels, each behind a function that launches it. The same sources run
/// in the emulator and on a GPU; every output is compared with a host oracle.

#include <rungs/core/dtype.hpp>
#include <rungs/gpu/launch.hpp>
#include <rungs/gpu/tensor_map.hpp>

#include <cstdint>

namespace rungs::ptx {
struct U32x4;
}

namespace rungs::ptx::test {

using gpu::StreamHandle;

// sync_kernels.cu. `out` is [rows][threads] unless said otherwise.
constexpr unsigned kCollectiveRows = 9;
void launch_collectives(StreamHandle stream, std::uint32_t* out /* [kCollectiveRows][128] */);
void launch_wide_shuffle(StreamHandle stream, std::uint64_t* wide /* [64] */,
                         float* sums /* [64] */);
void launch_neighbours(StreamHandle stream, std::uint32_t* out, unsigned threads, int rounds);
void launch_named_barriers(StreamHandle stream, std::uint32_t* out /* [4][64] */);
void launch_phases(StreamHandle stream, std::uint32_t* out /* [6][32] */);
void launch_cluster_ring(StreamHandle stream, std::uint32_t* out /* [blocks] */, unsigned blocks);
void launch_clock(StreamHandle stream, std::uint64_t* out /* [2] */);
void launch_register_exchange(StreamHandle stream, std::uint32_t* out /* [384] */);

// memory_kernels.cu
void launch_loads(StreamHandle stream, const std::uint32_t* u32, const std::int32_t* i32,
                  const std::uint64_t* u64, std::uint64_t* out /* [12] */);
void launch_stores(StreamHandle stream, std::uint32_t* u32 /* [4] */, std::int32_t* i32 /* [4] */,
                   std::uint64_t* u64 /* [4] */);
/// Block 0 writes `count` words and raises a flag; block 1 waits for the flag and copies them.
/// `how`: 0 release and acquire at gpu scope, 1 at sys scope, 2 fences and relaxed accesses at gpu
/// scope, 3 at sys scope.
void launch_message(StreamHandle stream, std::uint32_t* data, std::uint32_t* flag,
                    std::uint32_t* out, unsigned count, int how);
/// Block 0 sends `rounds` 16-byte lines a thread, data and flag in each half, to block 1, which
/// adds 1 to `out` for every half whose flag came without its data.
void launch_lines(StreamHandle stream, U32x4* lines /* [64] */, std::uint32_t* echo /* [64] */,
                  std::uint32_t* out /* [1] */, std::uint32_t rounds);
struct AtomicCells {
  std::uint32_t u32[8];
  std::int32_t i32[8];
  std::uint64_t u64[6];
  float f32[4];
};
/// Every thread of 4 blocks of 64 does every operation once.
void launch_atomics(StreamHandle stream, AtomicCells* cells, std::uint32_t* tickets /* [256] */);
/// 8 threads in 8 blocks take a lock 20 times each and add 1 without atomics.
void launch_spin_lock(StreamHandle stream, std::uint32_t* lock, std::uint32_t* counter);
void launch_fma(StreamHandle stream, const float* a, const float* b, const float* c, float* out,
                unsigned count);

// async_kernels_sm90.cu
constexpr unsigned kMaxTileBytes = 32768;
/// Copies one tile with TMA and stores the shared-memory image.
void launch_copy_tile(StreamHandle stream, const gpu::TensorMap& map, int x, int y,
                      std::uint32_t tile_bytes, std::uint8_t* out);
/// Two blocks load half a tile of 2048 bytes each into both. out [2][2048]
void launch_multicast(StreamHandle stream, const gpu::TensorMap& map, std::uint8_t* out);

constexpr unsigned kImageBytes = 40 * 1024;
/// A chain of multiplications of K = 16 on operands whose shared-memory images are given.
struct Multiplication {
  int steps;
  bool accumulate_first;
  std::uint32_t a_leading, a_stride, a_advance;  // bytes
  std::uint32_t b_leading, b_stride, b_advance;
  gpu::Swizzle swizzle_a, swizzle_b;
};
/// d [64][n] is C on entry and D afterwards. @param n 32, 64, 96, 128, 192 or 256
void launch_multiplication(StreamHandle stream, int n, bool transpose_a, bool transpose_b,
                           const Multiplication& m, const std::uint32_t* image_a,
                           const std::uint32_t* image_b, float* d);

}  // namespace rungs::ptx::test
