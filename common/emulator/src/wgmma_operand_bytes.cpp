// Operands of wgmma of 8 and 32 bits, which are K-major, and A in registers.

#include <rungs/core/dtype.hpp>

#include "wgmma_chunk.hpp"
#include "wgmma_math.hpp"
#include "wgmma_operand.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace rungs::emulator {
namespace {

// What every byte means.
using ByteTable = std::array<float, 256>;

template <class Convert>
ByteTable make_table(Convert convert) {
  ByteTable table{};
  for (unsigned i = 0; i < 256; i++) table[i] = convert(static_cast<std::uint8_t>(i));
  return table;
}

const ByteTable& table_of(WgmmaType type) {
  static const ByteTable e4m3 = make_table([](std::uint8_t b) { return to_float(f8e4m3{b}); });
  static const ByteTable e5m2 = make_table([](std::uint8_t b) { return to_float(f8e5m2{b}); });
  static const ByteTable s8 =
      make_table([](std::uint8_t b) { return static_cast<float>(static_cast<std::int8_t>(b)); });
  static const ByteTable u8 = make_table([](std::uint8_t b) { return static_cast<float>(b); });
  switch (type) {
    case WgmmaType::kE4m3:
      return e4m3;
    case WgmmaType::kE5m2:
      return e5m2;
    case WgmmaType::kS8:
      return s8;
    default:
      return u8;
  }
}

// 4 bytes of a row as 1, 2 or 4 elements; returns how many.
template <class Store>
void each_element(WgmmaType type, std::uint32_t word, Store store) {
  switch (type) {
    case WgmmaType::kTf32: {  // the tensor core ignores the lower 13 bits
      word &= 0xffffe000u;
      float value;
      std::memcpy(&value, &word, sizeof(value));
      store(0, value);
      return;
    }
    case WgmmaType::kBf16:
      store(0, to_float(bf16{static_cast<std::uint16_t>(word)}));
      store(1, to_float(bf16{static_cast<std::uint16_t>(word >> 16)}));
      return;
    case WgmmaType::kF16:
      store(0, to_float(f16{static_cast<std::uint16_t>(word)}));
      store(1, to_float(f16{static_cast<std::uint16_t>(word >> 16)}));
      return;
    default: {
      const ByteTable& table = table_of(type);
      for (unsigned i = 0; i < 4; i++) store(i, table[word >> 8 * i & 0xff]);
    }
  }
}

}  // namespace

bool load_rows(Block& block, const OperandLayout& layout, WgmmaType type, const char* operand,
               Location where, std::uint32_t rows, float* out, bool by_k, std::size_t pitch) {
  const auto per_chunk = static_cast<std::size_t>(depth_of(type) / 2);
  const ByteTable* table = type == WgmmaType::kTf32 ? nullptr : &table_of(type);
  for (std::uint32_t row = 0; row < rows; row++) {
    for (std::uint32_t chunk = 0; chunk < 2; chunk++) {
      std::array<std::uint8_t, 16> bytes;
      if (!load_chunk(block, layout.k_major(row, chunk), operand, where, &bytes)) return false;
      std::array<float, 16> values;  // per_chunk of them
      if (table != nullptr) {
        for (std::size_t i = 0; i < 16; i++) values[i] = (*table)[bytes[i]];
      } else {
        for (std::size_t i = 0; i < 4; i++) {
          std::uint32_t word;
          std::memcpy(&word, &bytes[4 * i], sizeof(word));
          each_element(type, word, [&](unsigned, float value) { values[i] = value; });
        }
      }
      const std::size_t k = chunk * per_chunk;
      if (by_k) {
        float* at = out + k * pitch + fragment_row(row);
        for (std::size_t i = 0; i < per_chunk; i++) at[i * pitch] = values[i];
      } else {
        std::memcpy(out + row * pitch + k, values.data(), per_chunk * sizeof(float));
      }
    }
  }
  return true;
}

// Register r of thread t: 4 bytes of row 16 (t / 32) + t % 32 / 4, + 8 if r is odd, from byte
// 4 (t % 4) on, + 16 if r is 2 or 3.
void load_registers(const RegisterOperand& registers, WgmmaType type, float* out) {
  const auto per_word = static_cast<std::size_t>(depth_of(type) / 8);
  for (unsigned t = 0; t < kWarpGroupThreads; t++) {
    for (unsigned r = 0; r < 4; r++) {
      const unsigned row = 16 * (t / 32) + t % 32 / 4 + 8 * (r % 2);
      const std::size_t word = t % 4 + std::size_t{4} * (r / 2);
      float* at = out + word * per_word * 64 + fragment_row(row);
      each_element(type, registers.values[t][r],
                   [&](unsigned i, float value) { at[std::size_t{i} * 64] = value; });
    }
  }
}

}  // namespace rungs::emulator
