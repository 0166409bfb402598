#include "wgmma_math.hpp"

#include <cstring>
#include <initializer_list>
#include <utility>

namespace rungs::emulator {
namespace {

constexpr int kRows = 64;

template <int Lanes>
struct Vector {
  using type __attribute__((vector_size(Lanes * sizeof(float)), aligned(4))) = float;
};

// Four columns of the tile at a time, rows in passes of Lanes * Vectors: 4 * Vectors accumulators
// that must stay in registers. So the loops over them are parameter packs, which are unrolled
// before registers are assigned. Whether the compiler fuses multiplication and addition does not
// matter: the product of two operands is exact.
template <int Lanes, int Vectors, std::size_t... I, std::size_t... J>
[[gnu::always_inline]] inline void multiply(float* tile, const float* a, const float* b,
                                            std::size_t b_pitch, int n, int k,
                                            std::index_sequence<I...>, std::index_sequence<J...>) {
  using V = typename Vector<Lanes>::type;
  constexpr int kColumns = 4;
  constexpr int kPass = Lanes * Vectors;
  for (int column = 0; column < n; column += kColumns) {
    const float* right = b + static_cast<std::size_t>(column) * b_pitch;
    for (int row = 0; row < kRows; row += kPass) {
      float* corner = tile + static_cast<std::size_t>(column) * kRows + row;
      const float* left = a + row;
      V sum[kColumns * Vectors] = {
          *reinterpret_cast<const V*>(corner + I / Vectors * kRows + I % Vectors * Lanes)...};
      for (int i = 0; i < k; i++, left += kRows) {
        const V rows[Vectors] = {*reinterpret_cast<const V*>(left + J * Lanes)...};
        ((sum[I] += rows[I % Vectors] * right[I / Vectors * b_pitch + static_cast<std::size_t>(i)]),
         ...);
      }
      ((*reinterpret_cast<V*>(corner + I / Vectors * kRows + I % Vectors * Lanes) = sum[I]), ...);
    }
  }
}

template <int Lanes, int Vectors>
[[gnu::always_inline]] inline void multiply(float* tile, const float* a, const float* b,
                                            std::size_t b_pitch, int n, int k) {
  multiply<Lanes, Vectors>(tile, a, b, b_pitch, n, k,
                           std::make_index_sequence<std::size_t{4} * Vectors>{},
                           std::make_index_sequence<Vectors>{});
}

void multiply_plain(float* tile, const float* a, const float* b, std::size_t b_pitch, int n,
                    int k) {
  multiply<4, 2>(tile, a, b, b_pitch, n, k);  // 128-bit vectors: every x86-64 and aarch64
}

#if defined(__x86_64__)
// Contraction is on here and only here: see the header for why it cannot change a result.
[[gnu::target("avx2,fma"), gnu::optimize("fp-contract=fast")]] void multiply_avx2(
    float* tile, const float* a, const float* b, std::size_t b_pitch, int n, int k) {
  multiply<8, 2>(tile, a, b, b_pitch, n, k);
}

[[gnu::target("avx512f"), gnu::optimize("fp-contract=fast")]] void multiply_avx512(
    float* tile, const float* a, const float* b, std::size_t b_pitch, int n, int k) {
  multiply<16, 4>(tile, a, b, b_pitch, n, k);
}
#endif

using Multiply = void (*)(float*, const float*, const float*, std::size_t, int, int);

Multiply by_name(const char* name) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (std::strcmp(name, "avx512") == 0)
    return __builtin_cpu_supports("avx512f") ? &multiply_avx512 : nullptr;
  if (std::strcmp(name, "avx2") == 0) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? &multiply_avx2
                                                                           : nullptr;
  }
#endif
  return std::strcmp(name, "plain") == 0 ? &multiply_plain : nullptr;
}

Multiply best() {
  for (const char* name : {"avx512", "avx2"}) {
    if (const Multiply found = by_name(name); found != nullptr) return found;
  }
  return &multiply_plain;
}

}  // namespace

void multiply_tile(float* tile, const float* a, const float* b, std::size_t b_pitch, int n, int k) {
  static const Multiply chosen = best();
  chosen(tile, a, b, b_pitch, n, k);
}

bool multiply_tile_with(const char* name, float* tile, const float* a, const float* b,
                        std::size_t b_pitch, int n, int k) {
  const Multiply chosen = by_name(name);
  if (chosen == nullptr) return false;
  chosen(tile, a, b, b_pitch, n, k);
  return true;
}

void round_to_f16(float* values, std::size_t count) {
  for (std::size_t i = 0; i < count; i++) {
    std::uint32_t bits;
    __builtin_memcpy(&bits, values + i, sizeof(bits));
    const std::uint32_t magnitude = bits & 0x7fffffffu;
    // Normal: to 10 mantissa bits. Subnormal: to multiples of 2^-24, the last bit of [0.5, 1).
    std::uint32_t normal = (magnitude + 0xfffu + (magnitude >> 13 & 1)) & ~0x1fffu;
    normal = normal >= 0x47800000u ? 0x7f800000u : normal;  // 65536 and above: infinity
    float small;
    __builtin_memcpy(&small, &magnitude, sizeof(small));
    small = (small + 0.5f) - 0.5f;
    std::uint32_t subnormal;
    __builtin_memcpy(&subnormal, &small, sizeof(subnormal));
    std::uint32_t rounded = magnitude < 0x38800000u ? subnormal : normal;  // 2^-14
    rounded = magnitude > 0x7f800000u ? 0x7fffffffu : rounded;
    rounded |= bits & 0x80000000u;
    __builtin_memcpy(values + i, &rounded, sizeof(rounded));
  }
}

void add_integers(float* sums, const float* products, std::size_t count, bool saturate) {
  for (std::size_t i = 0; i < count; i++) {
    std::int32_t sum;
    __builtin_memcpy(&sum, sums + i, sizeof(sum));
    const auto term = static_cast<std::int32_t>(products[i]);
    std::int32_t result;
    const bool overflow = __builtin_add_overflow(sum, term, &result);
    if (saturate && overflow) result = term < 0 ? INT32_MIN : INT32_MAX;
    __builtin_memcpy(sums + i, &result, sizeof(result));
  }
}

}  // namespace rungs::emulator
