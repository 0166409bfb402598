#include "fixture.hpp"
#include "warp_conformance.hpp"

#include <rungs/testing/conforms.hpp>
#include <rungs/testing/random.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace rungs::ptx::test {
namespace {

constexpr std::uint32_t kPoison = 0xdeadbeef;

std::vector<std::uint32_t> words(std::size_t count, std::uint64_t seed) {
  testing::Random random(seed);
  std::vector<std::uint32_t> values(count);
  for (std::uint32_t& value : values) value = static_cast<std::uint32_t>(random.next());
  return values;
}

// The lanes [first, last) of a warp's values, folded.
template <class T, class Fold>
std::uint32_t folded(const std::uint32_t* warp, int first, int last, Fold fold) {
  T total = static_cast<T>(warp[first]);
  for (int i = first + 1; i < last; i++) total = fold(total, static_cast<T>(warp[i]));
  return static_cast<std::uint32_t>(total);
}

TEST_F(Conformance, WarpReductions) {
  testing::conforms("redux_add redux_min redux_max redux_and redux_or redux_xor");
  std::vector<std::uint32_t> in = words(64, 11);
  for (std::size_t i = 32; i < 64; i++) in[i] |= 0x80000000u;  // a warp of negative numbers
  const auto values = upload(in);
  const auto buffer = filled(kReduxRows * 64, kPoison);
  launch_redux(nullptr, values.data(), buffer.data());
  const std::vector<std::uint32_t> out = buffer.download();
  const auto sum = [](std::uint32_t a, std::uint32_t b) { return a + b; };
  const auto low = [](auto a, auto b) { return std::min(a, b); };
  const auto high = [](auto a, auto b) { return std::max(a, b); };
  for (int t = 0; t < 64; t++) {
    const std::uint32_t* warp = in.data() + t / 32 * 32;
    const int first = t % 32 < 20 ? 0 : 20, last = t % 32 < 20 ? 20 : 32;
    std::uint32_t all_set = ~0u, any_set = 0, odd = 0;
    for (int i = 0; i < 32; i++) {
      all_set &= warp[i] | 0x11000u;
      any_set |= warp[i] & 0xf0f0f0f0u;
      odd ^= warp[i];
    }
    const std::uint32_t expected[kReduxRows] = {folded<std::uint32_t>(warp, 0, 32, sum),
                                                folded<std::uint32_t>(warp, 0, 32, low),
                                                folded<std::uint32_t>(warp, 0, 32, high),
                                                folded<std::uint32_t>(warp, 0, 32, sum),
                                                folded<std::int32_t>(warp, 0, 32, low),
                                                folded<std::int32_t>(warp, 0, 32, high),
                                                all_set,
                                                any_set,
                                                odd,
                                                folded<std::uint32_t>(warp, first, last, sum),
                                                folded<std::uint32_t>(warp, first, last, low),
                                                folded<std::int32_t>(warp, first, last, high)};
    for (unsigned row = 0; row < kReduxRows; row++) {
      ASSERT_EQ(out[row * 64 + static_cast<unsigned>(t)], expected[row])
          << "row " << row << " thread " << t;
    }
  }
}

TEST_F(Conformance, WarpMatches) {
  testing::conforms("match_any match_all");
  const std::vector<std::uint32_t> in = words(64, 12);
  const auto values = upload(in);
  const auto buffer = filled(kMatchRows * 64, kPoison);
  launch_match(nullptr, values.data(), buffer.data());
  const std::vector<std::uint32_t> out = buffer.download();
  for (std::uint32_t t = 0; t < 64; t++) {
    const std::uint32_t warp = t / 32 * 32;
    std::uint32_t same = 0, same_parity = 0;
    for (std::uint32_t i = 0; i < 32; i++) {
      if (in[warp + i] % 5 == in[t] % 5) same |= 1u << i;
      if (in[warp + i] % 5 % 2 == in[t] % 5 % 2) same_parity |= 1u << i;
    }
    ASSERT_NE(same, ~0u);
    EXPECT_EQ(out[t], same);
    EXPECT_EQ(out[64 + t], same_parity);
    EXPECT_EQ(out[128 + t], ~0u);
    EXPECT_EQ(out[192 + t], 0u);
    EXPECT_EQ(out[256 + t], ~0u);
    EXPECT_EQ(out[320 + t], same & (t % 32 < 20 ? 0xfffffu : ~0xfffffu));
  }
}

TEST_F(Conformance, Lanes) {
  testing::conforms(
      "lane_id lanemask_lt lanemask_le lanemask_eq lanemask_ge lanemask_gt active_mask");
  const auto buffer = filled(kLaneRows * 64, kPoison);
  launch_lanes(nullptr, buffer.data());
  const std::vector<std::uint32_t> out = buffer.download();
  for (std::uint32_t t = 0; t < 64; t++) {
    std::uint32_t below = 0;
    for (std::uint32_t i = 0; i < t % 32; i++) below |= 1u << i;
    const std::uint32_t own = 1u << t % 32;
    EXPECT_EQ(out[t], t % 32);
    EXPECT_EQ(out[64 + t], below);
    EXPECT_EQ(out[128 + t], below | own);
    EXPECT_EQ(out[192 + t], own);
    EXPECT_EQ(out[256 + t], ~below);
    EXPECT_EQ(out[320 + t], ~(below | own));
    EXPECT_EQ(out[384 + t] & own, own);  // nothing more is promised
  }
}

TEST_F(Conformance, ShufflesInSegments) {
  testing::conforms("shfl_idx_segment shfl_xor_segment shfl_down_segment shfl_up_segment");
  const auto buffer = filled(kSegmentRows * 64, kPoison);
  launch_segments(nullptr, buffer.data());
  const std::vector<std::uint32_t> out = buffer.download();
  const int widths[] = {4, 8, 16}, others[] = {6, 9, 6};
  for (int w = 0; w < 3; w++) {
    for (int t = 0; t < 64; t++) {
      const int width = widths[w], lane = t % 32, warp = t - lane;
      const int begin = lane / width * width, end = begin + width;
      const int crossed = lane ^ others[w];
      const int sources[] = {begin + 5 % width, crossed < end ? crossed : lane,
                             lane + 3 < end ? lane + 3 : lane, lane - 3 >= begin ? lane - 3 : lane};
      for (int row = 0; row < 4; row++) {
        EXPECT_EQ(out[static_cast<std::size_t>((w * 4 + row) * 64 + t)],
                  static_cast<std::uint32_t>((warp + sources[row]) * 7 + 1))
            << "width " << width << " row " << row << " lane " << lane;
      }
    }
  }
}

TEST_F(Conformance, PackedIntegers) {
  testing::conforms("prmt dp4a funnel_shift_left funnel_shift_right popc clz ctz brev");
  constexpr unsigned kCount = 512;
  const std::vector<std::uint32_t> b = words(kCount, 14);
  std::vector<std::uint32_t> a = words(kCount, 13), c = words(kCount, 15);
  for (unsigned i = 0; i < 64; i++) a[i] = i < 32 ? a[i] >> i : a[i] << i % 32;
  a[64] = 0;
  for (unsigned i = 0; i < 64; i++) c[i] = i;  // every shift
  const auto device_a = upload(a), device_b = upload(b), device_c = upload(c);
  const auto buffer = filled(kIntegerRows * kCount, kPoison);
  launch_integers(nullptr, device_a.data(), device_b.data(), device_c.data(), buffer.data(),
                  kCount);
  const std::vector<std::uint32_t> out = buffer.download();
  for (unsigned i = 0; i < kCount; i++) {
    std::uint32_t permuted = 0;
    std::int64_t dot = 0;
    std::uint64_t unsigned_dot = c[i];
    for (unsigned j = 0; j < 4; j++) {
      const std::uint32_t choice = c[i] >> 4 * j & 7;
      const std::uint32_t byte = (choice < 4 ? a[i] >> 8 * choice : b[i] >> 8 * (choice - 4)) & 255;
      const bool sign = (c[i] >> 4 * j & 8) != 0;
      permuted |= (!sign ? byte : byte > 127 ? 255u : 0u) << 8 * j;
      dot += std::int64_t{static_cast<std::int8_t>(a[i] >> 8 * j)} *
             static_cast<std::int8_t>(b[i] >> 8 * j);
      unsigned_dot += std::uint64_t{a[i] >> 8 * j & 255} * (b[i] >> 8 * j & 255);
    }
    ASSERT_EQ(out[i], permuted) << i;
    ASSERT_EQ(out[kCount + i], static_cast<std::uint32_t>(c[i] + static_cast<std::uint64_t>(dot)))
        << i;
    ASSERT_EQ(out[2 * kCount + i], static_cast<std::uint32_t>(unsigned_dot)) << i;
    const std::uint32_t n = c[i] % 32;
    ASSERT_EQ(out[3 * kCount + i], n == 0 ? b[i] : b[i] << n | a[i] >> (32 - n)) << i;
    ASSERT_EQ(out[4 * kCount + i], n == 0 ? a[i] : a[i] >> n | b[i] << (32 - n)) << i;
    std::uint32_t set = 0, above = 32, below = 32, reversed = 0;
    for (unsigned j = 0; j < 32; j++) {
      if ((a[i] >> j & 1) == 0) continue;
      set++;
      above = 31 - j;
      below = std::min(below, j);
      reversed |= 0x80000000u >> j;
    }
    ASSERT_EQ(out[5 * kCount + i], set) << i;
    ASSERT_EQ(out[6 * kCount + i], above) << i;
    ASSERT_EQ(out[7 * kCount + i], below) << i;
    ASSERT_EQ(out[8 * kCount + i], reversed) << i;
  }
}

// An independent model of the small floats: all their values, and the nearest by search.
struct Format {
  int exponent_bits, mantissa_bits;
  double largest;  // finite
  bool saturates;  // else: to infinity
  unsigned nan;    // what a NaN becomes
  unsigned above;  // the pattern past the largest finite one, for a result to infinity

  [[nodiscard]] double value(unsigned magnitude) const {
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const int exponent = static_cast<int>(magnitude >> mantissa_bits);
    const unsigned mantissa = magnitude & ((1u << mantissa_bits) - 1);
    const double fraction = std::ldexp(mantissa, -mantissa_bits);
    return exponent == 0 ? std::ldexp(fraction, 1 - bias)
                         : std::ldexp(1 + fraction, exponent - bias);
  }
  [[nodiscard]] unsigned nearest(float x) const {
    if (std::isnan(x)) return nan;
    const unsigned sign = std::signbit(x) ? 1u << (exponent_bits + mantissa_bits) : 0;
    const double magnitude = std::fabs(static_cast<double>(x));
    unsigned low = 0, high = above;  // the first pattern above the largest finite one
    while (high - low > 1) {
      const unsigned middle = (low + high) / 2;
      (value(middle) <= magnitude ? low : high) = middle;
    }
    const double down = magnitude - value(low), up = value(low + 1) - magnitude;
    unsigned result = down < up || (down == up && low % 2 == 0) ? low : low + 1;
    if (result >= above) result = saturates ? above - 1 : above;
    return result | sign;
  }
};

constexpr Format kBf16{8, 7, 0, false, 0x7fff, 0x7f80};
constexpr Format kF16{5, 10, 0, false, 0x7fff, 0x7c00};
constexpr Format kE4M3{4, 3, 448, true, 0x7f, 0x7f};
constexpr Format kE5M2{5, 2, 57344, true, 0x7f, 0x7c};

std::vector<float> hard_floats() {
  std::vector<float> values = {0.0f,
                               -0.0f,
                               1.0f,
                               448.0f,
                               464.0f,
                               464.1f,
                               479.0f,
                               57344.0f,
                               61440.0f,
                               -61441.0f,
                               65504,
                               65519.9f,
                               65520,
                               -1e30f,
                               1e-30f,
                               1e-8f,
                               std::numeric_limits<float>::infinity(),
                               -std::numeric_limits<float>::infinity(),
                               std::numeric_limits<float>::quiet_NaN(),
                               std::numeric_limits<float>::max(),
                               std::numeric_limits<float>::denorm_min()};
  testing::Random random(16);
  while (values.size() < 2048) {  // all exponents
    values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random.next())));
    values.push_back(static_cast<float>(random.normal()));
    // Ties of every format: few mantissa bits.
    const auto few = static_cast<float>(static_cast<int>(random.below(64)) - 32);
    values.push_back(std::ldexp(few, static_cast<int>(random.below(40)) - 26));
  }
  values.resize(2048);
  return values;
}

TEST_F(Conformance, NarrowFloats) {
  testing::conforms("cvt_bf16x2 cvt_f16x2 cvt_f8e4m3x2 cvt_f8e5m2x2 cvt_tf32");
  const std::vector<float> low = hard_floats();
  std::vector<float> high = low;
  std::reverse(high.begin(), high.end());
  const auto count = static_cast<unsigned>(low.size());
  const auto device_low = upload(low), device_high = upload(high);
  const auto buffer = filled(kNarrowRows * count, kPoison);
  launch_narrow(nullptr, device_low.data(), device_high.data(), buffer.data(), count);
  const std::vector<std::uint32_t> out = buffer.download();
  const Format* formats[] = {&kBf16, &kF16, &kE4M3, &kE5M2};
  for (unsigned i = 0; i < count; i++) {
    for (unsigned row = 0; row < 4; row++) {
      const Format& format = *formats[row];
      const unsigned width = row < 2 ? 16 : 8;
      ASSERT_EQ(out[row * count + i], format.nearest(low[i]) | format.nearest(high[i]) << width)
          << "row " << row << ": " << low[i] << ", " << high[i];
    }
    const float rounded = std::bit_cast<float>(out[4 * count + i] & 0xffffe000u);
    if (std::isnan(low[i])) continue;  // not defined
    if (std::isinf(low[i])) {
      EXPECT_EQ(rounded, low[i]);
    } else {
      // Half a step of 2^-10 of the binade, and away from zero on a tie.
      const double step =
          std::ldexp(1.0, std::max(std::ilogb(low[i] == 0 ? 1e-44f : low[i]), -126) - 10);
      const double expected = std::copysign(
          std::floor(std::fabs(static_cast<double>(low[i])) / step + 0.5) * step, low[i]);
      EXPECT_EQ(rounded, static_cast<float>(expected)) << low[i];
    }
  }
}

TEST_F(Conformance, WidenFloats) {
  testing::conforms("cvt_f16x2_f8e4m3x2 cvt_f16x2_f8e5m2x2");
  const auto buffer = filled(2 * 65536, kPoison);
  launch_widen(nullptr, buffer.data());
  const std::vector<std::uint32_t> out = buffer.download();
  const auto check = [](const Format& format, unsigned byte, unsigned half) {
    const unsigned magnitude = byte & 0x7f;
    const unsigned infinity = format.saturates && format.mantissa_bits == 2 ? 0x7c : 0x80;
    if (magnitude == infinity) return half == (0x7c00u | (byte & 0x80) << 8);
    if (magnitude >= format.above) return (half & 0x7fffu) > 0x7c00u;  // a NaN
    const auto value = static_cast<float>(format.value(magnitude));
    return half == (kF16.nearest(value) | (byte & 0x80) << 8);
  };
  for (unsigned i = 0; i < 65536; i++) {
    ASSERT_TRUE(check(kE4M3, i & 255, out[i] & 0xffff)) << std::hex << i << " " << out[i];
    ASSERT_TRUE(check(kE4M3, i >> 8, out[i] >> 16)) << std::hex << i << " " << out[i];
    ASSERT_TRUE(check(kE5M2, i & 255, out[65536 + i] & 0xffff)) << std::hex << i;
    ASSERT_TRUE(check(kE5M2, i >> 8, out[65536 + i] >> 16)) << std::hex << i;
  }
}

TEST_F(Conformance, ApproximateFunctions) {
  testing::conforms("ex2_approx rcp_approx tanh_approx");
  std::vector<float> in = testing::uniform_f32(2048, 17, -30, 30);
  for (std::size_t i = 0; i < 512; i++) in[i] /= 64;
  const auto count = static_cast<unsigned>(in.size());
  const auto device_in = upload(in);
  const auto buffer = filled(3 * std::size_t{count}, -99.0f);
  launch_approximate(nullptr, device_in.data(), buffer.data(), count);
  const std::vector<float> out = buffer.download();
  const double bounds[] = {std::ldexp(1, -21), std::ldexp(1, -22), std::ldexp(1, -10)};
  for (unsigned i = 0; i < count; i++) {
    const double x = in[i];
    const double exact[] = {std::exp2(x), 1 / x, std::tanh(x)};
    for (unsigned row = 0; row < 3; row++) {
      const double error = std::fabs(out[row * count + i] - exact[row]);
      ASSERT_LE(error, bounds[row] * std::fabs(exact[row])) << "row " << row << " of " << x;
    }
  }
}

}  // namespace
}  // namespace rungs::ptx::test
