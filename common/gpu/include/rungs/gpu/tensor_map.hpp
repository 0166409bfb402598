#pragma once
/// @file tensor_map.hpp
/// The descriptor of a tensor that TMA copies tiles of. Opaque, 128 bytes, 64-byte aligned, as
/// CUtensorMap.

#include <rungs/config.hpp>
#include <rungs/core/dtype.hpp>

#include <cstdint>

namespace rungs::gpu {

/// Pass it to a kernel by value as `RUNGS_GRID_CONSTANT const TensorMap`.
struct alignas(64) TensorMap {
  std::uint64_t opaque[16];
};

/// How TMA permutes 16-byte chunks inside a shared-memory tile (PTX ISA, "Swizzling modes").
enum class Swizzle { kNone, k32B, k64B, k128B };

/// Describes a row-major matrix and the tile ("box") one TMA copy moves; elements outside read as
/// zero.
/// @param base device pointer, 16-byte aligned
/// @param rows,cols extent in elements, at least 1; `cols` is the contiguous dimension
/// @param pitch_bytes bytes between rows, a multiple of 16
/// @param box_rows,box_cols tile, 1 to 256 each; with a swizzle box_cols bytes at most the swizzle
///         span
/// @throws Error kInvalidArgument naming the rule that is broken and the value
TensorMap make_tensor_map_2d(const void* base, DType dtype, std::uint64_t rows, std::uint64_t cols,
                             std::uint64_t pitch_bytes, std::uint32_t box_rows,
                             std::uint32_t box_cols, Swizzle swizzle);

}  // namespace rungs::gpu
