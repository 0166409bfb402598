#pragma once
/// @file wgmma_operand.hpp
/// Reading a wgmma operand from shared memory as its descriptor says.

#include <rungs/emulator/model.hpp>

#include <cstddef>
#include <cstdint>

namespace rungs::emulator {

struct Block;

/// The fields of a descriptor, in bytes.
struct OperandLayout {
  std::uint32_t start = 0;
  std::uint32_t leading = 0;
  std::uint32_t stride = 0;
  std::uint32_t span = 16;  // 16: no swizzle
  unsigned base_offset = 0;

  static OperandLayout decode(std::uint64_t descriptor);
  /// Offset of the 16 bytes that hold elements 8 `chunk` ... + 7 of K in row `row` (of M or N).
  [[nodiscard]] std::uint32_t k_major(std::uint32_t row, std::uint32_t chunk) const;
  /// Offset of the 16 bytes that hold elements 8 `chunk` ... + 7 of M or N at `k`.
  [[nodiscard]] std::uint32_t mn_major(std::uint32_t chunk, std::uint32_t k) const;
};

/// A[64, 16] to out[k][64], rows in fragment order. False after reporting.
bool load_a(Block& block, std::uint64_t descriptor, bool transposed, float* out, Location where);
/// B[16, n] to out[n][pitch]. False after reporting.
bool load_b(Block& block, std::uint64_t descriptor, bool transposed, int n, float* out, std::size_t pitch,
            Location where);

}  // namespace rungs::emulator
