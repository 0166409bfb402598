#include "wgmma_tile.hpp"

#include <rungs/core/dtype.hpp>

#include "wgmma_math.hpp"

#include <cstring>

namespace rungs::emulator {
namespace {

using Float2 = float __attribute__((vector_size(8)));
using Float4 = float __attribute__((vector_size(16)));

constexpr std::size_t kRows = AccumulatorTile::kRows;

// As a float and as two f16: NaN.
constexpr std::uint32_t kInFlight = 0x7fd1fd1e;

// Where the thread's d[0] and d[2] (neighbours) lie in column 0 or 1 of the tile.
std::size_t fragment_start(unsigned t) {
  const unsigned row = 16 * (t / 32) + t % 32 / 4;
  return std::size_t{2} * (t % 4) * kRows + fragment_row(row);
}

// Four elements of D as the registers hold them: 32-bit ones, or packed f16.
template <bool kPacked>
Float4 load_quad(const std::byte* from) {
  Float4 quad;
  if constexpr (kPacked) {
    f16 halves[4];
    std::memcpy(halves, from, sizeof(halves));
    for (int i = 0; i < 4; i++) quad[i] = to_float(halves[i]);
  } else {
    std::memcpy(&quad, from, sizeof(quad));
  }
  return quad;
}

template <bool kPacked>
void store_quad(std::byte* to, Float4 quad) {
  if constexpr (kPacked) {
    f16 halves[4];
    for (int i = 0; i < 4; i++) halves[i] = to_f16(quad[i]);
    std::memcpy(to, halves, sizeof(halves));
  } else {
    std::memcpy(to, &quad, sizeof(quad));
  }
}

// d[4j .. 4j+3] = (r, c), (r, c+1), (r+8, c), (r+8, c+1), columns c = 8 j + 2 (t % 4).
template <bool kPacked>
void take_registers(float* tile, int n, unsigned t, const void* registers) {
  constexpr int kQuadBytes = kPacked ? 8 : 16;
  const auto* from = static_cast<const std::byte*>(registers);
  float* at = tile + fragment_start(t);
  for (int j = 0; j < n / 8; j++, at += 8 * kRows, from += kQuadBytes) {
    const Float4 quad = load_quad<kPacked>(from);
    const Float2 left = __builtin_shufflevector(quad, quad, 0, 2);
    const Float2 right = __builtin_shufflevector(quad, quad, 1, 3);
    std::memcpy(at, &left, sizeof(left));
    std::memcpy(at + kRows, &right, sizeof(right));
  }
}

template <bool kPacked>
void give_registers(const float* tile, int n, unsigned t, void* registers) {
  constexpr int kQuadBytes = kPacked ? 8 : 16;
  auto* to = static_cast<std::byte*>(registers);
  const float* at = tile + fragment_start(t);
  for (int j = 0; j < n / 8; j++, at += 8 * kRows, to += kQuadBytes) {
    Float2 left, right;
    std::memcpy(&left, at, sizeof(left));
    std::memcpy(&right, at + kRows, sizeof(right));
    store_quad<kPacked>(to, __builtin_shufflevector(left, right, 0, 2, 1, 3));
  }
}

}  // namespace

void AccumulatorTile::take(unsigned t, const void* registers) {
  if (type == WgmmaType::kF16)
    take_registers<true>(values.data(), n, t, registers);
  else
    take_registers<false>(values.data(), n, t, registers);
}

void AccumulatorTile::give(unsigned t, void* registers) const {
  if (type == WgmmaType::kF16)
    give_registers<true>(values.data(), n, t, registers);
  else
    give_registers<false>(values.data(), n, t, registers);
}

void AccumulatorTile::poison(void* registers) const {
  auto* to = static_cast<std::byte*>(registers);
  const int count = words();  // a byte pointer may point at n: keep it out of the loop
  for (int i = 0; i < count; i++) __builtin_memcpy(to + 4 * i, &kInFlight, sizeof(kInFlight));
}

bool AccumulatorTile::still_poisoned(const void* registers) const {
  const auto* from = static_cast<const std::byte*>(registers);
  const int count = words();
  std::uint32_t difference = 0;
  for (int i = 0; i < count; i++) {
    std::uint32_t bits;
    __builtin_memcpy(&bits, from + 4 * i, sizeof(bits));
    difference |= bits ^ kInFlight;
  }
  return difference == 0;
}

}  // namespace rungs::emulator
