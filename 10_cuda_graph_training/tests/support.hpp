#pragma once
// Small helpers of this stage's tests.

#include <rungs/testing/compare.hpp>
#include <rungs/testing/device_data.hpp>
#include <rungs/testing/poison.hpp>
#include <rungs/testing/random.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace rungs::training {

using testing::device;
using testing::from_device;
using testing::kBf16Rounding;
using testing::kF32Rounding;
using testing::on_device;
using testing::poisoned;
using testing::queue;
using testing::widen;

}  // namespace rungs::training
