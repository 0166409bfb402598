#include "fixture.hpp"
#include "memory_conformance.hpp"

#include <rungs/testing/conforms.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

namespace rungs::ptx::test {
namespace {

constexpr std::uint64_t kStart = 0x0f0f0f0f0f0f0f0full;

void start(AtomicTable& table) {
  std::memset(&table, 0, sizeof(table));
  for (int row = 0; row < 10; row++) {
    for (int order = 0; order < 4; order++) {
      const std::uint64_t value = row < 6 ? kStart : 0;
      table.u32[row][order] = static_cast<std::uint32_t>(value);
      table.i32[row][order] = static_cast<std::int32_t>(value);
      table.u64[row][order] = value;
      table.i64[row][order] = static_cast<std::int64_t>(value);
    }
  }
  for (int row = 0; row < 8; row++) {
    for (std::uint32_t& cell : table.reds[row]) cell = row == 3 ? ~0u : row == 1 ? 5000 : 3;
  }
}

// One thread's operations with one scope, on the columns of all orders.
template <class T>
void apply(T (*cells)[4], std::uint32_t thread) {
  for (int order = 0; order < 4; order++) {
    const auto value = static_cast<T>(std::int64_t{thread} * 3 - 300);
    const T bit = static_cast<T>(T{1} << thread % (8 * sizeof(T) - 1));
    const auto wide = [](T x) { return static_cast<std::uint64_t>(x); };
    cells[0][order] = static_cast<T>(wide(cells[0][order]) + wide(value));
    cells[1][order] = std::min(cells[1][order], value);
    cells[2][order] = std::max(cells[2][order], value);
    cells[3][order] = static_cast<T>(wide(cells[3][order]) & ~(wide(bit) & 0x55555555u));
    cells[4][order] = static_cast<T>(wide(cells[4][order]) | (wide(bit) & 0x33333333u));
    cells[5][order] = static_cast<T>(wide(cells[5][order]) ^ wide(value));
    cells[8][order] = 42;
    if (cells[9][order] == 0) {
      cells[9][order] = 7;
      cells[6][order] += 1000;
    }
  }
}

void apply(AtomicTable& table, std::uint32_t thread, int scope) {
  apply(table.u32, thread);
  apply(table.i32, thread);
  apply(table.u64, thread);
  apply(table.i64, thread);
  for (std::uint32_t& cell : table.u32[7]) cell = cell >= 99 ? 0 : cell + 1;
  for (const std::uint32_t factor : {1u, 7u}) {  // relaxed, release
    const auto red = [&](int row) -> std::uint32_t& { return table.reds[row][scope]; };
    red(0) += thread;
    red(1) = std::min(red(1), 1000 - thread);
    red(2) = std::max(red(2), thread * 5);
    red(3) &= ~(1u << thread % 16);
    red(4) |= 1u << thread % 16;
    red(5) ^= thread * factor;
    red(6) = red(6) >= 50 ? 0 : red(6) + 1;
    red(7) = red(7) == 0 || red(7) > 70 ? 70 : red(7) - 1;
  }
}

TEST_F(Conformance, EveryAtomic) {
  testing::conforms(
      "atom_add atom_min atom_max atom_and atom_or atom_xor atom_inc atom_exch atom_cas "
      "red_add red_min red_max red_and red_or red_xor red_inc red_dec atom_exch_b128 atom_cas_b128 "
      "red_add_v2 red_add_v4");
  std::vector<AtomicTable> tables(5);
  for (AtomicTable& table : tables) start(table);
  const auto buffer = upload(tables);
  launch_atomic_table(nullptr, buffer.data());
  for (std::uint32_t thread = 0; thread < 256; thread++) {
    for (const int scope : {0, 1}) apply(tables[thread / 64], thread, scope);
    for (const int scope : {2, 3}) apply(tables[4], thread, scope);
    const auto real = static_cast<float>(thread);
    AtomicTable& table = tables[4];
    const float floats[12] = {real, real * 0.5f, 0, 0, 1, real, -real, 0.25f, 2, real, 0, 0};
    for (int i = 0; i < 12; i++) table.f32[i] += floats[i];
    table.f64[0] += thread * 0.125;
    table.f64[1] += 1;
  }
  const std::uint64_t wide[8] = {5, 6, 7, 8, 0, 128, 0, 0};  // 256 · 2^63 = 128 · 2^64
  std::memcpy(tables[4].wide, wide, sizeof(wide));
  const std::vector<AtomicTable> out = buffer.download();
  for (std::size_t i = 0; i < 5; i++) {
    const auto words = [](const AtomicTable& table) {
      std::vector<std::uint32_t> all(sizeof(table) / 4);
      std::memcpy(all.data(), &table, sizeof(table));
      return all;
    };
    EXPECT_EQ(words(out[i]), words(tables[i])) << i;
  }
}

// Sums of all sizes, subnormals too; no NaN and no infinity, whose bits are another matter.
constexpr unsigned kSums = 4096;

float of_half(std::uint16_t half) {
  const int exponent = half >> 10 & 31;
  const float size = exponent == 0
                         ? std::ldexp(static_cast<float>(half & 1023), -24)
                         : std::ldexp(static_cast<float>(1024 + (half & 1023)), exponent - 25);
  return half >> 15 != 0 ? -size : size;
}

// The number of the format that is nearest to the exact sum, by trying all 65536.
std::uint16_t nearest(double sum, bool negative_zero, float (*of)(std::uint16_t),
                      std::uint16_t largest) {
  // Positive numbers of either format are ordered as their bits.
  std::uint16_t low = 0;
  std::uint16_t high = largest;
  const double size = std::fabs(sum);
  while (high - low > 1) {
    const auto middle = static_cast<std::uint16_t>((low + high) / 2);
    (static_cast<double>(of(middle)) <= size ? low : high) = middle;
  }
  if (static_cast<double>(of(high)) <= size) low = high;
  const double below = size - static_cast<double>(of(low));
  const double above = static_cast<double>(of(high)) - size;
  std::uint16_t result = low;
  if (low != high && (above < below || (above == below && low % 2 == 1))) result = high;
  const bool negative = sum < 0 || (sum == 0 && negative_zero);
  return static_cast<std::uint16_t>(result | (negative ? 0x8000 : 0));
}

float of_bf16(std::uint16_t bits) { return to_float(bf16{bits}); }

float flushed(float value) {
  return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0f, value) : value;
}

TEST_F(Conformance, FloatSums) {
  testing::conforms("atom_add red_add");
  std::mt19937 random(7);
  std::vector<SumCase> f32(kSums), f16(kSums), bf16s(kSums);
  const auto real = [&](unsigned i) {  // exponents near each other; every fourth near the smallest
    const auto exponent = static_cast<std::uint32_t>((i % 4 == 0 ? 0 : 100) + random() % 6);
    return static_cast<std::uint32_t>(random() & 0x807fffffu) | exponent << 23;
  };
  const auto small_half = [&] { return random() & 0xbfffu & ~0x4000u; };  // below 2
  const auto small_bf16 = [&](unsigned i) {
    return (random() & 0x807fu) | (i % 4 == 0 ? random() % 4 : 100 + random() % 8) << 7;
  };
  for (unsigned i = 0; i < kSums; i++) {
    f32[i] = {real(i), real(i), 0xdead};
    f16[i] = {static_cast<std::uint32_t>(small_half() | small_half() << 16),
              static_cast<std::uint32_t>(small_half() | small_half() << 16), 0xdead};
    bf16s[i] = {static_cast<std::uint32_t>(small_bf16(i) | small_bf16(i) << 16),
                static_cast<std::uint32_t>(small_bf16(i) | small_bf16(i) << 16), 0xdead};
  }
  const auto d32 = upload(f32), d16 = upload(f16), db16 = upload(bf16s), shared = upload(f32);
  launch_sums(nullptr, d32.data(), d16.data(), db16.data(), kSums);
  launch_shared_sums(nullptr, shared.data(), kSums);
  const auto r32 = d32.download(), r16 = d16.download(), rb16 = db16.download(),
             rs = shared.download();
  const auto pair = [](const SumCase& c, float (*of)(std::uint16_t), std::uint16_t largest) {
    std::uint32_t result = 0;
    for (const int shift : {0, 16}) {
      const auto a = static_cast<std::uint16_t>(c.cell >> shift);
      const auto b = static_cast<std::uint16_t>(c.addend >> shift);
      result |= std::uint32_t{nearest(static_cast<double>(of(a)) + static_cast<double>(of(b)),
                                      (a & b & 0x8000) != 0, of, largest)}
                << shift;
    }
    return result;
  };
  for (unsigned i = 0; i < kSums; i++) {
    const auto a = std::bit_cast<float>(f32[i].cell), b = std::bit_cast<float>(f32[i].addend);
    EXPECT_EQ(r32[i].before, f32[i].cell);
    EXPECT_EQ(r32[i].cell, std::bit_cast<std::uint32_t>(flushed(flushed(a) + flushed(b))))
        << a << " + " << b;
    EXPECT_EQ(rs[i].before, f32[i].cell);
    EXPECT_EQ(rs[i].cell, std::bit_cast<std::uint32_t>(a + b)) << a << " + " << b;
    EXPECT_EQ(r16[i].before, f16[i].cell);
    EXPECT_EQ(r16[i].cell, pair(f16[i], of_half, 0x7bff)) << std::hex << f16[i].cell;
    EXPECT_EQ(rb16[i].before, bf16s[i].cell);
    EXPECT_EQ(rb16[i].cell, pair(bf16s[i], of_bf16, 0x7f7f)) << std::hex << bf16s[i].cell;
  }
}

}  // namespace
}  // namespace rungs::ptx::test
