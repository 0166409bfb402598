#include "crc32.hpp"

#include <array>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace rungs::verbs::soft {
namespace {

// Slicing by 16: table[k][b] is what byte b contributes once k more bytes have followed. One step
// takes 16 bytes through 16 independent look-ups, where the textbook loop takes one byte through a
// look-up that waits for the one before.
constexpr std::size_t kSlices = 16;
using Tables = std::array<std::array<std::uint32_t, 256>, kSlices>;

constexpr Tables make_tables() {
  Tables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xedb88320u : 0);
    tables[0][byte] = crc;
  }
  for (std::size_t slice = 1; slice < kSlices; ++slice) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t before = tables[slice - 1][byte];
      tables[slice][byte] = (before >> 8) ^ tables[0][before & 0xff];
    }
  }
  return tables;
}
constexpr Tables kTables = make_tables();

std::uint32_t load_little_endian(const std::byte* from) {
  std::uint32_t word;
  std::memcpy(&word, from, sizeof(word));
  if constexpr (std::endian::native == std::endian::big) word = __builtin_bswap32(word);
  return word;
}

// What four bytes contribute when `after` more bytes follow in the same step.
std::uint32_t slice(std::uint32_t word, std::size_t after) {
  return kTables[after + 3][word & 0xff] ^ kTables[after + 2][(word >> 8) & 0xff] ^
         kTables[after + 1][(word >> 16) & 0xff] ^ kTables[after][word >> 24];
}

// Without the inversions before and after.
std::uint32_t remainder(std::uint32_t crc, const std::byte* at, std::size_t left) {
  for (; left >= kSlices; at += kSlices, left -= kSlices) {
    crc = slice(crc ^ load_little_endian(at), 12) ^ slice(load_little_endian(at + 4), 8) ^
          slice(load_little_endian(at + 8), 4) ^ slice(load_little_endian(at + 12), 0);
  }
  for (; left != 0; ++at, --left) {
    crc = (crc >> 8) ^ kTables[0][(crc ^ static_cast<std::uint32_t>(*at)) & 0xff];
  }
  return crc;
}

#if defined(__x86_64__)

// Carry-less multiplication moves 16 bytes over the bytes that follow them: a·x^n mod P is a
// product of two 64-bit halves with x^(n+64) mod P and x^n mod P. Four such lanes hide its latency.
// What is left at the end is 16 bytes with the same remainder as all of them, for the tables.
// V. Gopal et al.: Fast CRC Computation for Generic Polynomials Using PCLMULQDQ (Intel, 2009).
constexpr std::size_t kLaneBytes = 16;
constexpr std::size_t kStepBytes = 4 * kLaneBytes;
constexpr std::uint64_t kStepLow = 0x154442bd4;   // bit-reflected: x^(512+32) mod P, shifted by one
constexpr std::uint64_t kStepHigh = 0x1c6e41596;  // x^(512-32)
constexpr std::uint64_t kLaneLow = 0x1751997d0;   // x^(128+32)
constexpr std::uint64_t kLaneHigh = 0x0ccaa009e;  // x^(128-32)

__attribute__((target("pclmul"))) inline __m128i move_on(__m128i value, __m128i factors) {
  return _mm_xor_si128(_mm_clmulepi64_si128(value, factors, 0x00),
                       _mm_clmulepi64_si128(value, factors, 0x11));
}

inline __m128i load(const std::byte* from) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}

// @param size_bytes at least kStepBytes
__attribute__((target("pclmul"))) std::uint32_t remainder_by_folding(std::uint32_t crc,
                                                                     const std::byte* at,
                                                                     std::size_t size_bytes) {
  // 1. Four lanes, the old remainder in the first bytes.
  __m128i lane_0 = _mm_xor_si128(load(at), _mm_cvtsi32_si128(static_cast<int>(crc)));
  __m128i lane_1 = load(at + kLaneBytes);
  __m128i lane_2 = load(at + 2 * kLaneBytes);
  __m128i lane_3 = load(at + 3 * kLaneBytes);
  // 2. Each over the 64 bytes that follow.
  const __m128i step = _mm_set_epi64x(static_cast<long long>(kStepHigh), kStepLow);
  std::size_t done = kStepBytes;
  for (; size_bytes - done >= kStepBytes; done += kStepBytes) {
    lane_0 = _mm_xor_si128(move_on(lane_0, step), load(at + done));
    lane_1 = _mm_xor_si128(move_on(lane_1, step), load(at + done + kLaneBytes));
    lane_2 = _mm_xor_si128(move_on(lane_2, step), load(at + done + 2 * kLaneBytes));
    lane_3 = _mm_xor_si128(move_on(lane_3, step), load(at + done + 3 * kLaneBytes));
  }
  // 3. The lanes over each other, then over the rest, 16 bytes at a time.
  const __m128i lane = _mm_set_epi64x(static_cast<long long>(kLaneHigh), kLaneLow);
  __m128i folded = _mm_xor_si128(move_on(lane_0, lane), lane_1);
  folded = _mm_xor_si128(move_on(folded, lane), lane_2);
  folded = _mm_xor_si128(move_on(folded, lane), lane_3);
  for (; size_bytes - done >= kLaneBytes; done += kLaneBytes) {
    folded = _mm_xor_si128(move_on(folded, lane), load(at + done));
  }
  // 4. The tables for what is left.
  std::array<std::byte, kLaneBytes> last;
  std::memcpy(last.data(), &folded, last.size());
  return remainder(remainder(0, last.data(), last.size()), at + done, size_bytes - done);
}

#endif

}  // namespace

std::uint32_t crc32_portable(std::uint32_t crc, std::span<const std::byte> bytes) noexcept {
  return ~remainder(~crc, bytes.data(), bytes.size());
}

std::uint32_t crc32(std::uint32_t crc, std::span<const std::byte> bytes) noexcept {
#if defined(__x86_64__)
  static const bool can_fold = __builtin_cpu_supports("pclmul") != 0;
  if (can_fold && bytes.size() >= kStepBytes) {
    return ~remainder_by_folding(~crc, bytes.data(), bytes.size());
  }
#endif
  return crc32_portable(crc, bytes);
}

}  // namespace rungs::verbs::soft
