#include "wgmma_fp8.hpp"

#include "wgmma.hpp"
#include "wgmma_math.hpp"

#include <algorithm>
#include <cstdint>

namespace rungs::emulator {
namespace {

constexpr std::size_t kRows = AccumulatorTile::kRows;
constexpr std::size_t kDepth = 32;
constexpr float kBits = 8192;  // 2^13
// Greatest exponents below this are taken for it: no product of 8-bit floats is as small.
constexpr float kLeast = 0x1p-100f;

// The power of two of a number's exponent, at least `least`; 0 of 0.
[[gnu::always_inline]] inline float power_of(float value, float least) {
  std::uint32_t bits;
  __builtin_memcpy(&bits, &value, sizeof(bits));
  bits &= 0x7f800000u;
  float power;
  __builtin_memcpy(&power, &bits, sizeof(power));
  power = power < least ? least : power;
  return value == 0 ? 0 : power;
}

float least_normal(WgmmaType type) {
  return type == WgmmaType::kE4m3 ? 0x1p-6f : type == WgmmaType::kF32 ? 0x1p-126f : 0x1p-14f;
}

[[gnu::always_inline]] inline bool all_finite(const float* values, std::size_t count) {
  std::uint32_t greatest = 0;
  for (std::size_t i = 0; i < count; i++) {
    std::uint32_t bits;
    __builtin_memcpy(&bits, values + i, sizeof(bits));
    bits &= 0x7fffffffu;
    greatest = greatest < bits ? bits : greatest;
  }
  return greatest < 0x7f800000u;
}

struct Powers {
  float a[kDepth * kRows];
  float b[kDepth];
};

// One column: c[64] += sum over k of a[k][64] b[k].
[[gnu::always_inline]] inline void add_column(float* c, const float* a, const float* b,
                                              const Powers& powers, float least_c) {
  float greatest[kRows], scale[kRows];
  std::int32_t sum[kRows];
  for (std::size_t r = 0; r < kRows; r++) greatest[r] = std::max(kLeast, power_of(c[r], least_c));
  for (std::size_t k = 0; k < kDepth; k++) {
    const float* power = powers.a + k * kRows;
    const float right = powers.b[k];
    for (std::size_t r = 0; r < kRows; r++) greatest[r] = std::max(greatest[r], power[r] * right);
  }
  for (std::size_t r = 0; r < kRows; r++) {
    scale[r] = kBits / greatest[r];
    sum[r] = static_cast<std::int32_t>(c[r] * scale[r]);
  }
  for (std::size_t k = 0; k < kDepth; k++) {
    const float* left = a + k * kRows;
    const float right = b[k];
    for (std::size_t r = 0; r < kRows; r++)
      sum[r] += static_cast<std::int32_t>(left[r] * right * scale[r]);
  }
  for (std::size_t r = 0; r < kRows; r++)
    c[r] = static_cast<float>(sum[r]) * (greatest[r] * (1 / kBits));
}

[[gnu::always_inline]] inline void add_columns(AccumulatorTile& tile, const OperandPanels& panels,
                                               float least_a, float least_b, float least_c) {
  Powers powers;
  for (std::size_t i = 0; i < kDepth * kRows; i++) powers.a[i] = power_of(panels.a[i], least_a);
  for (std::size_t column = 0; column < static_cast<std::size_t>(tile.n); column++) {
    const float* b = panels.b + column * OperandPanels::kPitch;
    for (std::size_t k = 0; k < kDepth; k++) powers.b[k] = power_of(b[k], least_b);
    add_column(tile.values.data() + column * kRows, panels.a, b, powers, least_c);
  }
}

void add_plain(AccumulatorTile& tile, const OperandPanels& panels, float a, float b, float c) {
  add_columns(tile, panels, a, b, c);
}

#if defined(__x86_64__)
// No instruction set changes a bit: every product and every scaling by a power of two is exact.
[[gnu::target("avx2")]] void add_avx2(AccumulatorTile& tile, const OperandPanels& panels, float a,
                                      float b, float c) {
  add_columns(tile, panels, a, b, c);
}

[[gnu::target("avx512f")]] void add_avx512(AccumulatorTile& tile, const OperandPanels& panels,
                                           float a, float b, float c) {
  add_columns(tile, panels, a, b, c);
}
#endif

using Add = void (*)(AccumulatorTile&, const OperandPanels&, float, float, float);

Add best() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f")) return &add_avx512;
  if (__builtin_cpu_supports("avx2")) return &add_avx2;
#endif
  return &add_plain;
}

}  // namespace

void add_fp8(AccumulatorTile& tile, OperandPanels& panels, WgmmaType a, WgmmaType b) {
  static const Add add = best();
  float* const values = tile.values.data();
  const std::size_t count = static_cast<std::size_t>(tile.n) * kRows;
  bool finite = all_finite(panels.a, kDepth * kRows) && all_finite(values, count);
  for (std::size_t column = 0; finite && column < static_cast<std::size_t>(tile.n); column++)
    finite = all_finite(panels.b + column * OperandPanels::kPitch, kDepth);
  if (!finite) {
    std::copy_n(values, count, panels.products);
    multiply_tile(panels.products, panels.a, panels.b, OperandPanels::kPitch, tile.n, kDepth);
  }
  add(tile, panels, least_normal(a), least_normal(b), least_normal(tile.type));
  // An element that meets an infinity or NaN is what any order of additions makes of it.
  for (std::size_t i = 0; !finite && i < count; i++) {
    if (!all_finite(panels.products + i, 1)) values[i] = panels.products[i];
  }
  if (tile.type == WgmmaType::kF16) {
    round_to_f16(values, count);
    return;
  }
  for (std::size_t i = 0; i < count; i++) {
    std::uint32_t bits;
    __builtin_memcpy(&bits, values + i, sizeof(bits));
    bits &= (bits & 0x7fffffffu) > 0x7f800000u ? ~0u : ~0x3ffu;  // a NaN remains one
    __builtin_memcpy(values + i, &bits, sizeof(bits));
  }
}

}  // namespace rungs::emulator
