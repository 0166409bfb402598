// The tensor-core model against operands laid out by hand: the test builds the byte image of shared
// memory from the pictures of swizzle atoms in the PTX ISA (section "Shared Memory Matrix Layout"),
// by rows and chunks of atoms and not by address bits, and multiplies in double.

#include "launch_kernel.hpp"

#include <rungs/core/dtype.hpp>
#include <rungs/emulator/model.hpp>
#include <rungs/gpu/kernel.hpp>
#include <rungs/ptx/fence.hpp>
#include <rungs/ptx/sync.hpp>
#include <rungs/ptx/wgmma.hpp>

#include "wgmma_math.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace rungs::emulator::testing {
namespace {

using gpu::Swizzle;

constexpr std::uint32_t kImageBytes = 48 * 1024;  // each operand

struct alignas(1024) Operands {
  std::uint32_t a[kImageBytes / 4];
  std::uint32_t b[kImageBytes / 4];
};

struct Problem {
  int n = 64;
  int steps = 1;  // multiplications of K = 16
  bool transpose_a = false, transpose_b = false;
  std::uint32_t a_leading = 0, a_stride = 0, a_advance = 0;  // bytes; advance: to the next K = 16
  std::uint32_t b_leading = 0, b_stride = 0, b_advance = 0;
  Swizzle swizzle_a = Swizzle::kNone, swizzle_b = Swizzle::kNone;
  bool accumulate_first = true;
};

// One warpgroup multiplies what the images hold; d[64][n] is C on entry and D on return.
RUNGS_KERNEL(128)
multiply_images(Problem p, const std::uint32_t* a, const std::uint32_t* b, float* d) {
  RUNGS_DYNAMIC_SHARED(Operands, s);
  const unsigned t = threadIdx.x;
  for (unsigned i = t; i < kImageBytes / 4; i += 128) {
    s.a[i] = a[i];
    s.b[i] = b[i];
  }
  ptx::fence_proxy_async();
  ptx::syncthreads();
  float mine[128];
  const auto place = [&](int j) {
    const unsigned row = 16 * (t / 32) + t % 32 / 4 + 8 * (static_cast<unsigned>(j) / 2 % 2);
    const unsigned column =
        8 * (static_cast<unsigned>(j) / 4) + 2 * (t % 4) + static_cast<unsigned>(j) % 2;
    return row * static_cast<unsigned>(p.n) + column;
  };
  for (int j = 0; j < p.n / 2; j++) mine[j] = d[place(j)];
  ptx::wgmma_fence();
  for (int i = 0; i < p.steps; i++) {
    const auto step = static_cast<std::uint32_t>(i);
    const std::uint64_t left = ptx::wgmma_descriptor(ptx::shared_u32(s.a) + step * p.a_advance,
                                                     p.a_leading, p.a_stride, p.swizzle_a);
    const std::uint64_t right = ptx::wgmma_descriptor(ptx::shared_u32(s.b) + step * p.b_advance,
                                                      p.b_leading, p.b_stride, p.swizzle_b);
    model::wgmma_bf16(mine, p.n, p.transpose_a, p.transpose_b, left, right,
                      i > 0 || p.accumulate_first, {__FILE__, __LINE__});
  }
  ptx::wgmma_commit();
  ptx::wgmma_wait<0>(mine);
  for (int j = 0; j < p.n / 2; j++) d[place(j)] = mine[j];
}

std::uint32_t span_of(Swizzle swizzle) {
  return swizzle == Swizzle::k128B  ? 128
         : swizzle == Swizzle::k64B ? 64
         : swizzle == Swizzle::k32B ? 32
                                    : 16;
}

// Where chunk `chunk` of row `row` of an atom of `span` bytes a row lies: in the picture of 128
// bytes a line, the chunk index is xored with the line's number, as far as the span goes.
std::uint32_t atom_place(std::uint32_t span, std::uint32_t row, std::uint32_t chunk) {
  const std::uint32_t line = row * span / 128, rows_per_line = 128 / span;
  const std::uint32_t permuted = chunk ^ (line % (span / 16));
  return line * 128 + row % rows_per_line * span + permuted * 16;
}

// Element (mn, k) of a K-major operand: atoms of 8 rows x span bytes of K; 8-row groups `stride`
// apart. Without swizzle an atom is 16 bytes wide and the next 8 of K lie `leading` further.
std::uint32_t k_major_place(Swizzle swizzle, std::uint32_t leading, std::uint32_t stride,
                            std::uint32_t advance, std::uint32_t mn, std::uint32_t k) {
  const std::uint32_t span = span_of(swizzle);
  if (swizzle == Swizzle::kNone) {
    return k / 16 * advance + mn / 8 * stride + k % 16 / 8 * leading + mn % 8 * 16 + k % 8 * 2;
  }
  const std::uint32_t in_span = k % (span / 2), beyond = k / (span / 2);
  return beyond * (span / 32 * advance) + mn / 8 * stride + atom_place(span, mn % 8, in_span / 8) +
         k % 8 * 2;
}

// Element (mn, k) of an MN-major operand: atoms of span bytes of MN x 8 of K; `leading` to the next
// atom along MN, `stride` along K. Without swizzle the two change places.
std::uint32_t mn_major_place(Swizzle swizzle, std::uint32_t leading, std::uint32_t stride,
                             std::uint32_t advance, std::uint32_t mn, std::uint32_t k) {
  const std::uint32_t span = span_of(swizzle), wide = span / 2;
  const std::uint32_t along_mn = swizzle == Swizzle::kNone ? stride : leading;
  const std::uint32_t along_k = swizzle == Swizzle::kNone ? leading : stride;
  return k / 16 * advance + k % 16 / 8 * along_k + mn / wide * along_mn +
         atom_place(span, k % 8, mn % wide / 8) + mn % 8 * 2;
}

struct Matrices {
  std::vector<float> a, b, c;  // [64][k], [n][k], [64][n]
};

Matrices random_matrices(int n, int k, bool integers) {
  std::mt19937 random(static_cast<unsigned>(n * 131 + k));
  std::uniform_int_distribution<int> small(-4, 4);
  std::normal_distribution<float> normal;
  const auto draw = [&](std::size_t count) {
    std::vector<float> values(count);
    for (float& value : values)
      value = integers ? static_cast<float>(small(random)) : to_float(to_bf16(normal(random)));
    return values;
  };
  return {draw(64 * static_cast<std::size_t>(k)), draw(static_cast<std::size_t>(n * k)),
          draw(64 * static_cast<std::size_t>(n))};
}

void put(std::vector<std::uint32_t>& image, std::uint32_t byte, float value) {
  ASSERT_LE(byte + 2, kImageBytes);
  reinterpret_cast<std::uint16_t*>(image.data())[byte / 2] = to_bf16(value).bits;
}

std::string name_of(const Problem& p) {
  return "n " + std::to_string(p.n) + " steps " + std::to_string(p.steps) + " transposed " +
         std::to_string(p.transpose_a) + std::to_string(p.transpose_b) + " spans " +
         std::to_string(span_of(p.swizzle_a)) + "/" + std::to_string(span_of(p.swizzle_b)) +
         " stride " + std::to_string(p.a_stride) + "/" + std::to_string(p.b_stride);
}

void check(Executor& executor, const Problem& p, bool integers = true) {
  const int depth = 16 * p.steps;
  const Matrices m = random_matrices(p.n, depth, integers);
  std::vector<std::uint32_t> a(kImageBytes / 4, ~0u),
      b(kImageBytes / 4, ~0u);  // NaN where nothing belongs
  for (std::uint32_t k = 0; k < static_cast<std::uint32_t>(depth); k++) {
    for (std::uint32_t row = 0; row < 64; row++) {
      const auto place = p.transpose_a ? &mn_major_place : &k_major_place;
      put(a, place(p.swizzle_a, p.a_leading, p.a_stride, p.a_advance, row, k),
          m.a[row * static_cast<std::uint32_t>(depth) + k]);
    }
    for (std::uint32_t column = 0; column < static_cast<std::uint32_t>(p.n); column++) {
      const auto place = p.transpose_b ? &mn_major_place : &k_major_place;
      put(b, place(p.swizzle_b, p.b_leading, p.b_stride, p.b_advance, column, k),
          m.b[column * static_cast<std::uint32_t>(depth) + k]);
    }
  }
  std::vector<float> d = m.c;
  const gpu::LaunchConfig config{.grid = {1}, .block = {128}, .shared_bytes = sizeof(Operands)};
  ASSERT_EQ(run(executor, config, multiply_images, p, static_cast<const std::uint32_t*>(a.data()),
                static_cast<const std::uint32_t*>(b.data()), d.data()),
            "")
      << name_of(p);
  for (int i = 0; i < 64; i++) {
    for (int j = 0; j < p.n; j++) {
      const auto at = static_cast<std::size_t>(i * p.n + j);
      double exact = p.accumulate_first ? m.c[at] : 0.0, size = std::abs(exact);
      for (int k = 0; k < depth; k++) {
        const double product = static_cast<double>(m.a[static_cast<std::size_t>(i * depth + k)]) *
                               static_cast<double>(m.b[static_cast<std::size_t>(j * depth + k)]);
        exact += product;
        size += std::abs(product);
      }
      // depth additions, each rounded to half an ulp of at most `size`; small integers are exact.
      const double bound = integers ? 0.0 : depth * size * std::pow(2.0, -24);
      ASSERT_TRUE(std::abs(d[at] - exact) <= bound) << name_of(p) << " element " << i << ", " << j
                                                    << ": " << d[at] << " instead of " << exact;
    }
  }
}

// Dense layouts for all steps: K-major rows of `span`, or MN-major atoms.
void lay_out(Problem& p) {
  const auto operand = [&](bool transposed, Swizzle swizzle, std::uint32_t mn,
                           std::uint32_t& leading, std::uint32_t& stride, std::uint32_t& advance) {
    const std::uint32_t span = span_of(swizzle);
    if (!transposed && swizzle == Swizzle::kNone) {
      stride = 128;            // 8 rows of 16 bytes
      leading = mn / 8 * 128;  // then the next 8 of K
      advance = 2 * leading;
    } else if (!transposed) {
      leading = 16;  // ignored
      stride = 8 * span;
      advance = 32;  // inside the span: steps must not go beyond it
    } else if (swizzle == Swizzle::kNone) {
      leading = 128;  // the next 8 of K
      stride = 256;   // the next 8 of MN
      advance = mn / 8 * 256;
    } else {
      stride = 8 * span;  // the next 8 of K
      leading =
          16 * span * static_cast<std::uint32_t>(p.steps);  // the next span of MN, after all of K
      advance = 16 * span;
    }
  };
  operand(p.transpose_a, p.swizzle_a, 64, p.a_leading, p.a_stride, p.a_advance);
  operand(p.transpose_b, p.swizzle_b, static_cast<std::uint32_t>(p.n), p.b_leading, p.b_stride,
          p.b_advance);
}

constexpr Swizzle kSwizzles[] = {Swizzle::kNone, Swizzle::k32B, Swizzle::k64B, Swizzle::k128B};

TEST(Wgmma, MultipliesEveryWidth) {
  Executor executor({4, 1});
  for (int n = 8; n <= 256; n += 8) {
    for (const bool transpose_b : {false, true}) {
      Problem p;
      p.n = n;
      p.transpose_b = transpose_b;
      // A K-major tile of 256 columns and 128-byte rows fills 32 KB, an MN-major one needs whole
      // spans.
      p.swizzle_a = Swizzle::k128B;
      p.swizzle_b = transpose_b && n % 64 != 0 ? Swizzle::kNone : Swizzle::k128B;
      lay_out(p);
      check(executor, p);
    }
  }
}

TEST(Wgmma, ReadsEveryLayout) {
  Executor executor({4, 1});
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      for (const Swizzle swizzle_a : kSwizzles) {
        for (const Swizzle swizzle_b : kSwizzles) {
          for (const int steps : {1, 2, 4}) {
            Problem p;
            p.n = 128;
            p.steps = steps;
            p.transpose_a = transpose_a;
            p.transpose_b = transpose_b;
            p.swizzle_a = swizzle_a;
            p.swizzle_b = swizzle_b;
            const auto fits = [&](bool transposed, Swizzle swizzle) {
              return transposed || swizzle == Swizzle::kNone ||
                     32 * steps <= static_cast<int>(span_of(swizzle));
            };
            if (!fits(transpose_a, swizzle_a) || !fits(transpose_b, swizzle_b)) continue;
            lay_out(p);
            check(executor, p);
          }
        }
      }
    }
  }
}

TEST(Wgmma, HonoursStridesThatAreNotDense) {
  Executor executor({4, 1});
  for (const bool transposed : {false, true}) {
    for (const Swizzle swizzle : kSwizzles) {
      Problem p;
      p.n = 64;
      p.transpose_a = p.transpose_b = transposed;
      p.swizzle_a = p.swizzle_b = swizzle;
      lay_out(p);
      p.a_stride += swizzle == Swizzle::kNone ? 48 : 1024;
      p.b_stride += swizzle == Swizzle::kNone ? 16 : 2048;
      if (swizzle == Swizzle::kNone) {  // leads to the next 8 of K
        p.a_leading = 20 * 1024;
        p.b_leading = 24 * 1024;
      } else if (transposed) {  // leads to the next span of M or N, of up to four
        p.a_leading = 10 * 1024;
        p.b_leading = 12 * 1024;
      }
      if (swizzle == Swizzle::kNone) p.a_advance = p.b_advance = 0;
      check(executor, p);
    }
  }
}

TEST(Wgmma, RoundsLikeAChainOfAdditions) {
  Executor executor({4, 1});
  for (const bool accumulate : {false, true}) {
    Problem p;
    p.n = 96;
    p.steps = 4;
    p.transpose_a = true;
    p.swizzle_a = p.swizzle_b = Swizzle::k128B;
    p.accumulate_first = accumulate;
    lay_out(p);
    check(executor, p, false);
  }
}

// The same bits whatever lands when, and in whatever order threads run.
TEST(Wgmma, DoesNotDependOnTheSchedule) {
  Problem p;
  p.n = 128;
  p.steps = 4;
  p.swizzle_a = p.swizzle_b = Swizzle::k128B;
  lay_out(p);
  const Matrices m = random_matrices(p.n, 64, false);
  std::vector<std::uint32_t> a(kImageBytes / 4, 0), b(kImageBytes / 4, 0);
  for (std::uint32_t k = 0; k < 64; k++) {
    for (std::uint32_t r = 0; r < 64; r++)
      put(a, k_major_place(p.swizzle_a, 16, 1024, 32, r, k), m.a[r * 64 + k]);
    for (std::uint32_t c = 0; c < 128; c++)
      put(b, k_major_place(p.swizzle_b, 16, 1024, 32, c, k), m.b[c * 64 + k]);
  }
  std::vector<float> first;
  for (const Async async : {Async::kLate, Async::kEarly, Async::kRandom}) {
    for (const std::uint64_t seed : {0, 1, 2}) {
      const ScopedOptions scope({async, seed, 45});
      Executor executor({4, 1});
      std::vector<float> d = m.c;
      const gpu::LaunchConfig config{.grid = {1}, .block = {128}, .shared_bytes = sizeof(Operands)};
      ASSERT_EQ(
          run(executor, config, multiply_images, p, static_cast<const std::uint32_t*>(a.data()),
              static_cast<const std::uint32_t*>(b.data()), d.data()),
          "");
      if (first.empty()) first = d;
      EXPECT_EQ(d, first);
    }
  }
}

// Every instruction set gives the bits of the plain one.
TEST(WgmmaMath, AllPathsAgree) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  for (const int n : {8, 24, 128, 256}) {
    for (const int k : {16, 48, 128}) {
      const auto draw = [&](int count) {
        std::vector<float> values(static_cast<std::size_t>(count));
        for (float& value : values) value = to_float(to_bf16(normal(random)));
        return values;
      };
      const std::vector<float> a = draw(64 * k), b = draw(n * 128), tile = draw(64 * n);
      std::vector<float> plain = tile;
      ASSERT_TRUE(multiply_tile_with("plain", plain.data(), a.data(), b.data(), 128, n, k));
      for (const char* name : {"avx2", "avx512"}) {
        std::vector<float> other = tile;
        if (!multiply_tile_with(name, other.data(), a.data(), b.data(), 128, n, k))
          continue;  // not on this machine
        EXPECT_EQ(other, plain) << name << " n " << n << " k " << k;
      }
      std::vector<float> chosen = tile;
      multiply_tile(chosen.data(), a.data(), b.data(), 128, n, k);
      EXPECT_EQ(chosen, plain);
      for (int column = 0; column < n; column++) {
        for (int row = 0; row < 64; row++) {
          double exact = tile[static_cast<std::size_t>(column * 64 + row)], size = std::abs(exact);
          for (int i = 0; i < k; i++) {
            const double product =
                static_cast<double>(a[static_cast<std::size_t>(i * 64 + row)]) *
                static_cast<double>(b[static_cast<std::size_t>(column * 128 + i)]);
            exact += product;
            size += std::abs(product);
          }
          ASSERT_TRUE(std::abs(plain[static_cast<std::size_t>(column * 64 + row)] - exact) <=
                      k * size * std::pow(2.0, -24));
        }
      }
    }
  }
  EXPECT_FALSE(multiply_tile_with("unknown", nullptr, nullptr, nullptr, 0, 0, 0));
}

// Every f16, the floats around it and the middles between neighbours, of both signs.
TEST(WgmmaMath, RoundsToTheNearestF16) {
  std::vector<float> values;
  for (unsigned bits = 0; bits < 0x7c00; bits++) {
    const float value = to_float(f16{static_cast<std::uint16_t>(bits)});
    const float next =
        bits == 0x7bff ? 65536.0f : to_float(f16{static_cast<std::uint16_t>(bits + 1)});
    const float middle = (value + next) / 2;
    for (const float x : {value, std::nextafter(value, INFINITY), std::nextafter(middle, 0.0f),
                          middle, std::nextafter(middle, INFINITY)}) {
      values.push_back(x);
      values.push_back(-x);
    }
  }
  for (const float x : {1e-30f, 1e-42f, 7e4f, 1e30f, INFINITY}) values.push_back(x);
  std::vector<float> rounded = values;
  round_to_f16(rounded.data(), rounded.size());
  for (std::size_t i = 0; i < values.size(); i++)
    ASSERT_EQ(rounded[i], to_float(to_f16(values[i]))) << values[i];
  float nan = NAN;
  round_to_f16(&nan, 1);
  EXPECT_TRUE(std::isnan(nan));
}

}  // namespace
}  // namespace rungs::emulator::testing
