#include <rungs/core/dtype.hpp>
#include <rungs/testing/gpu_test.hpp>
#include <rungs/testing/poison.hpp>

#include <gtest/gtest.h>

#include <cmath>

namespace rungs::testing {
namespace {

TEST(Poison, PatternIsNan) {
  float value;
  std::memset(&value, 0xff, sizeof(value));
  EXPECT_TRUE(std::isnan(value));
  EXPECT_TRUE(is_poison(value));
  EXPECT_TRUE(std::isnan(to_float(bf16{0xffff})));
  EXPECT_TRUE(is_poison(bf16{0xffff}));
  EXPECT_FALSE(is_poison(0.0f));
  EXPECT_FALSE(is_poison(std::nanf("")));  // a computed NaN is not the pattern
  EXPECT_TRUE(is_poison(std::int32_t{-1}));
}

TEST(Poison, FirstUnwritten) {
  std::vector<float> values(4);
  std::memset(values.data(), 0xff, 16);
  values[0] = 1;
  EXPECT_EQ(first_unwritten(values), 1u);
  for (float& value : values) value = 0;
  EXPECT_EQ(first_unwritten(values), 4u);
}

TEST(Poison, DeviceBufferIsFilled) {
  RUNGS_NEEDS_DEVICE();
  const gpu::Device device = gpu::Device::open(0);
  const gpu::Buffer<float> buffer(device, 1000);
  poison(buffer);
  for (const float value : buffer.download()) ASSERT_TRUE(is_poison(value));
  poison(gpu::Buffer<float>());
}

TEST(Poison, GuardsSeeWritesOutside) {
  RUNGS_NEEDS_DEVICE();
  const gpu::Device device = gpu::Device::open(0);
  const GuardedBuffer<float> buffer(device, 100, 64);
  EXPECT_EQ(buffer.overwritten(), "");
  const std::vector<float> ones(100, 1.0f);
  buffer.upload(ones);
  EXPECT_EQ(buffer.download(), ones);
  EXPECT_EQ(buffer.overwritten(), "");
  gpu::copy_async(buffer.data() + 100, ones.data(), sizeof(float), nullptr);
  gpu::synchronize(nullptr, Deadline::standard());
  EXPECT_EQ(buffer.overwritten(), "element 100 was written, outside [0, 100)");
  gpu::copy_async(buffer.data() - 2, ones.data(), sizeof(float), nullptr);
  gpu::synchronize(nullptr, Deadline::standard());
  EXPECT_EQ(buffer.overwritten(), "element -2 was written, outside [0, 100)");
}

}  // namespace
}  // namespace rungs::testing
