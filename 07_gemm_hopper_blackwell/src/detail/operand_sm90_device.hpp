#pragma once
/// @file operand_sm90_device.hpp
/// How a tile of A or B lies in shared memory for TMA and wgmma, for both majors. The chapter
/// derives it ("Swizzle and descriptors"); source: PTX ISA, "Asynchronous Warpgroup Level Matrix
/// Shared Memory Layout", and the canonical layouts in CUTLASS,
/// include/cute/atom/mma_traits_sm90_gmma.hpp.
///
/// A tile is a row of panels of 64 rows × 64 of K, 8 KiB each: 64 lines of 128 bytes, swizzled in
/// groups of 8 lines (1024 bytes, the swizzle atom).
///
///     K-major                                     MN-major
///     line r: row r, k 0..63 (128 B)              line k: depth k, rows 0..63 (128 B)
///     8 lines = 8 rows, next 8 rows + 1024        8 lines = 8 of K, next 8 of K + 1024   (SBO)
///     next 64 rows + 8192 (= 8 × SBO)             next 64 rows + 8192                    (LBO)
///     next 16 of K: + 32 B inside the line        next 16 of K: 16 lines, + 2048
///
/// In both, 64 rows further is the next panel, so a consumer warpgroup finds its rows of A in the
/// same place.

#include <rungs/gpu/kernel.hpp>
#include <rungs/gpu/tensor_map.hpp>
#include <rungs/ptx/descriptor.hpp>
#include <rungs/ptx/tma.hpp>

#include <cstdint>

namespace rungs::gemm::detail {

/// Rows of the operand in a panel: wgmma's M, and one 128-byte line MN-major.
inline constexpr int kPanelRows = 64;
/// Of K in a panel: one 128-byte line K-major.
inline constexpr int kPanelDepth = 64;
inline constexpr int kPanelBytes = kPanelRows * kPanelDepth * 2;
inline constexpr int kAtomBytes = 1024;  // 8 lines of 128 bytes: the unit the swizzle permutes in
inline constexpr int kInstructionDepth = 16;  // of K an instruction takes
inline constexpr int kInstructionsPerPanel = kPanelDepth / kInstructionDepth;

/// What to add to a descriptor for the next instruction's 16 of K: bytes in units of 16, as its
/// address field has them. Any thread, and at compile time. K-major 32 bytes along the line,
/// MN-major 16 lines of 128 bytes.
RUNGS_DEVICE constexpr std::uint64_t descriptor_step(bool mn_major) {
  return static_cast<std::uint64_t>(mn_major ? kInstructionDepth * 128 : kInstructionDepth * 2) /
         16;
}

/// One thread. Enqueues the copy of rows [first, first + Rows) × depth [depth, depth + 64) into
/// `tile`, which arrives on `bar` as Rows·128 bytes, elements outside the matrix as zeros.
template <int Rows, bool MnMajor>
RUNGS_DEVICE void load_panels(bf16* tile, const gpu::TensorMap* map, std::uint64_t* bar, int first,
                              int depth) {
  if constexpr (MnMajor) {
    // A swizzled box is at most 128 bytes wide: one copy a panel.
    for (int panel = 0; panel < Rows / kPanelRows; ++panel) {
      ptx::tma_load_2d(tile + panel * (kPanelBytes / 2), map, bar, first + panel * kPanelRows,
                       depth);
    }
  } else {
    // All rows in one box: its lines follow each other, so panels do too.
    ptx::tma_load_2d(tile, map, bar, depth, first);
  }
}

/// Any thread. The descriptor of a tile for its first instruction; add descriptor_step() for each
/// next one.
template <bool MnMajor>
RUNGS_DEVICE std::uint64_t panel_descriptor(const bf16* tile) {
  // K-major with a swizzle ignores the leading offset: 16 is what an unswizzled layout would say.
  const std::uint32_t leading_bytes = MnMajor ? kPanelBytes : 16;
  return ptx::wgmma_descriptor(ptx::shared_u32(tile), leading_bytes, kAtomBytes,
                               gpu::Swizzle::k128B);
}

}  // namespace rungs::gemm::detail
