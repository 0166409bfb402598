#pragma once
/// @file tensor_map.hpp
/// The descriptor of a tensor that TMA copies tiles of. Opaque, 128 bytes, 64-byte aligned, as
/// CUtensorMap.

#include <rungs/config.hpp>
#include <rungs/core/dtype.hpp>

#include <array>
#include <cstdint>

namespace rungs::gpu {

/// Pass it to a kernel by value as `RUNGS_GRID_CONSTANT const TensorMap`.
struct alignas(64) TensorMap {
  std::uint64_t opaque[16];
};

/// How TMA permutes 16-byte chunks inside a shared-memory tile (PTX ISA, "Swizzling modes").
enum class Swizzle { kNone, k32B, k64B, k128B };

/// What an element of a tensor is to TMA (CUtensorMapDataType). Copies move bytes: the type decides
/// their size, the fill outside the tensor, and what a reduction computes.
enum class TensorElement : std::uint8_t {
  kU8,  ///< also for fp8 and int8
  kU16,
  kU32,
  kI32,
  kU64,
  kI64,
  kF16,
  kF32,
  kF64,
  kBf16,
  kF32Ftz,   ///< f32 whose reductions flush subnormals. CUDA builds only
  kTf32,     ///< f32 that a load rounds to tf32. CUDA builds only
  kTf32Ftz,  ///< CUDA builds only
};
/// The element type that copies and reduces a `dtype`; fp8 and int8 travel as kU8.
/// @throws Error kInvalidArgument for a value outside the enumeration
TensorElement tensor_element(DType dtype);

/// What cp.reduce.async.bulk does to each element of its destination (PTX ISA,
/// "cp.reduce.async.bulk"). kInc: old >= x ? 0 : old + 1; kDec: old == 0 || old > x ? x : old - 1.
enum class BulkReduction : std::uint8_t { kAdd, kMin, kMax, kInc, kDec, kAnd, kOr, kXor };

/// What a load puts in place of elements outside the tensor.
enum class OutOfBounds : std::uint8_t {
  kZero,
  kNan,  ///< a special NaN; floating-point elements only
};

/// Bytes that a miss in L2 fetches.
enum class L2Promotion : std::uint8_t { kNone, k64B, k128B, k256B };

/// A tensor of 1 to 5 dimensions and the box that one copy moves. Dimension 0 is the contiguous
/// one, as in CUtensorMap and in the coordinates of the copies (PTX ISA, "Tensors").
struct TensorMapSpec {
  static constexpr int kMaxRank = 5;

  const void* base = nullptr;  ///< device pointer, 16-byte aligned
  TensorElement element = TensorElement::kBf16;
  int rank = 2;
  std::array<std::uint64_t, kMaxRank> sizes{};  ///< elements of each dimension, 1 to 2^32
  /// [d - 1]: bytes from one element of dimension d to the next, a multiple of 16 below 2^40. A
  /// stride of 0 repeats, a small one overlaps.
  std::array<std::uint64_t, kMaxRank - 1> strides_bytes{};
  std::array<std::uint32_t, kMaxRank> box{};  ///< extent of the box, 1 to 256 elements each
  /// A load takes every n-th element of the box in dimension d, 1 to 8: ceil(box / n) arrive.
  /// Dimension 0: 1.
  std::array<std::uint32_t, kMaxRank> element_strides{1, 1, 1, 1, 1};
  Swizzle swizzle = Swizzle::kNone;
  OutOfBounds fill = OutOfBounds::kZero;
  L2Promotion promotion = L2Promotion::k128B;
};

/// The map of `spec`, without interleave.
/// @note dimension 0 of the box is a multiple of 16 bytes, and with a swizzle at most its span
/// @throws Error kInvalidArgument naming the rule that is broken and the value (both back ends with
///         the same words); kUnsupported for an element type the emulator does not model
TensorMap make_tensor_map(const TensorMapSpec& spec);

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
