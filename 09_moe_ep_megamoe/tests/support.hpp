#pragma once
// Small helpers of this stage's tests.

#include <rungs/testing/compare.hpp>
#include <rungs/testing/device_data.hpp>
#include <rungs/testing/gpu_test.hpp>
#include <rungs/testing/random.hpp>

namespace rungs::moe {

using testing::device;
using testing::kBf16Rounding;
using testing::kF32Rounding;
using testing::on_device;
using testing::poisoned;
using testing::queue;
using testing::widen;

}  // namespace rungs::moe
