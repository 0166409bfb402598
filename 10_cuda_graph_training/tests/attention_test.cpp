// SelfAttention: 08 tests the arithmetic; here it is that the VJP gets the operands it should.
#include <gtest/gtest.h>
#include <rungs/testing/oracle.hpp>

#include <cmath>

#include "layers/attention.hpp"
#include "support.hpp"

namespace rungs::training {
namespace {

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
