// wgmma against operands laid out by hand, from the pictures of swizzle atoms in the PTX ISA
// ("Shared Memory Matrix Layout"), and multiplied in double.

#include "fixture.hpp"
#include "wgmma_layout.hpp"

#include <rungs/testing/conforms.hpp>

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace rungs::ptx::test {
namespace {

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
          const std::uint32_t byte = operand.place(mn, k, 2);
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

constexpr const char* kWrappers =
    "wgmma_bf16 wgmma_descriptor wgmma_fence wgmma_commit wgmma_wait shared_u32";
constexpr Swizzle kSwizzles[] = {Swizzle::kNone, Swizzle::k32B, Swizzle::k64B, Swizzle::k128B};

TEST_F(WgmmaConformance, EveryLayout) {
  testing::conforms(kWrappers);
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
  testing::conforms(kWrappers);
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
  testing::conforms(kWrappers);
  for (const bool accumulate : {false, true}) {
    check({false, Swizzle::k128B, 64, 4}, {true, Swizzle::k128B, 128, 4}, accumulate, false);
    check({true, Swizzle::k128B, 64, 4}, {false, Swizzle::k128B, 256, 4}, accumulate, false);
  }
}

}  // namespace
}  // namespace rungs::ptx::test
