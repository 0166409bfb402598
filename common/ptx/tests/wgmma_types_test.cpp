// Every type of wgmma against operands and fragments laid out by hand and multiplied in double or
// 64-bit integers.

#include "fixture.hpp"
#include "wgmma_conformance.hpp"
#include "wgmma_layout.hpp"
#include "wgmma_oracle.hpp"

#include <rungs/testing/conforms.hpp>

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace rungs::ptx::test {
namespace {

constexpr const char* kWrappers = "wgmma wgmma_descriptor wgmma_fence wgmma_commit wgmma_wait";

enum class Values {
  kSmall,    // whole numbers of which every partial sum is exact
  kRandom,   // of the type's full precision; integers of its full range
  kRising,   // integers that push the sum over the upper end
  kFalling,  // and the lower
  kHalfway,  // whole numbers whose sum an f16 must round, many halfway between two
  kFused     // FP8 of every finite pattern, for sums as the tensor core makes them
};

std::string name_of(const WgmmaForm& form) {
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
        const double bound = values == Values::kSmall || values == Values::kFused ? 0
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
    if (values == Values::kSmall) return to_bits(element, small(random_));
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

constexpr Swizzle kSwizzles[] = {Swizzle::kNone, Swizzle::k32B, Swizzle::k64B, Swizzle::k128B};

// The oracle itself: small numbers are what they should be in every format.
TEST(WgmmaOracle, HoldsSmallNumbers) {
  for (const Element element : {Element::kF32, Element::kF16, Element::kBf16, Element::kTf32,
                                Element::kE4m3, Element::kE5m2, Element::kS32, Element::kS8}) {
    for (int i = -8; i <= 8; i++) EXPECT_EQ(value_of(element, to_bits(element, i)), i);
    EXPECT_EQ(to_bits(element, 0), 0u);
  }
}

// All forms; under ThreadSanitizer some: they differ in arithmetic, not in who meets whom.
std::vector<WgmmaForm> some_of(std::vector<WgmmaForm> forms) {
#if defined(RUNGS_SANITIZE_THREAD)
  std::vector<WgmmaForm> some;
  for (std::size_t i = 0; i < forms.size(); i += 7) some.push_back(forms[i]);
  return some;
#else
  return forms;
#endif
}

// Every swizzle, with as many steps as it holds; at n = 256, the slowest, only the widest one.
template <class Check>
void for_each_layout(const WgmmaForm& form, Check check) {
  for (const Swizzle swizzle : kSwizzles) {
    if (form.n == 256 && swizzle != Swizzle::k128B) continue;
    const std::uint32_t steps =
        swizzle == Swizzle::kNone || form.transpose_b ? 3 : span_of(swizzle) / 32;
    check(swizzle, swizzle, steps);
    if (form.n == 24 && !form.a_in_registers) check(Swizzle::k128B, swizzle, steps);
  }
}

TEST_F(WgmmaTypes, FloatsAreExactOnSmallNumbers) {
  testing::conforms(kWrappers);
  for (const WgmmaForm& form : some_of(float_forms())) {
    for_each_layout(form, [&](Swizzle a, Swizzle b, std::uint32_t steps) {
      check(form, a, b, steps, true, Values::kSmall);
    });
    check(form, Swizzle::k64B, Swizzle::k64B, 1, false, Values::kSmall);
  }
}

TEST_F(WgmmaTypes, NarrowAccumulatorsAreExactOnSmallNumbers) {
  testing::conforms(kWrappers);
  for (const WgmmaForm& form : some_of(narrow_forms())) {
    for_each_layout(form, [&](Swizzle a, Swizzle b, std::uint32_t steps) {
      check(form, a, b, steps, true, Values::kSmall);
    });
    check(form, Swizzle::k64B, Swizzle::k64B, 1, false, Values::kSmall);
  }
}

TEST_F(WgmmaTypes, FloatsOfFullPrecisionStayWithinTheBound) {
  testing::conforms(kWrappers);
  for (const bool accumulate : {false, true}) {
    for (const WgmmaForm& form : some_of(float_forms()))
      check(form, Swizzle::k128B, form.n % 64 == 0 ? Swizzle::k128B : Swizzle::kNone, 4, accumulate,
            Values::kRandom);
    for (const WgmmaForm& form : some_of(narrow_forms())) {
      if (form.d == Element::kF16)
        check(form, Swizzle::k128B, form.n % 64 == 0 ? Swizzle::k128B : Swizzle::kNone, 4,
              accumulate, Values::kRandom);
    }
  }
  // For the record: all of a GPU's sums are expected to be fused ones, the emulator's if of FP8.
  RecordProperty("fused_elements", static_cast<int>(fused_elements_));
  RecordProperty("fused_equal", static_cast<int>(fused_equal_));
}

// Bit for bit, but not by the ISA: it is what others measured, and what the emulator does.
TEST_F(WgmmaTypes, Fp8SumsAreThoseOfTheTensorCore) {
  testing::conforms(kWrappers);
  int checked = 0;
  for (const bool narrow : {false, true}) {
    for (const WgmmaForm& form : some_of(narrow ? narrow_forms() : float_forms())) {
      if (form.n == 256 || size_of(form.a) != 1 || form.d == Element::kS32) continue;
      for (const bool accumulate : {false, true}) {
        check(form, Swizzle::k128B, Swizzle::k128B, 4, accumulate, Values::kFused);
        checked++;
      }
    }
  }
  EXPECT_GE(checked, 8);
}

TEST_F(WgmmaTypes, DescriptorsHaveStrides) {
  testing::conforms(kWrappers);
  int checked = 0;
  for (const bool narrow : {false, true}) {
    for (const WgmmaForm& form : some_of(narrow ? narrow_forms() : float_forms())) {
      if (form.n == 256 || form.a_in_registers) continue;
      for (const Swizzle swizzle : kSwizzles) {
        check(form, swizzle, swizzle, 1, true, Values::kSmall, true);
        checked++;
      }
    }
  }
  EXPECT_GE(checked, 8);
}

// A sum of which no bit is lost before is the nearest f16, or either neighbour if halfway.
TEST_F(WgmmaTypes, F16AccumulatorsAreRoundedToNearest) {
  testing::conforms(kWrappers);
  for (const WgmmaForm& form : some_of(narrow_forms())) {
    if (form.d == Element::kF16)
      check(form, Swizzle::k128B, form.n % 64 == 0 ? Swizzle::k128B : Swizzle::kNone, 1, true,
            Values::kHalfway);
  }
}

TEST_F(WgmmaTypes, IntegersWrapAroundOrStopAtTheEnds) {
  testing::conforms(kWrappers);
  for (const WgmmaForm& form : some_of(narrow_forms())) {
    if (form.d != Element::kS32) continue;
    for (const bool accumulate : {false, true})
      check(form, Swizzle::k128B, Swizzle::k128B, 4, accumulate, Values::kRandom);
    // All products of one sign: the end is reached or not, in whatever order they are added.
    check(form, Swizzle::k128B, Swizzle::k128B, 4, true, Values::kRising);
    if (form.a == Element::kS8)
      check(form, Swizzle::k128B, Swizzle::k128B, 4, true, Values::kFalling);
  }
}

// D of one multiplication is, rounded and packed, A of the next, as in attention: (A B) C.
TEST_F(WgmmaTypes, AccumulatorsBecomeAnOperand) {
  testing::conforms(kWrappers);
  std::mt19937 random(7);
  std::uniform_int_distribution<int> small(-3, 3);
  const auto fill = [&](Operand& operand, std::uint32_t depth, std::vector<double>& values) {
    operand.lay_out();
    std::vector<std::uint32_t> image(kWgmmaImageBytes / 4, ~0u);
    values.resize(std::size_t{operand.extent} * depth);
    for (std::uint32_t i = 0; i < operand.extent; i++) {
      for (std::uint32_t k = 0; k < depth; k++) {
        values[i * depth + k] = small(random);
        const std::uint32_t bits = to_bits(Element::kBf16, values[i * depth + k]);
        put(image, operand.place(i, k, 2), bits, 2);
      }
    }
    return upload(image);
  };
  Operand a{false, Swizzle::k32B, 64, 1}, b{false, Swizzle::k32B, 64, 1};
  Operand c{true, Swizzle::k128B, 64, 4};
  std::vector<double> left, middle, right;
  const auto device_a = fill(a, 16, left), device_b = fill(b, 16, middle);
  const auto device_c = fill(c, 64, right);
  const auto d = filled<float>(64 * 64, NAN);
  launch_chained(nullptr, c.leading, c.stride, c.advance, device_a.data(), device_b.data(),
                 device_c.data(), d.data());
  const std::vector<float> result = d.download();
  for (std::size_t i = 0; i < 64; i++) {
    for (std::size_t j = 0; j < 64; j++) {
      double sum = 0;
      for (std::size_t k = 0; k < 64; k++) {
        double inner = 0;  // at most 16 * 9: exact as a bf16
        for (std::size_t l = 0; l < 16; l++) inner += left[i * 16 + l] * middle[k * 16 + l];
        sum += inner * right[j * 64 + k];
      }
      ASSERT_EQ(static_cast<double>(result[i * 64 + j]), sum) << i << ", " << j;
    }
  }
}

// The forms that no other test runs are at least in the binary.
TEST_F(WgmmaTypes, HasEveryForm) { EXPECT_EQ(every_wgmma().size(), 20u); }

}  // namespace
}  // namespace rungs::ptx::test
