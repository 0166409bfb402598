// mma.sync m16n8kK: one multiplication of a warp, operands and result in its registers.
//
// Fragments, with g = lane / 4, t = lane % 4 and E = elements in a 32-bit register (1, 2 or 4):
//   A [16][k]  register r, element j: row g + 8 (r % 2), column E t + j + 4 E (r / 2)
//   B [k][8]   register r, element j: row E t + j + 4 E r, column g
//   C, D       element i: row g + 8 (i / 2), column 2 t + i % 2; two to a register if they are f16

#include <rungs/emulator/model_warp.hpp>

#include <rungs/core/dtype.hpp>

#include "gathering.hpp"
#include "report.hpp"
#include "sanitizer.hpp"
#include "worker.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

namespace rungs::emulator {
namespace {

using model::MmaShape;
using model::MmaType;

constexpr int kM = 16;
constexpr int kN = 8;
constexpr int kMaxK = 32;
constexpr std::uint32_t kNaN = 0x7fffffff;

struct Lane {
  MmaShape shape;
  std::uint32_t* d;
  const std::uint32_t* a;
  const std::uint32_t* b;
  const std::uint32_t* c;
};

constexpr int elements_a_register(MmaType type) {
  switch (type) {
    case MmaType::kF16:
    case MmaType::kBf16:
      return 2;
    case MmaType::kE4M3:
    case MmaType::kE5M2:
    case MmaType::kS8:
    case MmaType::kU8:
      return 4;
    default:
      return 1;
  }
}

bool is_integer(MmaType type) { return type == MmaType::kS8 || type == MmaType::kU8; }
bool is_float8(MmaType type) { return type == MmaType::kE4M3 || type == MmaType::kE5M2; }

float float_of(std::uint32_t bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof(value));
  return value;
}
std::uint32_t bits_of(float value) {
  std::uint32_t bits;
  __builtin_memcpy(&bits, &value, sizeof(bits));
  return bits;
}

// Element j of a register, exact. A tf32 has the upper 19 bits of a float: the others are ignored.
template <MmaType kType>
double element(std::uint32_t bits, int j) {
  const auto half = static_cast<std::uint16_t>(bits >> 16 * (j & 1));
  const auto byte = static_cast<std::uint8_t>(bits >> 8 * (j & 3));
  switch (kType) {
    case MmaType::kF16:
      return to_float(f16{half});
    case MmaType::kBf16:
      return to_float(bf16{half});
    case MmaType::kTf32:
      return float_of(bits & ~0x1fffu);
    case MmaType::kE4M3:
      return to_float(f8e4m3{byte});
    case MmaType::kE5M2:
      return to_float(f8e5m2{byte});
    case MmaType::kS8:
      return static_cast<std::int8_t>(byte);
    case MmaType::kU8:
      return byte;
    case MmaType::kF32:
      return float_of(bits);
    case MmaType::kS32:
      return static_cast<std::int32_t>(bits);
  }
  return 0;
}

// Calls visit.operator()<type>().
template <class Visit>
void with_type(MmaType type, Visit&& visit) {
  switch (type) {
    case MmaType::kF16:
      return visit.template operator()<MmaType::kF16>();
    case MmaType::kBf16:
      return visit.template operator()<MmaType::kBf16>();
    case MmaType::kTf32:
      return visit.template operator()<MmaType::kTf32>();
    case MmaType::kE4M3:
      return visit.template operator()<MmaType::kE4M3>();
    case MmaType::kE5M2:
      return visit.template operator()<MmaType::kE5M2>();
    case MmaType::kS8:
      return visit.template operator()<MmaType::kS8>();
    case MmaType::kU8:
      return visit.template operator()<MmaType::kU8>();
    case MmaType::kF32:
      return visit.template operator()<MmaType::kF32>();
    case MmaType::kS32:
      return visit.template operator()<MmaType::kS32>();
  }
}

std::uint32_t float_result(double sum) {
  return std::isnan(sum) ? kNaN : bits_of(static_cast<float>(sum));
}

// Rounds twice, which is within the bound stated at the wrapper.
std::uint32_t half_result(double sum) { return to_f16(static_cast<float>(sum)).bits; }

// A double holds every sum of integers that can occur.
std::uint32_t integer_result(double sum, bool saturate) {
  constexpr double kLow = std::numeric_limits<std::int32_t>::min();
  constexpr double kHigh = std::numeric_limits<std::int32_t>::max();
  if (saturate) sum = std::clamp(sum, kLow, kHigh);
  return static_cast<std::uint32_t>(static_cast<std::int64_t>(sum));
}

const Lane& lane_of(const Gathering& gathering, unsigned lane) {
  return *static_cast<const Lane*>(gathering.operands[lane]);
}

struct Operands {
  double a[kM][kMaxK];
  double b[kMaxK][kN];
  double sum[kM][kN];  // C, then D
};

template <MmaType kType>
void take_a(const Gathering& gathering, int k, Operands& operands) {
  constexpr int kE = elements_a_register(kType);
  for (unsigned lane = 0; lane < 32; lane++) {
    const std::uint32_t* registers = lane_of(gathering, lane).a;
    const unsigned g = lane / 4, t = lane % 4;
    for (int r = 0; r < k / (2 * kE); r++) {
      double* to = &operands.a[g + 8u * (r % 2)][kE * t + 4u * kE * (r / 2)];
      for (int j = 0; j < kE; j++) to[j] = element<kType>(registers[r], j);
    }
  }
}

template <MmaType kType>
void take_b(const Gathering& gathering, int k, Operands& operands) {
  constexpr int kE = elements_a_register(kType);
  for (unsigned lane = 0; lane < 32; lane++) {
    const std::uint32_t* registers = lane_of(gathering, lane).b;
    const unsigned g = lane / 4, t = lane % 4;
    for (int r = 0; r < k / (4 * kE); r++) {
      for (int j = 0; j < kE; j++)
        operands.b[kE * t + j + 4u * kE * r][g] = element<kType>(registers[r], j);
    }
  }
}

template <MmaType kType>
void take_c(const Gathering& gathering, Operands& operands) {
  for (unsigned lane = 0; lane < 32; lane++) {
    const std::uint32_t* registers = lane_of(gathering, lane).c;
    double* to = &operands.sum[lane / 4][2 * (lane % 4)];
    for (int i = 0; i < 4; i++)
      to[i / 2 * 8 * kN + i % 2] = element<kType>(registers[kType == MmaType::kF16 ? i / 2 : i], i);
  }
}

void take_fragments(const Gathering& gathering, const MmaShape& shape, Operands& operands) {
  with_type(shape.a, [&]<MmaType kType>() { take_a<kType>(gathering, shape.k, operands); });
  with_type(shape.b, [&]<MmaType kType>() { take_b<kType>(gathering, shape.k, operands); });
  with_type(shape.d, [&]<MmaType kType>() { take_c<kType>(gathering, operands); });
}

void give_fragments(const Gathering& gathering, const MmaShape& shape, const Operands& operands) {
  for (unsigned lane = 0; lane < 32; lane++) {
    std::uint32_t* d = lane_of(gathering, lane).d;
    const unsigned g = lane / 4, t = lane % 4;
    for (unsigned r = 0; r < 2; r++) {
      const double* pair = &operands.sum[g + 8 * r][2 * t];
      switch (shape.d) {
        case MmaType::kF16:
          d[r] = half_result(pair[0]) | half_result(pair[1]) << 16;
          break;
        case MmaType::kS32:
          d[2 * r] = integer_result(pair[0], shape.saturate);
          d[2 * r + 1] = integer_result(pair[1], shape.saturate);
          break;
        default:
          d[2 * r] = float_result(pair[0]);
          d[2 * r + 1] = float_result(pair[1]);
      }
    }
  }
}

// Text that stands on the stack: fail() does not return, so a std::string would leak.
struct Text {
  char characters[64] = "";
  [[nodiscard]] const char* c_str() const { return characters; }
};

Text name_of(const MmaShape& shape) {
  constexpr const char* kNames[] = {"f16", "bf16", "tf32", "e4m3", "e5m2",
                                    "s8",  "u8",   "f32",  "s32"};
  const auto name = [&](MmaType type) { return kNames[static_cast<int>(type)]; };
  Text text;
  std::snprintf(text.characters, sizeof(text.characters), "m16n8k%d%s.%s.%s.%s", shape.k,
                shape.saturate ? ".satfinite" : "", name(shape.d), name(shape.a), name(shape.b));
  return text;
}

void multiply(const Gathering& gathering, Location where) {
  const MmaShape& shape = lane_of(gathering, 0).shape;
  for (unsigned lane = 1; lane < 32; lane++) {
    const MmaShape& other = lane_of(gathering, lane).shape;
    if (other == shape) continue;
    fail(where, "lanes of a warp on different paths",
         "diverged warp: mma.sync %s of lane 0 meets %s of lane %u; .aligned: all lanes must "
         "execute the same instruction",
         name_of(shape).c_str(), name_of(other).c_str(), lane);
  }
  Operands operands;
  take_fragments(gathering, shape, operands);
  for (int m = 0; m < kM; m++) {
    for (int k = 0; k < shape.k; k++) {
      for (int n = 0; n < kN; n++) operands.sum[m][n] += operands.a[m][k] * operands.b[k][n];
    }
  }
  give_fragments(gathering, shape, operands);
  this_worker->counters.mma_flops += 2ull * kM * kN * static_cast<unsigned>(shape.k);
}

// What the wrappers offer; anything else would be computed by a rule that nobody has checked.
bool is_modelled(const MmaShape& shape) {
  if (is_integer(shape.a)) {
    return is_integer(shape.b) && shape.d == MmaType::kS32 && (shape.k == 16 || shape.k == 32);
  }
  if (shape.saturate) return false;
  if (is_float8(shape.a)) {
    return is_float8(shape.b) && shape.d == MmaType::kF32 && shape.k == 32;
  }
  if (shape.a != shape.b) return false;
  switch (shape.a) {
    case MmaType::kF16:
      return (shape.d == MmaType::kF16 || shape.d == MmaType::kF32) &&
             (shape.k == 8 || shape.k == 16);
    case MmaType::kBf16:
      return shape.d == MmaType::kF32 && (shape.k == 8 || shape.k == 16);
    case MmaType::kTf32:
      return shape.d == MmaType::kF32 && (shape.k == 4 || shape.k == 8);
    default:
      return false;
  }
}

}  // namespace

namespace model {

void mma(const MmaShape& shape, std::uint32_t* d, const std::uint32_t* a, const std::uint32_t* b,
         const std::uint32_t* c, Location where) {
  const sanitizer::Mute mute;
  if (!is_modelled(shape)) {
    fail(where, "the functions of rungs/ptx/mma.hpp", "mma.sync %s is not modelled",
         name_of(shape).c_str());
  }
  Lane lane{shape, d, a, b, c};
  gather_aligned("mma.sync", &lane, multiply, where);
}

}  // namespace model
}  // namespace rungs::emulator
