// Linear and SelfAttention: 07 and 08 test the arithmetic; here it is that each VJP gets the
// operands it should, in the right orientation.
#include <gtest/gtest.h>
#include <rungs/testing/oracle.hpp>

#include <cmath>

#include "layers/attention.hpp"
#include "layers/linear.hpp"
#include "support.hpp"

namespace rungs::training {
namespace {

TEST(Linear, ForwardAndBothVjpsMatchTheOracle) {
  constexpr int kRows = 70, kIn = 64, kOut = 192;
  const auto x = testing::normal_bf16(kRows * kIn, 1), weight = testing::normal_bf16(kOut * kIn, 2),
             dy = testing::normal_bf16(kRows * kOut, 3);
  const auto before = testing::normal_f32(kRows * kOut, 4);
  const auto x_device = on_device(x), weight_device = on_device(weight), dy_device = on_device(dy);
  const auto y = on_device(before);
  const auto dx = poisoned<bf16>(kRows * kIn);
  const auto d_weight = poisoned<float>(kOut * kIn);
  const layers::Linear linear({.x = x_device.data(),
                               .weight = weight_device.data(),
                               .y = tensor(y.data(), kRows, kOut),
                               .accumulate = true,
                               .dy = dy_device.data(),
                               .dx = tensor(dx.data(), kRows, kIn),
                               .d_weight = d_weight.data(),
                               .rows = kRows,
                               .in = kIn,
                               .out = kOut},
                              device());
  linear.forward(nullptr);
  linear.input_vjp(nullptr);
  linear.weight_vjp(nullptr);

  using testing::Layout;
  auto want_y = testing::matmul(widen(x), widen(weight), kRows, kOut, kIn, Layout::kPlain,
                                Layout::kTransposed);
  for (std::size_t i = 0; i < want_y.size(); ++i) want_y[i] += static_cast<double>(before[i]);
  const auto want_dx = testing::matmul(widen(dy), widen(weight), kRows, kIn, kOut);
  const auto want_dw = testing::matmul(widen(dy), widen(x), kOut, kIn, kRows, Layout::kTransposed);
  // depth products of magnitude up to 16, added in fp32.
  const auto fp32 = [](int depth) {
    return testing::Tolerance{.absolute = 16.0 * depth * kF32Rounding};
  };
  EXPECT_EQ(testing::first_mismatch(y.download(), want_y, fp32(kIn + 1)), "");
  EXPECT_EQ(testing::first_mismatch(
                widen(dx.download()), want_dx,
                {.relative = 1.01 * kBf16Rounding, .absolute = 16.0 * kOut * kF32Rounding}),
            "");
  EXPECT_EQ(testing::first_mismatch(d_weight.download(), want_dw, fp32(kRows)), "");
}

TEST(SelfAttention, ReadsAndWritesSlicesOfThePackedProjection) {
  constexpr int kBatch = 2, kContext = 24, kHeads = 2, kDim = 32, kWidth = kHeads * kDim;
  constexpr std::size_t kTokens = kBatch * kContext;
  const auto qkv = testing::normal_bf16(kTokens * 3 * kWidth, 1),
             d_out = testing::normal_bf16(kTokens * kWidth, 2);
  const auto qkv_device = on_device(qkv), d_out_device = on_device(d_out);
  const auto out = poisoned<bf16>(kTokens * kWidth), d_qkv = poisoned<bf16>(kTokens * 3 * kWidth);
  const auto lse = poisoned<float>(kTokens * kHeads);
  const layers::SelfAttention attention(
      {qkv_device.data(), out.data(), lse.data(), d_out_device.data(), d_qkv.data(), kBatch,
       kContext, kHeads, kDim},
      device());
  attention.forward(nullptr);
  attention.vjp(nullptr);

  std::vector<double> part[3];
  const auto packed = widen(qkv);
  for (std::size_t token = 0; token < kTokens; ++token)
    for (std::size_t p = 0; p < 3; ++p)
      for (std::size_t c = 0; c < kWidth; ++c)
        part[p].push_back(packed[(token * 3 + p) * kWidth + c]);
  const testing::AttentionShape shape{kBatch, kContext, kContext, kHeads, kDim, 0, true};
  const auto want = testing::attention_forward(shape, part[0], part[1], part[2]);
  const auto want_d = testing::attention_backward(shape, part[0], part[1], part[2], widen(d_out));
  // P, dS and the result are rounded to bf16: three roundings of values of magnitude 1 to 4.
  const testing::Tolerance bound{.relative = 4 * kBf16Rounding, .absolute = 3 * 4 * kBf16Rounding};
  EXPECT_EQ(testing::first_mismatch(widen(out.download()), want.o, bound), "");
  const auto got = widen(d_qkv.download());
  std::vector<double> want_packed;
  for (std::size_t token = 0; token < kTokens; ++token)
    for (const auto* d : {&want_d.dq, &want_d.dk, &want_d.dv})
      want_packed.insert(want_packed.end(),
                         d->begin() + static_cast<std::ptrdiff_t>(token * kWidth),
                         d->begin() + static_cast<std::ptrdiff_t>((token + 1) * kWidth));
  EXPECT_EQ(testing::first_mismatch(got, want_packed, bound), "");
}

}  // namespace
}  // namespace rungs::training
