#include "layers/layer_norm.hpp"

#include <gtest/gtest.h>
#include <rungs/testing/oracle.hpp>

#include <cmath>

#include "support.hpp"

namespace rungs::training {
namespace {

struct Shape {
  int rows, width;
};

class LayerNorm : public ::testing::TestWithParam<Shape> {
 protected:
  const int rows = GetParam().rows;
  const int width = GetParam().width;
  const std::size_t count = static_cast<std::size_t>(rows) * static_cast<std::size_t>(width);
  const std::size_t columns = static_cast<std::size_t>(width);
  const std::vector<float> x = testing::normal_f32(count, 1, 2.0);
  const std::vector<float> gain = testing::uniform_f32(columns, 2, 0.5, 1.5);
  const std::vector<float> bias = testing::normal_f32(columns, 3);
  const gpu::Buffer<float> x_device = on_device(x), gain_device = on_device(gain),
                           bias_device = on_device(bias);
  gpu::Buffer<bf16> y = poisoned<bf16>(count);
  gpu::Buffer<float> residual = poisoned<float>(count);
  gpu::Buffer<float> mean = poisoned<float>(static_cast<std::size_t>(rows));
  gpu::Buffer<float> rstd = poisoned<float>(static_cast<std::size_t>(rows));

  void forward() {
    layers::layer_norm_forward({x_device.data(), gain_device.data(), bias_device.data(), y.data(),
                                residual.data(), mean.data(), rstd.data(), rows, width},
                               queue());
  }
};

TEST_P(LayerNorm, ForwardMatchesTheOracle) {
  forward();
  const auto want = testing::layer_norm_forward(widen(x), widen(gain), widen(bias), 1e-5);
  // fp32: sums of `width` terms in lanes; then one rounding to bf16 of y.
  EXPECT_EQ(testing::first_mismatch(mean.download(), want.mean, {.absolute = 20 * kF32Rounding}),
            "");
  EXPECT_EQ(testing::first_mismatch(rstd.download(), want.rstd, {.relative = 40 * kF32Rounding}),
            "");
  EXPECT_EQ(testing::first_mismatch(widen(y.download()), want.y,
                                    {.relative = 1.01 * kBf16Rounding, .absolute = 1e-5}),
            "");
  EXPECT_EQ(testing::first_bit_difference(residual.download(), x), "");
}

TEST_P(LayerNorm, VjpMatchesTheOracle) {
  forward();
  const std::vector<float> dy = testing::normal_f32(count, 4);
  const std::vector<float> passing = testing::normal_f32(count, 5);
  const gpu::Buffer<float> dy_device = on_device(dy), passing_device = on_device(passing);
  gpu::Buffer<float> dx = poisoned<float>(count);
  gpu::Buffer<bf16> dx_bf16 = poisoned<bf16>(count);
  gpu::Buffer<float> d_gain = poisoned<float>(columns), d_bias = poisoned<float>(columns);
  gpu::Buffer<float> partials =
      poisoned<float>(static_cast<std::size_t>(layers::layer_norm_partials(rows, width)));
  layers::LayerNormVjp args{.x = x_device.data(),
                            .gain = gain_device.data(),
                            .mean = mean.data(),
                            .rstd = rstd.data(),
                            .dy = dy_device.data(),
                            .d_residual = passing_device.data(),
                            .dx = dx.data(),
                            .dx_bf16 = dx_bf16.data(),
                            .d_gain = d_gain.data(),
                            .d_bias = d_bias.data(),
                            .partials = partials.data(),
                            .rows = rows,
                            .width = width};
  layers::layer_norm_vjp(args, queue());

  auto want = testing::layer_norm_backward(widen(x), widen(gain), widen(dy), 1e-5);
  std::vector<double> want_dx = want.dx;
  for (std::size_t i = 0; i < count; ++i) want_dx[i] += static_cast<double>(passing[i]);
  // Terms of magnitude rstd·|g| ~ 5 cancel: the error is absolute, some tens of fp32 roundings of
  // them.
  const testing::Tolerance fp32{.relative = 20 * kF32Rounding, .absolute = 200 * kF32Rounding};
  EXPECT_EQ(testing::first_mismatch(dx.download(), want_dx, fp32), "");
  EXPECT_EQ(testing::first_mismatch(widen(dx_bf16.download()), want_dx,
                                    {.relative = 1.01 * kBf16Rounding, .absolute = 1e-4}),
            "");
  const testing::Tolerance sums{.relative = 0, .absolute = 4.0 * (rows + 8) * kF32Rounding};
  EXPECT_EQ(testing::first_mismatch(d_gain.download(), want.dweight, sums), "");
  EXPECT_EQ(testing::first_mismatch(d_bias.download(), want.dbias, sums), "");

  // In place: dx over d_residual, as the model calls it; and without what passes by.
  gpu::Buffer<float> in_place = on_device(passing);
  args.d_residual = in_place.data();
  args.dx = in_place.data();
  args.dx_bf16 = nullptr;
  layers::layer_norm_vjp(args, queue());
  EXPECT_EQ(testing::first_bit_difference(in_place.download(), dx.download()), "");
  args.d_residual = nullptr;
  args.dx = dx.data();
  layers::layer_norm_vjp(args, queue());
  EXPECT_EQ(testing::first_mismatch(dx.download(), want.dx, fp32), "");
}

INSTANTIATE_TEST_SUITE_P(Shapes, LayerNorm,
                         ::testing::Values(Shape{1, 64}, Shape{3, 64}, Shape{63, 128},
                                           Shape{64, 128}, Shape{65, 128}, Shape{257, 192}),
                         [](const auto& instance) {
                           return std::to_string(instance.param.rows) + "x" +
                                  std::to_string(instance.param.width);
                         });

TEST(LayerNormContract, ConstantRowGivesTheBias) {
  const std::vector<float> x(64, 3.0f), gain(64, 2.0f), bias(64, 0.5f);
  const auto x_device = on_device(x), gain_device = on_device(gain), bias_device = on_device(bias);
  auto y = poisoned<bf16>(64);
  auto mean = poisoned<float>(1), rstd = poisoned<float>(1);
  layers::layer_norm_forward({x_device.data(), gain_device.data(), bias_device.data(), y.data(),
                              nullptr, mean.data(), rstd.data(), 1, 64},
                             queue());
  for (const double value : widen(y.download())) EXPECT_EQ(value, 0.5);
}

}  // namespace
}  // namespace rungs::training
