#pragma once
/// @file wgmma_operand.hpp
/// Reading the operands of wgmma: from shared memory as the descriptor says, or from registers.

#include <rungs/emulator/model_wgmma.hpp>

#include "wgmma.hpp"

#include <cstddef>
#include <cstdint>

namespace rungs::emulator {

struct Block;

/// The fields of a descriptor, in bytes.
struct OperandLayout {
  std::uint32_t start = 0;
  std::uint32_t leading = 0;
  std::uint32_t stride = 0;
  std::uint32_t chunk_bits = 0;  ///< log2 of the swizzle span in 16-byte chunks; 0: no swizzle
  unsigned base_offset = 0;
  std::uint64_t reserved = 0;  ///< bits that must be zero

  static OperandLayout decode(std::uint64_t descriptor);
  /// Offset of the 16 bytes that hold bytes 16 `chunk` ... + 15 of K in row `row` (of M or N).
  [[nodiscard]] std::uint32_t k_major(std::uint32_t row, std::uint32_t chunk) const {
    const std::uint32_t next = chunk_bits == 0 ? leading : 16;
    return swizzled(start + row / 8 * stride + (row % 8 << (4 + chunk_bits)) + chunk * next);
  }
  /// Offset of the 16 bytes that hold elements 8 `chunk` ... + 7 of M or N at `k`; elements
  /// of 16 bits.
  [[nodiscard]] std::uint32_t mn_major(std::uint32_t chunk, std::uint32_t k) const {
    const std::uint32_t along_mn = chunk_bits == 0 ? stride : leading;
    const std::uint32_t along_k = chunk_bits == 0 ? leading : stride;
    return swizzled(start + (chunk & mask()) * 16 + (chunk >> chunk_bits) * along_mn +
                    (k % 8 << (4 + chunk_bits)) + k / 8 * along_k);
  }

 private:
  [[nodiscard]] std::uint32_t mask() const { return (1u << chunk_bits) - 1; }
  /// The hardware xors address bits 4-6 with bits 7-9, as many as the span has.
  [[nodiscard]] std::uint32_t swizzled(std::uint32_t offset) const {
    return offset ^ (offset >> 7 & mask()) << 4;
  }
};

/// A[64, K] of the multiplication to out[k][64], rows in fragment order. False after reporting.
bool load_a(Block& block, const Multiplication& multiplication, float* out);
/// B[K, n] to out[n][pitch]. False after reporting.
bool load_b(Block& block, const Multiplication& multiplication, float* out, std::size_t pitch);

/// K of a multiplication with operand A of that type: 32 bytes.
constexpr int depth_of(WgmmaType a) {
  switch (a) {
    case WgmmaType::kF16:
    case WgmmaType::kBf16:
      return 16;
    case WgmmaType::kTf32:
      return 8;
    default:
      return 32;
  }
}

/// For operands of 8 and 32 bits, K-major (wgmma_operand_bytes.cpp).
bool load_rows(Block& block, const OperandLayout& layout, WgmmaType type, const char* operand,
               Location where, std::uint32_t rows, float* out, bool by_k, std::size_t pitch);
/// Operand A from registers, of any type.
void load_registers(const RegisterOperand& registers, WgmmaType type, float* out);

}  // namespace rungs::emulator
