// wgmma against operands laid out by hand, from the pictures of swizzle atoms in the PTX ISA
// ("Shared Memory Matrix Layout"), and multiplied in double.

#include "fixture.hpp"

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace rungs::ptx::test {
namespace {

using gpu::Swizzle;

std::uint32_t span_of(Swizzle swizzle) {
  switch (swizzle) {
    case Swizzle::k128B:
      return 128;
    case Swizzle::k64B:
      return 64;
    case Swizzle::k32B:
      return 32;
    default:
      return 16;
  }
}

// Byte of chunk `chunk` of row `row` in an atom of 8 rows of `span` bytes: in each 128-byte line of
// the picture the chunk's index inside the span is xored with the line's number.
std::uint32_t in_atom(std::uint32_t span, std::uint32_t row, std::uint32_t chunk) {
  const std::uint32_t line = row * span / 128;
  return row * span + (chunk ^ line % (span / 16)) * 16;
}

// One operand: 64 or n of M or N, 16 * steps of K, dense.
struct Operand {
  bool mn_major = false;
  Swizzle swizzle = Swizzle::kNone;
  std::uint32_t extent = 64;
  std::uint32_t steps = 1;
  std::uint32_t leading = 16, stride = 0, advance = 0;

  void lay_out() {
    const std::uint32_t span = span_of(swizzle);
    if (swizzle == Swizzle::kNone) {
      // 128-byte core matrices of 8 x 8: along M or N first (K-major), along K first (MN-major).
      leading = mn_major ? 128 : extent / 8 * 128;
      stride = mn_major ? 256 : 128;
      advance = mn_major ? extent / 8 * 256 : 2 * leading;
    } else if (mn_major) {
      stride = 8 * span;  // atoms of span bytes x 8 of K: along K first
      leading = 2 * steps * stride;
      advance = 2 * stride;
    } else {
      stride = 8 * span;  // one atom wide: K goes on inside the span
      advance = 32;
    }
  }
  [[nodiscard]] bool fits() const {
    const std::uint32_t span = span_of(swizzle);
    if (!mn_major && swizzle != Swizzle::kNone) return 32 * steps <= span;
    return swizzle == Swizzle::kNone || extent % (span / 2) == 0;
  }
  [[nodiscard]] std::uint32_t place(std::uint32_t mn, std::uint32_t k) const {
    const std::uint32_t span = span_of(swizzle), step = k / 16, wide = span / 2;
    if (swizzle == Swizzle::kNone) {
      const std::uint32_t core = mn / 8 * stride + k % 16 / 8 * leading + step * advance;
      return core + (mn_major ? k % 8 * 16 + mn % 8 * 2 : mn % 8 * 16 + k % 8 * 2);
    }
    if (mn_major) {
      return mn / wide * leading + k / 8 * stride + in_atom(span, k % 8, mn % wide / 8) +
             mn % 8 * 2;
    }
    return mn / 8 * stride + in_atom(span, mn % 8, k / 8) + k % 8 * 2;
  }
};

class WgmmaConformance : public Conformance {
 protected:
  void check(Operand a, Operand b, bool accumulate, bool integers) {
    a.lay_out();
    b.lay_out();
    const auto n = static_cast<std::size_t>(b.extent),
               depth = static_cast<std::size_t>(16 * a.steps);
    std::mt19937 random(static_cast<unsigned>(n * 131 + depth));
    std::uniform_int_distribution<int> small(-4, 4);
    std::normal_distribution<float> normal;
    const auto draw = [&] {
      return integers ? static_cast<float>(small(random)) : to_float(to_bf16(normal(random)));
    };
    std::vector<float> left(64 * depth), right(n * depth), c(64 * n);
    std::vector<std::uint32_t> image_a(kImageBytes / 4, ~0u), image_b(kImageBytes / 4, ~0u);
    const auto fill = [&](const Operand& operand, std::vector<float>& matrix,
                          std::vector<std::uint32_t>& image) {
      for (std::uint32_t mn = 0; mn < operand.extent; mn++) {
        for (std::uint32_t k = 0; k < depth; k++) {
          const float value = draw();
          matrix[mn * depth + k] = value;
          const std::uint32_t byte = operand.place(mn, k);
          ASSERT_LE(byte + 2, kImageBytes);
          image[byte / 4] = (image[byte / 4] & ~(0xffffu << byte % 4 * 8)) |
                            static_cast<std::uint32_t>(to_bf16(value).bits) << byte % 4 * 8;
        }
      }
    };
    fill(a, left, image_a);
    fill(b, right, image_b);
    for (float& value : c) value = draw();
    const auto device_a = upload(image_a), device_b = upload(image_b);
    const auto d = upload(c);
    const Multiplication m{static_cast<int>(a.steps),
                           accumulate,
                           a.leading,
                           a.stride,
                           a.advance,
                           b.leading,
                           b.stride,
                           b.advance,
                           a.swizzle,
                           b.swizzle};
    launch_multiplication(nullptr, static_cast<int>(n), a.mn_major, b.mn_major, m, device_a.data(),
                          device_b.data(), d.data());
    const std::vector<float> result = d.download();
    for (std::size_t i = 0; i < 64; i++) {
      for (std::size_t j = 0; j < n; j++) {
        double exact = accumulate ? c[i * n + j] : 0.0, size = std::abs(exact);
        for (std::size_t k = 0; k < depth; k++) {
          const double product =
              static_cast<double>(left[i * depth + k]) * static_cast<double>(right[j * depth + k]);
          exact += product;
          size += std::abs(product);
        }
        // Small integers are exact. Otherwise depth additions whose summands the tensor core may
        // cut off 2^-22 below the largest (it keeps at least two bits more than f32 but does not
        // round).
        const double bound =
            integers ? 0.0 : static_cast<double>(depth) * size * std::ldexp(1.0, -22);
        ASSERT_TRUE(std::abs(result[i * n + j] - exact) <= bound)
            << "n " << n << " depth " << depth << " mn-major " << a.mn_major << b.mn_major
            << " spans " << span_of(a.swizzle) << "/" << span_of(b.swizzle) << " element " << i
            << ", " << j << ": " << result[i * n + j] << " instead of " << exact;
      }
    }
  }
};

constexpr Swizzle kSwizzles[] = {Swizzle::kNone, Swizzle::k32B, Swizzle::k64B, Swizzle::k128B};

TEST_F(WgmmaConformance, EveryLayout) {
  for (const bool a_mn : {false, true}) {
    for (const bool b_mn : {false, true}) {
      for (const Swizzle swizzle_a : kSwizzles) {
        for (const Swizzle swizzle_b : kSwizzles) {
          for (const std::uint32_t steps : {1u, 2u, 4u}) {
            const Operand a{a_mn, swizzle_a, 64, steps}, b{b_mn, swizzle_b, 128, steps};
            if (a.fits() && b.fits()) check(a, b, true, true);
          }
        }
      }
    }
  }
}

TEST_F(WgmmaConformance, EveryWidth) {
  for (const std::uint32_t n : {32u, 64u, 96u, 128u, 192u, 256u}) {
    for (const bool a_mn : {false, true}) {
      for (const bool b_mn : {false, true}) {
        const Operand a{a_mn, Swizzle::k128B, 64, 2};
        Operand b{b_mn, Swizzle::k128B, n, 2};
        if (!b.fits()) b.swizzle = Swizzle::k64B;
        check(a, b, n % 64 == 0, true);
      }
    }
  }
}

TEST_F(WgmmaConformance, Rounding) {
  for (const bool accumulate : {false, true}) {
    check({false, Swizzle::k128B, 64, 4}, {true, Swizzle::k128B, 128, 4}, accumulate, false);
    check({true, Swizzle::k128B, 64, 4}, {false, Swizzle::k128B, 256, 4}, accumulate, false);
  }
}

}  // namespace
}  // namespace rungs::ptx::test
