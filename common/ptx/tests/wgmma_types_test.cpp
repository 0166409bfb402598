// Every type of wgmma against operands and fragments laid out by hand and multiplied in double or
// 64-bit integers.

#include "wgmma_check.hpp"

#include <rungs/testing/conforms.hpp>

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace rungs::ptx::test {
namespace {

constexpr const char* kWrappers = "wgmma wgmma_descriptor wgmma_fence wgmma_commit wgmma_wait";

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

TEST_F(WgmmaTypes, InfinitiesAndNansSpread) {
  testing::conforms(kWrappers);
  for (const bool narrow : {false, true}) {
    for (const WgmmaForm& form : some_of(narrow ? narrow_forms() : float_forms())) {
      if (form.n == 24 && form.d != Element::kS32)
        check(form, Swizzle::k64B, Swizzle::k64B, 2, true, Values::kSpecial);
    }
  }
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
