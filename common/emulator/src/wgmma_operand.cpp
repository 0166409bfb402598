#include "wgmma_operand.hpp"

#include "report.hpp"
#include "wgmma_chunk.hpp"

#include <cstring>

namespace rungs::emulator {
namespace {

constexpr const char* kNameA = "wgmma operand A";
constexpr const char* kNameB = "wgmma operand B";

// Eight 16-bit elements: one 16-byte chunk. Every operand access of wgmma is of this size.
using Half8 = std::uint16_t __attribute__((vector_size(16)));

Half8 interleave_low(Half8 x, Half8 y) {
  return __builtin_shufflevector(x, y, 0, 8, 1, 9, 2, 10, 3, 11);
}
Half8 interleave_high(Half8 x, Half8 y) {
  return __builtin_shufflevector(x, y, 4, 12, 5, 13, 6, 14, 7, 15);
}
Half8 words_low(Half8 x, Half8 y) {
  return __builtin_shufflevector(x, y, 0, 1, 8, 9, 2, 3, 10, 11);
}
Half8 words_high(Half8 x, Half8 y) {
  return __builtin_shufflevector(x, y, 4, 5, 12, 13, 6, 7, 14, 15);
}
Half8 pairs_low(Half8 x, Half8 y) {
  return __builtin_shufflevector(x, y, 0, 1, 2, 3, 8, 9, 10, 11);
}
Half8 pairs_high(Half8 x, Half8 y) {
  return __builtin_shufflevector(x, y, 4, 5, 6, 7, 12, 13, 14, 15);
}

using Word4 = std::uint32_t __attribute__((vector_size(16)));
using Float4 = float __attribute__((vector_size(16)));

// A bf16 is the upper half of a float.
struct FromBf16 {
  static void store(float* out, Half8 values) {
    const Half8 zero{};
    const Half8 low = interleave_low(zero, values);
    const Half8 high = interleave_high(zero, values);
    std::memcpy(out, &low, sizeof(low));
    std::memcpy(out + 4, &high, sizeof(high));
  }
};

// The fields of an f16, moved to those of a float, are too small by the difference of the biases.
struct FromF16 {
  static void store(float* out, Half8 values) {
    const Half8 zero{};
    store_quad(out, reinterpret_cast<Word4>(interleave_low(values, zero)));
    store_quad(out + 4, reinterpret_cast<Word4>(interleave_high(values, zero)));
  }

 private:
  static void store_quad(float* out, Word4 halves) {
    const Word4 magnitude = (halves & 0x7fff) << 13;
    const Word4 finite = reinterpret_cast<Word4>(reinterpret_cast<Float4>(magnitude) * 0x1p112f);
    const Word4 value = (halves & 0x7c00) == 0x7c00 ? magnitude | 0x7f800000 : finite;
    const Word4 result = value | (halves & 0x8000) << 16;
    std::memcpy(out, &result, sizeof(result));
  }
};

// Four rows of eight become, word by word, four chunks of (row 0, 1, 2, 3) for words 0 to 3.
void transpose_words(const Half8 (&in)[4], Half8 (&out)[4]) {
  const Half8 a = words_low(in[0], in[1]);  // words 0 and 1 of rows 0, 1
  const Half8 b = words_low(in[2], in[3]);
  const Half8 c = words_high(in[0], in[1]);  // words 2 and 3
  const Half8 d = words_high(in[2], in[3]);
  out[0] = pairs_low(a, b);
  out[1] = pairs_high(a, b);
  out[2] = pairs_low(c, d);
  out[3] = pairs_high(c, d);
}

// Descriptors that are wrong, or whose effect is not modelled.
bool reject(Block& block, const OperandLayout& layout, const char* operand, Location where) {
  if (layout.reserved != 0) {
    fail_async(block, where,
               "wgmma_descriptor() and its arguments: address, leading and stride bytes must be "
               "multiples of 16",
               "%s: a descriptor with reserved bits %llx", operand,
               static_cast<unsigned long long>(layout.reserved));
    return true;
  }
  if (layout.base_offset != 0) {
    fail_async(block, where, "align the tile to 1024 bytes",
               "%s: a descriptor with base offset %u is not modelled", operand, layout.base_offset);
    return true;
  }
  const std::uint32_t pattern = 128u << layout.chunk_bits;
  if (layout.chunk_bits != 0 && layout.start % pattern >= 128) {
    fail_async(block, where,
               "a tile aligned to 1024 bytes; advance along K inside the first 128 bytes",
               "%s: the descriptor starts at shared-memory offset %u, %u bytes behind where the "
               "swizzle pattern repeats (every %u bytes); that is not modelled",
               operand, layout.start, layout.start % pattern, pattern);
    return true;
  }
  return false;
}

template <class From>
bool load_a_half(Block& block, const OperandLayout& layout, bool transposed, float* out,
                 Location where) {
  for (std::uint32_t warp = 0; warp < 4; warp++) {
    float* corner = out + std::size_t{warp} * 16;
    if (transposed) {  // a chunk is eight rows at one k: rows r and r + 8 interleave
      for (std::uint32_t k = 0; k < 16; k++) {
        Half8 upper, lower;
        if (!load_chunk(block, layout.mn_major(warp * 2, k), kNameA, where, &upper)) return false;
        if (!load_chunk(block, layout.mn_major(warp * 2 + 1, k), kNameA, where, &lower))
          return false;
        From::store(corner + std::size_t{k} * 64, interleave_low(upper, lower));
        From::store(corner + std::size_t{k} * 64 + 8, interleave_high(upper, lower));
      }
      continue;
    }
    for (std::uint32_t chunk = 0; chunk < 2; chunk++) {  // a chunk is eight k of one row: transpose
      Half8 rows[16];
      for (std::uint32_t r = 0; r < 16; r++) {
        if (!load_chunk(block, layout.k_major(warp * 16 + r, chunk), kNameA, where, &rows[r]))
          return false;
      }
      for (std::uint32_t half = 0; half < 2; half++) {    // k 0-3 and 4-7 of the chunk
        for (std::uint32_t quad = 0; quad < 2; quad++) {  // rows 0-3 (and 8-11), 4-7 (and 12-15)
          Half8 pairs[4];  // word w of pairs[i]: rows i and i + 8 at k = w
          for (std::uint32_t i = 0; i < 4; i++) {
            const Half8 upper = rows[quad * 4 + i], lower = rows[quad * 4 + i + 8];
            pairs[i] = half == 0 ? interleave_low(upper, lower) : interleave_high(upper, lower);
          }
          Half8 by_k[4];
          transpose_words(pairs, by_k);
          for (std::uint32_t w = 0; w < 4; w++) {
            const std::size_t k = chunk * 8 + half * 4 + w;
            From::store(corner + k * 64 + std::size_t{quad} * 8, by_k[w]);
          }
        }
      }
    }
  }
  return true;
}

template <class From>
bool load_b_half(Block& block, const OperandLayout& layout, bool transposed, std::uint32_t columns,
                 float* out, std::size_t pitch, Location where) {
  if (!transposed) {
    for (std::uint32_t column = 0; column < columns; column++) {
      for (std::uint32_t chunk = 0; chunk < 2; chunk++) {
        Half8 values;
        if (!load_chunk(block, layout.k_major(column, chunk), kNameB, where, &values)) return false;
        From::store(out + column * pitch + std::size_t{chunk} * 8, values);
      }
    }
    return true;
  }
  for (std::uint32_t group = 0; group < columns / 8; group++) {
    for (std::uint32_t k = 0; k < 16; k += 8) {  // eight k of eight columns: transpose 8 x 8
      Half8 rows[8];
      for (std::uint32_t i = 0; i < 8; i++) {
        if (!load_chunk(block, layout.mn_major(group, k + i), kNameB, where, &rows[i]))
          return false;
      }
      for (std::uint32_t half = 0; half < 2; half++) {  // columns 0-3 and 4-7 of the group
        Half8 pairs[4];  // word w of pairs[i]: k = 2 i and 2 i + 1 at column w
        for (std::uint32_t i = 0; i < 4; i++) {
          const Half8 even = rows[std::size_t{2} * i], odd = rows[std::size_t{2} * i + 1];
          pairs[i] = half == 0 ? interleave_low(even, odd) : interleave_high(even, odd);
        }
        Half8 by_column[4];
        transpose_words(pairs, by_column);
        for (std::uint32_t w = 0; w < 4; w++) {
          From::store(out + (group * 8 + half * 4 + w) * pitch + k, by_column[w]);
        }
      }
    }
  }
  return true;
}

}  // namespace

OperandLayout OperandLayout::decode(std::uint64_t descriptor) {
  constexpr std::uint32_t kChunkBits[] = {0, 3, 2, 1};  // none, 128B, 64B, 32B
  const auto field = [&](int bit) {
    return static_cast<std::uint32_t>(descriptor >> bit & 0x3fff) << 4;
  };
  OperandLayout layout;
  layout.start = field(0);
  layout.leading = field(16);
  layout.stride = field(32);
  layout.base_offset = static_cast<unsigned>(descriptor >> 49 & 7);
  layout.chunk_bits = kChunkBits[descriptor >> 62];
  layout.reserved = descriptor & 0x3ff1c000c000c000;
  return layout;
}

bool load_a(Block& block, const Multiplication& m, float* out) {
  const WgmmaInstruction& instruction = m.instruction;
  if (instruction.a_in_registers) {
    load_registers(*m.registers_a, instruction.a, out);
    return true;
  }
  const OperandLayout layout = OperandLayout::decode(m.descriptor_a);
  if (reject(block, layout, kNameA, m.where)) return false;
  switch (instruction.a) {
    case WgmmaType::kBf16:
      return load_a_half<FromBf16>(block, layout, instruction.transpose_a, out, m.where);
    case WgmmaType::kF16:
      return load_a_half<FromF16>(block, layout, instruction.transpose_a, out, m.where);
    default:
      return load_rows(block, layout, instruction.a, kNameA, m.where, 64, out, true, 64);
  }
}

bool load_b(Block& block, const Multiplication& m, float* out, std::size_t pitch) {
  const WgmmaInstruction& instruction = m.instruction;
  const auto columns = static_cast<std::uint32_t>(instruction.n);
  const OperandLayout layout = OperandLayout::decode(m.descriptor_b);
  if (reject(block, layout, kNameB, m.where)) return false;
  switch (instruction.b) {
    case WgmmaType::kBf16:
      return load_b_half<FromBf16>(block, layout, instruction.transpose_b, columns, out, pitch,
                                   m.where);
    case WgmmaType::kF16:
      return load_b_half<FromF16>(block, layout, instruction.transpose_b, columns, out, pitch,
                                  m.where);
    default:
      return load_rows(block, layout, instruction.b, kNameB, m.where, columns, out, false, pitch);
  }
}

}  // namespace rungs::emulator
