#include "bulk_reduce.hpp"

#include <rungs/core/dtype.hpp>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace rungs::emulator {
namespace {

using gpu::BulkReduction;
using gpu::TensorElement;

// binary16 as a float, exactly.
float half_to_float(std::uint16_t bits) {
  const std::uint32_t sign = std::uint32_t{bits & 0x8000u} << 16;
  const std::uint32_t exponent = bits >> 10 & 31u;
  const std::uint32_t fraction = bits & 0x3ffu;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | fraction << 13);
  if (exponent == 0) {
    const float magnitude = std::ldexp(static_cast<float>(fraction), -24);
    return sign != 0 ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
}

// To the nearest binary16, ties to even.
std::uint16_t float_to_half(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000u);
  if (std::isnan(value)) return 0x7fff;
  const float magnitude = std::fabs(value);
  if (magnitude >= 65520.0f) return static_cast<std::uint16_t>(sign | 0x7c00u);
  if (magnitude < std::ldexp(1.0f, -14)) {  // subnormal: multiples of 2^-24
    return static_cast<std::uint16_t>(
        sign | static_cast<std::uint16_t>(std::nearbyint(std::ldexp(magnitude, 24))));
  }
  const std::uint32_t wide = std::bit_cast<std::uint32_t>(magnitude) - (112u << 23);
  return static_cast<std::uint16_t>(sign | (wide + 0xfffu + (wide >> 13 & 1u)) >> 13);
}

float flushed(float value) {
  return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0f, value) : value;
}

// Two 16-bit floats have a sum that rounds the same from float as from the exact value:
// 24 bits are at least 2 x 11 + 2.
template <class T>
struct Half {
  std::uint16_t bits;
  [[nodiscard]] float wide() const {
    if constexpr (std::is_same_v<T, bf16>) {
      return to_float(bf16{bits});
    } else {
      return half_to_float(bits);
    }
  }
  static Half narrow(float value) {
    if constexpr (std::is_same_v<T, bf16>) {
      return {to_bf16(value).bits};
    } else {
      return {float_to_half(value)};
    }
  }
};
struct binary16;

template <class T>
T sum(T a, T b) {
  if constexpr (std::is_same_v<T, float>) {
    return flushed(flushed(a) + flushed(b));
  } else if constexpr (std::is_same_v<T, double>) {
    return a + b;
  } else if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
  } else {
    return T::narrow(a.wide() + b.wide());
  }
}

template <class T>
T extreme(T a, T b, bool larger) {
  if constexpr (std::is_arithmetic_v<T>) {
    return larger == (a < b) ? b : a;
  } else {
    const float x = a.wide(), y = b.wide();
    if (std::isnan(x) && std::isnan(y)) return {0x7fff};
    if (std::isnan(x)) return b;
    if (std::isnan(y)) return a;
    if (x == y) return (std::signbit(x) == larger) ? b : a;  // -0 is below +0
    return larger == (x < y) ? b : a;
  }
}

template <class T>
T combine(T old, T x, BulkReduction reduction) {
  switch (reduction) {
    case BulkReduction::kAdd:
      return sum(old, x);
    case BulkReduction::kMin:
      return extreme(old, x, false);
    case BulkReduction::kMax:
      return extreme(old, x, true);
    default:
      break;
  }
  if constexpr (std::is_integral_v<T>) {
    switch (reduction) {
      case BulkReduction::kInc:
        return old >= x ? T{0} : static_cast<T>(old + 1);
      case BulkReduction::kDec:
        return old == 0 || old > x ? x : static_cast<T>(old - 1);
      case BulkReduction::kAnd:
        return old & x;
      case BulkReduction::kOr:
        return old | x;
      case BulkReduction::kXor:
        return old ^ x;
      default:
        break;
    }
  }
  return old;
}

// Other workers may reduce into the same elements at the same time.
template <class T, class Bits>
void reduce_each(std::byte* destination, const std::byte* source, std::size_t size_bytes,
                 BulkReduction reduction) {
  static_assert(sizeof(T) == sizeof(Bits));
  for (std::size_t i = 0; i < size_bytes; i += sizeof(T)) {
    T x;
    std::memcpy(&x, source + i, sizeof(x));
    auto* at = reinterpret_cast<Bits*>(destination + i);
    Bits old = __atomic_load_n(at, __ATOMIC_RELAXED);
    Bits fresh;
    do {
      fresh = std::bit_cast<Bits>(combine(std::bit_cast<T>(old), x, reduction));
    } while (
        !__atomic_compare_exchange_n(at, &old, fresh, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  }
}

}  // namespace

const char* name_of(BulkReduction reduction) {
  constexpr const char* kNames[] = {"add", "min", "max", "inc", "dec", "and", "or", "xor"};
  return kNames[static_cast<std::size_t>(reduction)];
}

const char* name_of(TensorElement element) {
  constexpr const char* kNames[] = {"u8",  "u16", "u32",  "s32",     "u64",  "s64",     "f16",
                                    "f32", "f64", "bf16", "f32_ftz", "tf32", "tf32_ftz"};
  return kNames[static_cast<std::size_t>(element)];
}

bool reduction_exists(BulkReduction reduction, TensorElement element, bool global) {
  const auto any = [element](auto... elements) { return ((element == elements) || ...); };
  using E = TensorElement;
  switch (reduction) {
    case BulkReduction::kAdd:
      return any(E::kU32, E::kI32, E::kU64) || (global && any(E::kF32, E::kF64, E::kF16, E::kBf16));
    case BulkReduction::kMin:
    case BulkReduction::kMax:
      return any(E::kU32, E::kI32) || (global && any(E::kU64, E::kI64, E::kF16, E::kBf16));
    case BulkReduction::kInc:
    case BulkReduction::kDec:
      return any(E::kU32);
    case BulkReduction::kAnd:
    case BulkReduction::kOr:
    case BulkReduction::kXor:
      return any(E::kU32, E::kI32) || (global && any(E::kU64, E::kI64));
  }
  return false;
}

void reduce_elements(std::byte* destination, const std::byte* source, std::size_t size_bytes,
                     BulkReduction reduction, TensorElement element) {
  switch (element) {
    case TensorElement::kU32:
      return reduce_each<std::uint32_t, std::uint32_t>(destination, source, size_bytes, reduction);
    case TensorElement::kI32:
      return reduce_each<std::int32_t, std::uint32_t>(destination, source, size_bytes, reduction);
    case TensorElement::kU64:
      return reduce_each<std::uint64_t, std::uint64_t>(destination, source, size_bytes, reduction);
    case TensorElement::kI64:
      return reduce_each<std::int64_t, std::uint64_t>(destination, source, size_bytes, reduction);
    case TensorElement::kF16:
      return reduce_each<Half<binary16>, std::uint16_t>(destination, source, size_bytes, reduction);
    case TensorElement::kBf16:
      return reduce_each<Half<bf16>, std::uint16_t>(destination, source, size_bytes, reduction);
    case TensorElement::kF32:
      return reduce_each<float, std::uint32_t>(destination, source, size_bytes, reduction);
    case TensorElement::kF64:
      return reduce_each<double, std::uint64_t>(destination, source, size_bytes, reduction);
    default:
      return;
  }
}

}  // namespace rungs::emulator
