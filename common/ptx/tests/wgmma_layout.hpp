#pragma once
/// @file wgmma_layout.hpp
/// Operands of wgmma in shared memory, laid out by hand from the pictures of swizzle atoms in the
/// PTX ISA ("Shared Memory Matrix Layout"), by rows and chunks of atoms and not by address bits.

#include <rungs/gpu/tensor_map.hpp>

#include <cstdint>

namespace rungs::ptx::test {

using gpu::Swizzle;

inline std::uint32_t span_of(Swizzle swizzle) {
  switch (swizzle) {
    case Swizzle::k128B:
      return 128;
    case Swizzle::k64B:
      return 64;
    case Swizzle::k32B:
      return 32;
    default:
      return 16;
  }
}

/// Byte of chunk `chunk` of row `row` in an atom of 8 rows of `span` bytes: in each 128-byte line
/// of the picture the chunk's index inside the span is xored with the line's number.
inline std::uint32_t in_atom(std::uint32_t span, std::uint32_t row, std::uint32_t chunk) {
  const std::uint32_t line = row * span / 128;
  return row * span + (chunk ^ line % (span / 16)) * 16;
}

/// One operand: 64 or n of M or N, 32 * steps bytes of K, dense or with gaps.
struct Operand {
  bool mn_major = false;  ///< 16-bit elements only
  Swizzle swizzle = Swizzle::kNone;
  std::uint32_t extent = 64;
  std::uint32_t steps = 1;
  std::uint32_t leading = 16, stride = 0, advance = 0;

  /// @param gap bytes behind every atom; of swizzled ones a multiple of 1024, else of 16
  void lay_out(std::uint32_t gap = 0) {
    const std::uint32_t span = span_of(swizzle);
    if (swizzle == Swizzle::kNone) {
      // 128-byte core matrices of 8 x 16 bytes: along M or N first (K-major), along K first
      // (MN-major).
      const std::uint32_t atom = 128 + gap;
      leading = mn_major ? atom : extent / 8 * atom + gap;
      stride = mn_major ? 2 * atom + gap : atom;
      advance = mn_major ? extent / 8 * stride : 2 * leading;
    } else if (mn_major) {
      stride = 8 * span + gap;  // atoms of span bytes x 8 of K: along K first
      leading = 2 * steps * stride + gap;
      advance = 2 * stride;
    } else {
      stride = 8 * span + gap;  // one atom wide: K goes on inside the span
      advance = 32;
    }
  }
  [[nodiscard]] bool fits() const {
    const std::uint32_t span = span_of(swizzle);
    if (!mn_major && swizzle != Swizzle::kNone) return 32 * steps <= span;
    return swizzle == Swizzle::kNone || extent % (span / 2) == 0;
  }
  /// Where the last row of the laid-out operand ends, or later.
  [[nodiscard]] std::uint32_t end(std::uint32_t size) const {
    return place(extent - 1, steps * 32 / size - 1, size) / 128 * 128 + 128;
  }
  /// Byte of element (mn, k), of `size` bytes.
  [[nodiscard]] std::uint32_t place(std::uint32_t mn, std::uint32_t k, std::uint32_t size) const {
    const std::uint32_t span = span_of(swizzle), byte = k * size, step = byte / 32;
    if (swizzle == Swizzle::kNone) {
      const std::uint32_t core = mn / 8 * stride + byte % 32 / 16 * leading + step * advance;
      return core + (mn_major ? k % 8 * 16 + mn % 8 * 2 : mn % 8 * 16 + byte % 16);
    }
    if (mn_major) {
      const std::uint32_t wide = span / 2;
      return mn / wide * leading + k / 8 * stride + in_atom(span, k % 8, mn % wide / 8) +
             mn % 8 * 2;
    }
    return mn / 8 * stride + in_atom(span, mn % 8, byte / 16) + byte % 16;
  }
};

}  // namespace rungs::ptx::test
