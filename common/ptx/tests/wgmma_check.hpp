#pragma once
/// @file wgmma_check.hpp
/// The fixture of the wgmma conformance tests: lays operands and accumulators out by hand, runs a
/// chain of one form and compares every element of D.

#include "fixture.hpp"
#include "wgmma_conformance.hpp"
#include "wgmma_layout.hpp"
#include "wgmma_oracle.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace rungs::ptx::test {

enum class Values {
  kSmall,    // whole numbers of which every partial sum is exact
  kRandom,   // of the type's full precision; integers of its full range
  kRising,   // integers that push the sum over the upper end
  kFalling,  // and the lower
  kHalfway,  // whole numbers whose sum an f16 must round, many halfway between two
  kSpecial,  // as kSmall, and now and then an infinity or NaN
  kFused     // FP8 of every finite pattern, for sums as the tensor core makes them
};

inline std::string name_of(const WgmmaForm& form) {
  static constexpr const char* kNames[] = {"f32",  "f16", "bf16", "tf32", "e4m3",
                                           "e5m2", "s32", "s8",   "u8"};
  const auto name = [](Element element) { return kNames[static_cast<int>(element)]; };
  return "m64n" + std::to_string(form.n) + "." + name(form.d) + "." + name(form.a) + "." +
         name(form.b) + (form.a_in_registers ? ", A in registers" : "") +
         (form.transpose_a ? ", A M-major" : "") + (form.transpose_b ? ", B N-major" : "") +
         (form.negate_a ? ", -A" : "") + (form.negate_b ? ", -B" : "") +
         (form.satfinite ? ", satfinite" : "");
}

class WgmmaTypes : public Conformance {
 protected:
  void check(const WgmmaForm& form, Swizzle swizzle_a, Swizzle swizzle_b, std::uint32_t steps,
             bool accumulate, Values values, bool gaps = false) {
    const auto n = static_cast<std::uint32_t>(form.n);
    Operand a{form.transpose_a, swizzle_a, 64, steps}, b{form.transpose_b, swizzle_b, n, steps};
    if ((!form.a_in_registers && !a.fits()) || !b.fits()) return;
    a.lay_out(!gaps ? 0 : swizzle_a == Swizzle::kNone ? 48 : 1024);
    b.lay_out(!gaps ? 0 : swizzle_b == Swizzle::kNone ? 16 : 1024);
    random_.seed(n * 131 + steps);
    finite_patterns_ = form.d == Element::kF32;  // in an f16 the products would overflow
    const std::uint32_t size = size_of(form.a), step_depth = 32 / size, depth = steps * step_depth;
    if (gaps && (b.end(size) > kWgmmaImageBytes ||
                 (!form.a_in_registers && a.end(size) > kWgmmaImageBytes)))
      return;

    // 1. The operands, as values and as the tensor core will read them.
    std::vector<double> left(64 * depth), right(n * depth);
    std::vector<std::uint32_t> image_a(
        form.a_in_registers ? steps * std::size_t{512} : kWgmmaImageBytes / 4, ~0u);
    std::vector<std::uint32_t> image_b(kWgmmaImageBytes / 4, ~0u);
    for (std::uint32_t row = 0; row < 64; row++) {
      for (std::uint32_t k = 0; k < depth; k++) {
        const std::uint32_t bits = draw(form.a, values, values == Values::kFalling);
        left[row * depth + k] = value_of(form.a, bits);
        std::uint32_t byte = 0;
        if (form.a_in_registers) {
          const FragmentPlace place = place_in_a(row, k % step_depth * size);
          byte =
              ((k / step_depth * 128 + place.thread) * 4 + place.register_index) * 4 + place.byte;
        } else {
          byte = a.place(row, k, size);
        }
        put(image_a, byte, bits, size);
      }
    }
    for (std::uint32_t column = 0; column < n; column++) {
      for (std::uint32_t k = 0; k < depth; k++) {
        const std::uint32_t bits = draw(form.b, values, false);
        right[column * depth + k] = value_of(form.b, bits);
        put(image_b, b.place(column, k, size), bits, size);
      }
    }
    // 2. C, by registers.
    const std::uint32_t d_size = size_of(form.d);
    std::vector<std::uint32_t> registers(std::size_t{64} * n * d_size / 4);
    std::vector<double> c(64 * n);
    for (std::uint32_t row = 0; row < 64; row++) {
      for (std::uint32_t column = 0; column < n; column++) {
        const std::uint32_t bits = draw_c(form.d, values);
        c[row * n + column] = accumulate ? value_of(form.d, bits) : 0;
        put(registers, register_byte(row, column, d_size), bits, d_size);
      }
    }
    // 3. The chain.
    const auto device_a = upload(image_a), device_b = upload(image_b), d = upload(registers);
    const WgmmaChain chain{static_cast<int>(steps),
                           accumulate,
                           a.leading,
                           a.stride,
                           a.advance,
                           b.leading,
                           b.stride,
                           b.advance,
                           swizzle_a,
                           swizzle_b};
    form.launch(nullptr, chain, device_a.data(), device_b.data(), d.data());
    const std::vector<std::uint32_t> result = d.download();
    // 4. Every element of D.
    const bool count_fused = values == Values::kRandom && n == 24 && form.d != Element::kS32;
    const double sign = form.negate_a != form.negate_b ? -1 : 1;
    for (std::uint32_t row = 0; row < 64; row++) {
      for (std::uint32_t column = 0; column < n; column++) {
        const std::uint32_t byte = register_byte(row, column, d_size);
        const std::uint32_t bits = result[byte / 4] >> byte % 4 * 8;
        const double seen = value_of(form.d, d_size == 2 ? bits & 0xffff : bits);
        double sum = c[row * n + column], magnitude = std::abs(sum);
        for (std::uint32_t step = 0; step < steps; step++) {
          double products = 0;
          for (std::uint32_t k = step * step_depth; k < (step + 1) * step_depth; k++) {
            products += sign * left[row * depth + k] * right[column * depth + k];
            magnitude += std::abs(left[row * depth + k] * right[column * depth + k]);
          }
          sum = form.d == Element::kS32
                    ? add_integers(static_cast<std::int32_t>(sum),
                                   static_cast<std::int64_t>(products), form.satfinite)
                    : sum + products;
        }
        if (values == Values::kFused || count_fused) {
          double fused = c[row * n + column];
          for (std::uint32_t step = 0; step < steps; step++) {
            FusedSum next(form.d, fused);
            for (std::uint32_t k = step * step_depth; k < (step + 1) * step_depth; k++)
              next.add_product(form.a, sign * left[row * depth + k], form.b,
                               right[column * depth + k]);
            fused = next.result(size == 1 ? 13 : 25);
          }
          fused_elements_++;
          fused_equal_ += seen == fused ? 1 : 0;
          if (values == Values::kFused) sum = fused;
        }
        if (values == Values::kSpecial && !std::isfinite(sum)) {
          ASSERT_TRUE(std::isnan(sum) ? std::isnan(seen) : seen == sum)
              << name_of(form) << " element " << row << ", " << column << ": " << seen
              << " instead of " << sum;
          continue;
        }
        const bool exact =
            values == Values::kSmall || values == Values::kSpecial || values == Values::kFused;
        const double bound = exact                        ? 0
                             : values == Values::kHalfway ? half_spacing(sum)
                                                          : bound_of(form, depth, steps, magnitude);
        ASSERT_TRUE(std::abs(seen - sum) <= bound)
            << name_of(form) << " steps " << steps << " spans " << span_of(swizzle_a) << "/"
            << span_of(swizzle_b) << " accumulate " << accumulate << " element " << row << ", "
            << column << ": " << seen << " instead of " << sum << ", bound " << bound;
      }
    }
  }

  static void put(std::vector<std::uint32_t>& words, std::uint32_t byte, std::uint32_t bits,
                  std::uint32_t size) {
    ASSERT_LE(byte + size, words.size() * 4);
    const std::uint32_t mask = size == 4 ? ~0u : (1u << 8 * size) - 1, shift = byte % 4 * 8;
    words[byte / 4] = (words[byte / 4] & ~(mask << shift)) | (bits & mask) << shift;
  }

  // How many results with n = 24 are those of FusedSum.
  std::uint32_t fused_elements_ = 0, fused_equal_ = 0;

 private:
  static std::uint32_t register_byte(std::uint32_t row, std::uint32_t column, std::uint32_t size) {
    const FragmentPlace place = place_in_d(row, column, size);
    return (place.register_index * 128 + place.thread) * 4 + place.byte;
  }

  // What adding in another order and with fewer bits may cost. Integers: nothing. The tensor core
  // cuts every summand off below the largest, 2^-22 of it at most (FP8: 2^-12), and so the f32
  // result; f16 accumulators are rounded, to half of 2^-10, once a multiplication.
  static double bound_of(const WgmmaForm& form, std::uint32_t depth, std::uint32_t steps,
                         double magnitude) {
    if (form.d == Element::kS32) return 0;
    const double cut = std::ldexp(1.0, size_of(form.a) == 1 ? -12 : -22);
    const double order = (depth + 2.0 * steps) * cut * magnitude;
    if (form.d == Element::kF32) return order;
    return order + steps * (std::ldexp(magnitude + order, -11) + std::ldexp(1.0, -25));
  }

  // Of f16 around a number that is no power of two.
  static double half_spacing(double number) { return std::ldexp(0.5, std::ilogb(number) - 10); }

  std::uint32_t draw(Element element, Values values, bool negative) {
    const auto whole = [&](int low, int high) {
      return static_cast<double>(std::uniform_int_distribution<int>(low, high)(random_));
    };
    if (is_integer(element) && values != Values::kSmall) {
      const bool is_signed = element == Element::kS8;
      if (values == Values::kRandom)
        return to_bits(element, is_signed ? whole(-128, 127) : whole(0, 255));
      if (negative && is_signed) return to_bits(element, whole(-128, 0));
      return to_bits(element, whole(0, is_signed ? 127 : 255));
    }
    if (values == Values::kSmall || values == Values::kHalfway)
      return to_bits(element, element == Element::kU8 ? whole(0, 4) : whole(-3, 3));
    if (values == Values::kSpecial) {
      const Format format = Format::of(element);
      const int shift = element == Element::kTf32 ? 13 : 0;
      if (random_() % 301 == 0) return format.nan() << shift;
      if (random_() % 151 == 0 && format.has_infinity()) return format.infinity() << shift;
      return to_bits(element, whole(-3, 3));
    }
    if (values == Values::kFused && finite_patterns_) {
      const std::uint32_t byte = random_() & 0xff;
      return (byte & 0x7f) >= (element == Element::kE4m3 ? 0x7fu : 0x7cu) ? byte ^ 0x40 : byte;
    }
    const std::uint32_t bits = to_bits(element, std::normal_distribution<double>()(random_));
    // The lower 13 bits of a tf32 are there to be ignored.
    return element == Element::kTf32 ? bits | (random_() & 0x1fff) : bits;
  }

  std::uint32_t draw_c(Element element, Values values) {
    constexpr int kNear = 3'000'000;  // less than one multiplication may add
    std::uniform_int_distribution<int> small(-8, 8), any(std::numeric_limits<int>::min()),
        near(0, kNear);
    if (values == Values::kSmall || values == Values::kSpecial)
      return to_bits(element, small(random_));
    if (values == Values::kHalfway) return to_bits(element, 3000 + 2 * small(random_));
    if (element != Element::kS32)
      return to_bits(element, std::normal_distribution<double>()(random_));
    switch (values) {
      case Values::kRising:
        return static_cast<std::uint32_t>(std::numeric_limits<int>::max() - near(random_));
      case Values::kFalling:
        return static_cast<std::uint32_t>(std::numeric_limits<int>::min() + near(random_));
      default:
        return static_cast<std::uint32_t>(any(random_) / 2);
    }
  }

  std::mt19937 random_;
  bool finite_patterns_ = false;  // for kFused: else of ordinary size
};

}  // namespace rungs::ptx::test
