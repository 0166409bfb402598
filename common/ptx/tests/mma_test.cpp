#include "fixture.hpp"
#include "warp_conformance.hpp"

#include <rungs/core/dtype.hpp>
#include <rungs/testing/conforms.hpp>
#include <rungs/testing/random.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace rungs::ptx::test {
namespace {

enum class Type { kF16, kBf16, kTf32, kE4M3, kE5M2, kS8, kU8, kF32, kS32 };

struct Instruction {
  Mma which;
  const char* name;
  int k;
  Type a, b, d;
  bool saturate = false;
};

constexpr Instruction kFloats[] = {
    {Mma::kBf16K8, "bf16 k8", 8, Type::kBf16, Type::kBf16, Type::kF32},
    {Mma::kBf16K16, "bf16 k16", 16, Type::kBf16, Type::kBf16, Type::kF32},
    {Mma::kF16K8, "f16 k8", 8, Type::kF16, Type::kF16, Type::kF32},
    {Mma::kF16K16, "f16 k16", 16, Type::kF16, Type::kF16, Type::kF32},
    {Mma::kF16AccumulatorK8, "f16 f16 k8", 8, Type::kF16, Type::kF16, Type::kF16},
    {Mma::kF16AccumulatorK16, "f16 f16 k16", 16, Type::kF16, Type::kF16, Type::kF16},
    {Mma::kTf32K4, "tf32 k4", 4, Type::kTf32, Type::kTf32, Type::kF32},
    {Mma::kTf32K8, "tf32 k8", 8, Type::kTf32, Type::kTf32, Type::kF32},
    {Mma::kE4M3, "e4m3 e4m3", 32, Type::kE4M3, Type::kE4M3, Type::kF32},
    {Mma::kE4M3E5M2, "e4m3 e5m2", 32, Type::kE4M3, Type::kE5M2, Type::kF32},
    {Mma::kE5M2E4M3, "e5m2 e4m3", 32, Type::kE5M2, Type::kE4M3, Type::kF32},
    {Mma::kE5M2, "e5m2 e5m2", 32, Type::kE5M2, Type::kE5M2, Type::kF32},
};

std::vector<Instruction> integer_instructions() {
  const Type pairs[4][2] = {{Type::kS8, Type::kS8},
                            {Type::kS8, Type::kU8},
                            {Type::kU8, Type::kS8},
                            {Type::kU8, Type::kU8}};
  std::vector<Instruction> all;
  for (int i = 0; i < 16; i++) {
    const auto which = static_cast<Mma>(static_cast<int>(Mma::kS8K16) + i);
    all.push_back({which, "i8", i / 4 % 2 == 0 ? 16 : 32, pairs[i % 4][0], pairs[i % 4][1],
                   Type::kS32, i >= 8});
  }
  return all;
}

int bits_of(Type type) {
  switch (type) {
    case Type::kF16:
    case Type::kBf16:
      return 16;
    case Type::kTf32:
    case Type::kF32:
    case Type::kS32:
      return 32;
    default:
      return 8;
  }
}

std::uint32_t encode(Type type, double value) {
  const auto f = static_cast<float>(value);
  switch (type) {
    case Type::kF16:
      return to_f16(f).bits;
    case Type::kBf16:
      return to_bf16(f).bits;
    case Type::kTf32:
      return std::bit_cast<std::uint32_t>(f) & 0xffffe000u;
    case Type::kE4M3:
      return to_f8e4m3(f).bits;
    case Type::kE5M2:
      return to_f8e5m2(f).bits;
    case Type::kF32:
      return std::bit_cast<std::uint32_t>(f);
    case Type::kS32:
      return static_cast<std::uint32_t>(static_cast<std::int32_t>(value));
    default:
      return static_cast<std::uint32_t>(static_cast<int>(value)) & 0xff;
  }
}

double decode(Type type, std::uint32_t bits) {
  switch (type) {
    case Type::kF16:
      return to_float(f16{static_cast<std::uint16_t>(bits)});
    case Type::kBf16:
      return to_float(bf16{static_cast<std::uint16_t>(bits)});
    case Type::kTf32:
    case Type::kF32:
      return std::bit_cast<float>(bits);
    case Type::kE4M3:
      return to_float(f8e4m3{static_cast<std::uint8_t>(bits)});
    case Type::kE5M2:
      return to_float(f8e5m2{static_cast<std::uint8_t>(bits)});
    case Type::kS8:
      return static_cast<std::int8_t>(bits);
    case Type::kU8:
      return static_cast<std::uint8_t>(bits);
    case Type::kS32:
      return static_cast<std::int32_t>(bits);
  }
  return 0;
}

struct Place {
  int row, column;
};

// Where element i of a lane's fragment lies: the tables of the PTX ISA, shape by shape.
Place place_in_a(int bits, int k, int lane, int i) {
  const int g = lane / 4, t = lane % 4;
  if (bits == 32 && k == 4) return {i == 0 ? g : g + 8, t};
  if (bits == 32) return {i == 0 || i == 2 ? g : g + 8, i < 2 ? t : t + 4};
  if (bits == 16 && k == 8) return {i < 2 ? g : g + 8, t * 2 + (i & 1)};
  if (bits == 16)
    return {i < 2 || (i >= 4 && i < 6) ? g : g + 8, i < 4 ? t * 2 + (i & 1) : t * 2 + (i & 1) + 8};
  if (k == 16) return {i < 4 ? g : g + 8, t * 4 + (i & 3)};
  return {i < 4 || (i >= 8 && i < 12) ? g : g + 8, i < 8 ? t * 4 + (i & 3) : t * 4 + (i & 3) + 16};
}
Place place_in_b(int bits, int k, int lane, int i) {
  const int g = lane / 4, t = lane % 4;
  if (bits == 32 && k == 4) return {t, g};
  if (bits == 32) return {i == 0 ? t : t + 4, g};
  if (bits == 16 && k == 8) return {t * 2 + i, g};
  if (bits == 16) return {i < 2 ? t * 2 + (i & 1) : t * 2 + (i & 1) + 8, g};
  if (k == 16) return {t * 4 + i, g};
  return {i < 4 ? t * 4 + (i & 3) : t * 4 + (i & 3) + 16, g};
}
Place place_in_d(int lane, int i) {
  return {i < 2 ? lane / 4 : lane / 4 + 8, lane % 4 * 2 + (i & 1)};
}

struct Matrices {
  double a[16][32], b[32][8], c[16][8], d[16][8];
};

class MmaConformance : public Conformance {
 protected:
  // Encodes the matrices (rounding them to their types), multiplies, and decodes D.
  void run(const Instruction& what, Matrices& m) {
    std::vector<std::uint32_t> a(128, 0), b(128, 0), c(128, 0);
    const auto put = [](std::vector<std::uint32_t>& registers, Type type, int lane, int i,
                        double& value) {
      const int each = 32 / bits_of(type);
      const std::uint32_t bits = encode(type, value);
      value = decode(type, bits);
      registers[static_cast<std::size_t>(lane * 4 + i / each)] |= bits << i % each * bits_of(type);
    };
    const int a_count = 16 * what.k / 32, b_count = 8 * what.k / 32;
    for (int lane = 0; lane < 32; lane++) {
      for (int i = 0; i < a_count; i++) {
        const Place p = place_in_a(bits_of(what.a), what.k, lane, i);
        put(a, what.a, lane, i, m.a[p.row][p.column]);
      }
      for (int i = 0; i < b_count; i++) {
        const Place p = place_in_b(bits_of(what.b), what.k, lane, i);
        put(b, what.b, lane, i, m.b[p.row][p.column]);
      }
      for (int i = 0; i < 4; i++) {
        const Place p = place_in_d(lane, i);
        put(c, what.d, lane, i, m.c[p.row][p.column]);
      }
    }
    const auto device_a = upload(a), device_b = upload(b), device_c = upload(c);
    const auto buffer = filled<std::uint32_t>(128, 0xffffffff);
    launch_mma(nullptr, what.which, device_a.data(), device_b.data(), device_c.data(),
               buffer.data());
    const std::vector<std::uint32_t> d = buffer.download();
    for (int lane = 0; lane < 32; lane++) {
      for (int i = 0; i < 4; i++) {
        const int each = 32 / bits_of(what.d);
        const Place p = place_in_d(lane, i);
        m.d[p.row][p.column] = decode(
            what.d, d[static_cast<std::size_t>(lane * 4 + i / each)] >> i % each * bits_of(what.d));
      }
    }
  }

  static void fill(const Instruction& what, Matrices& m, const std::function<double()>& next_a,
                   const std::function<double()>& next_b, const std::function<double()>& next_c) {
    for (int r = 0; r < 16; r++) {
      for (int k = 0; k < what.k; k++) m.a[r][k] = next_a();
    }
    for (int k = 0; k < what.k; k++) {
      for (int n = 0; n < 8; n++) m.b[k][n] = next_b();
    }
    for (int r = 0; r < 16; r++) {
      for (int n = 0; n < 8; n++) m.c[r][n] = next_c();
    }
  }
};

// Which element meets which: all sums are exact, so the result is known to the bit.
TEST_F(MmaConformance, FloatsOfSmallIntegers) {
  testing::conforms(
      "mma_m16n8k8_bf16 mma_m16n8k16_bf16 mma_m16n8k8_f16 mma_m16n8k16_f16 mma_m16n8k8_f16_f16 "
      "mma_m16n8k16_f16_f16 mma_m16n8k4_tf32 mma_m16n8k8_tf32 mma_m16n8k32_f8");
  for (const Instruction& what : kFloats) {
    testing::Random random(21);
    const auto next = [&random] { return static_cast<double>(random.below(9)) - 4; };
    Matrices m;
    fill(what, m, next, next, next);
    run(what, m);
    for (int r = 0; r < 16; r++) {
      for (int n = 0; n < 8; n++) {
        double sum = m.c[r][n];
        for (int k = 0; k < what.k; k++) sum += m.a[r][k] * m.b[k][n];
        ASSERT_EQ(m.d[r][n], sum) << what.name << " (" << r << ", " << n << ")";
      }
    }
  }
}

// Random values: within the bound that mma.hpp states.
TEST_F(MmaConformance, FloatsWithinTheirBound) {
  testing::conforms(
      "mma_m16n8k8_bf16 mma_m16n8k16_bf16 mma_m16n8k8_f16 mma_m16n8k16_f16 mma_m16n8k8_f16_f16 "
      "mma_m16n8k16_f16_f16 mma_m16n8k4_tf32 mma_m16n8k8_tf32 mma_m16n8k32_f8");
  for (const Instruction& what : kFloats) {
    for (std::uint64_t seed = 30; seed < 34; seed++) {
      testing::Random random(seed);
      const auto next = [&random] { return random.normal(); };
      Matrices m;
      fill(what, m, next, next, next);
      run(what, m);
      const double each = bits_of(what.a) == 8 ? what.k * std::ldexp(1, -13)
                          : what.d == Type::kF16
                              ? (4 + std::ldexp(what.k, -10)) * std::ldexp(1, -11)
                              : what.k * std::ldexp(1, -22);
      for (int r = 0; r < 16; r++) {
        for (int n = 0; n < 8; n++) {
          double sum = m.c[r][n], size = std::fabs(m.c[r][n]);
          for (int k = 0; k < what.k; k++) {
            sum += m.a[r][k] * m.b[k][n];
            size += std::fabs(m.a[r][k] * m.b[k][n]);
          }
          ASSERT_LE(std::fabs(m.d[r][n] - sum), each * size)
              << what.name << " (" << r << ", " << n << "): " << m.d[r][n] << ", want " << sum;
        }
      }
    }
  }
}

// Saturation is compared where it does not matter in which order the products are added: all of
// them have one sign.
TEST_F(MmaConformance, Integers) {
  testing::conforms("mma_m16n8k16_i8 mma_m16n8k32_i8");
  constexpr double kHigh = std::numeric_limits<std::int32_t>::max();
  constexpr double kLow = std::numeric_limits<std::int32_t>::min();
  for (const Instruction& what : integer_instructions()) {
    for (const bool negative : {false, true}) {
      if (negative && what.a != Type::kS8) continue;
      testing::Random random(negative ? 41 : 42);
      const auto any = [&random](Type type) {
        return static_cast<double>(random.below(256)) - (type == Type::kS8 ? 128 : 0);
      };
      const auto positive = [&random](Type type) {
        return static_cast<double>(random.below(type == Type::kS8 ? 128 : 256));
      };
      const auto next_a = [&] {
        return !what.saturate ? any(what.a) : negative ? -positive(what.a) - 1 : positive(what.a);
      };
      const auto next_b = [&] { return what.saturate ? positive(what.b) : any(what.b); };
      // Accumulators near both ends of the range, so that some sums leave it.
      const auto next_c = [&random] {
        const auto distance = static_cast<double>(random.below(100000));
        const std::uint64_t kind = random.below(3);
        return kind == 0 ? distance - 50000 : kind == 1 ? kHigh - distance : kLow + distance;
      };
      Matrices m;
      fill(what, m, next_a, next_b, next_c);
      run(what, m);
      int outside = 0;
      for (int r = 0; r < 16; r++) {
        for (int n = 0; n < 8; n++) {
          double sum = m.c[r][n];
          for (int k = 0; k < what.k; k++) sum += m.a[r][k] * m.b[k][n];
          if (sum > kHigh || sum < kLow) {
            outside++;
            if (what.saturate) {
              sum = sum > kHigh ? kHigh : kLow;
            } else {
              sum += sum > kHigh ? -4294967296.0 : 4294967296.0;
            }
          }
          ASSERT_EQ(m.d[r][n], sum)
              << "k " << what.k << " types " << static_cast<int>(what.a) << " "
              << static_cast<int>(what.b) << " saturate " << what.saturate << " negative "
              << negative << " (" << r << ", " << n << ")";
        }
      }
      EXPECT_GT(outside, 0);
    }
  }
}

}  // namespace
}  // namespace rungs::ptx::test
