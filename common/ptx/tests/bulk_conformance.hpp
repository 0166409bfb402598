#pragma once
/// @file bulk_conformance.hpp
/// The conformance suite's kernels of bulk copies and of TMA at any rank.

#include <rungs/gpu/launch.hpp>
#include <rungs/gpu/tensor_map.hpp>

#include <cstdint>

namespace rungs::ptx::test {

using gpu::StreamHandle;

// tma_kernels_sm90.cu
constexpr unsigned kMaxBoxBytes = 16384;
struct Coordinates {
  int at[5];
};
enum class Hint : int { kNone, kPolicy };
/// Copies one tile with TMA and stores the shared-memory image.
/// @param shift bytes behind a 1024-byte boundary at which the tile lies, a multiple of 128
void launch_load_tile(StreamHandle stream, int rank, Hint hint, const gpu::TensorMap& map,
                      const Coordinates& at, std::uint32_t tile_bytes, std::uint32_t shift,
                      std::uint8_t* out);
/// Block 0 of two loads the tile at `first` into both, block 1 the one at `second` with a policy.
/// out [2][2][tile_bytes]. @param rank 1, 3 or 5
void launch_multicast_tiles(StreamHandle stream, int rank, const gpu::TensorMap& map,
                            const Coordinates& first, const Coordinates& second,
                            std::uint32_t tile_bytes, std::uint8_t* out);
/// Block 1 of two loads the tile into block 0, which stores the image. Rank 3.
void launch_cross_load_tile(StreamHandle stream, const gpu::TensorMap& map, const Coordinates& at,
                            std::uint32_t tile_bytes, std::uint8_t* out);
/// Stores a tile whose shared-memory image is given.
void launch_store_tile(StreamHandle stream, int rank, Hint hint, const gpu::TensorMap& map,
                       const Coordinates& at, std::uint32_t tile_bytes, std::uint32_t shift,
                       const std::uint8_t* image);
/// Reduces such a tile into the tensor.
void launch_reduce_tile(StreamHandle stream, int rank, gpu::BulkReduction reduction,
                        const gpu::TensorMap& map, const Coordinates& at, std::uint32_t tile_bytes,
                        const std::uint8_t* image);
/// kAdd with a cache policy, rank 3.
void launch_add_tile(StreamHandle stream, const gpu::TensorMap& map, const Coordinates& at,
                     std::uint32_t tile_bytes, const std::uint8_t* image);

// bulk_kernels_sm90.cu
constexpr unsigned kMaxBulkBytes = 16384;
/// Global to shared to global memory.
void launch_round_trip(StreamHandle stream, Hint hint, const std::uint8_t* in, std::uint8_t* out,
                       std::uint32_t size_bytes);
/// out[i] = i * 2654435761 for `chunks` chunks of 256 words, written through two buffers.
void launch_store_pipeline(StreamHandle stream, std::uint32_t* out, int chunks);
/// Each of two blocks loads half of `in` into both. out [2][size_bytes]
void launch_bulk_multicast(StreamHandle stream, const std::uint8_t* in, std::uint8_t* out,
                           std::uint32_t size_bytes);
/// Each of two blocks sends `in` + rank * size_bytes to the other. out [2][size_bytes]
void launch_exchange(StreamHandle stream, const std::uint8_t* in, std::uint8_t* out,
                     std::uint32_t size_bytes);
/// The same with each block loading the other's part from global memory.
void launch_cross_load(StreamHandle stream, const std::uint8_t* in, std::uint8_t* out,
                       std::uint32_t size_bytes);
/// data = data op in. False if the instruction does not exist.
bool launch_bulk_reduce(StreamHandle stream, gpu::BulkReduction reduction, gpu::TensorElement type,
                        std::uint8_t* data, const std::uint8_t* in, std::uint32_t size_bytes);
/// kAdd of u32 with a cache policy.
void launch_bulk_add(StreamHandle stream, std::uint8_t* data, const std::uint8_t* in,
                     std::uint32_t size_bytes);
/// launch_bulk_reduce() in the shared memory of block 1, by block 0; `data` before and after. False
/// if the instruction does not exist.
bool launch_bulk_reduce_cluster(StreamHandle stream, gpu::BulkReduction reduction,
                                gpu::TensorElement type, std::uint8_t* data, const std::uint8_t* in,
                                std::uint32_t size_bytes);

// bulk_pipeline_kernels_sm90.cu
constexpr unsigned kRingTileBytes = 1024;
/// out = 2 in + 1 for tiles {0, 0, i} of two maps of u32, box 32 x 8 x 1, i below `tiles`.
void launch_ring(StreamHandle stream, const gpu::TensorMap& in, const gpu::TensorMap& out,
                 int tiles, unsigned blocks);

}  // namespace rungs::ptx::test
