#pragma once
/// @file tensor_map.hpp
/// What gpu::TensorMap::opaque holds in an emulated build.

#include <rungs/config.hpp>
#include <rungs/gpu/tensor_map.hpp>

#include <cstdint>

namespace rungs::emulator {

/// The short form of a two-dimensional map; out-of-bounds elements read as zero.
struct TensorMapFields {
  const void* base = nullptr;
  std::uint64_t rows = 0;
  std::uint64_t cols = 0;  ///< the contiguous dimension, elements
  std::uint64_t pitch_bytes = 0;
  std::uint32_t box_rows = 0;
  std::uint32_t box_cols = 0;
  std::uint32_t element_bytes = 0;  ///< 1, 2, 4 or 8
  gpu::Swizzle swizzle = gpu::Swizzle::kNone;

  bool operator==(const TensorMapFields&) const = default;
};

/// Bytes after which the swizzle pattern repeats inside a tile row: 16 (none), 32, 64 or 128.
std::uint32_t swizzle_span_bytes(gpu::Swizzle swizzle);

std::uint32_t element_size_bytes(gpu::TensorElement element);

/// Packs a description that gpu::make_tensor_map() has checked.
/// @throws Error kUnsupported for an element type that is not modelled
gpu::TensorMap encode_tile_map(const gpu::TensorMapSpec& spec);

/// Unpacks; false if `map` does not come from here.
bool decode_tile_map(const gpu::TensorMap& map, gpu::TensorMapSpec* spec);

/// Checks the rules of cuTensorMapEncodeTiled and packs the fields.
/// @throws Error kInvalidArgument naming the broken rule and the value
gpu::TensorMap encode_tensor_map(const TensorMapFields& fields);

/// Unpacks a two-dimensional map; false if `map` is none.
bool decode_tensor_map(const gpu::TensorMap& map, TensorMapFields* fields);

}  // namespace rungs::emulator
