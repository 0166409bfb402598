/// Linear: the ladder's tests judge the arithmetic; here it is that each VJP gets the operands it
/// should, in the right orientation, and only the rows in use.

#include <rungs/gemm/linear.hpp>
#include <rungs/testing/compare.hpp>
#include <rungs/testing/device_data.hpp>
#include <rungs/testing/gpu_test.hpp>
#include <rungs/testing/oracle.hpp>
#include <rungs/testing/random.hpp>

#include <gtest/gtest.h>

namespace rungs::gemm {
namespace {

using testing::device;
using testing::kBf16Rounding;
using testing::kF32Rounding;
using testing::on_device;
using testing::poisoned;
using testing::widen;

TEST(Linear, ForwardAndBothVjpsMatchTheOracle) {
  RUNGS_NEEDS_DEVICE();
  constexpr int kRows = 70, kIn = 64, kOut = 192;
  const auto x = testing::normal_bf16(kRows * kIn, 1), weight = testing::normal_bf16(kOut * kIn, 2),
             dy = testing::normal_bf16(kRows * kOut, 3);
  const auto before = testing::normal_f32(kRows * kOut, 4);
  const auto x_device = on_device(x), weight_device = on_device(weight), dy_device = on_device(dy);
  const auto y = on_device(before);
  const auto dx = poisoned<bf16>(kRows * kIn);
  const auto d_weight = poisoned<float>(kOut * kIn);
  const Linear linear({.x = x_device.data(),
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

}  // namespace
}  // namespace rungs::gemm
