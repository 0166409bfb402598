#include <rungs/core/dtype.hpp>
#include <rungs/core/error.hpp>
#include <rungs/core/tensor.hpp>

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <string>

namespace rungs {
namespace {

TEST(Error, TextHasCodeMessageAndPosition) {
  try {
    RUNGS_THROW(kTimeout, "rank ", 3, " did not answer");
    FAIL() << "RUNGS_THROW returned";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kTimeout);
    EXPECT_EQ(error.message(), "rank 3 did not answer");
    EXPECT_EQ(
        std::string(error.what()).find("Timeout: rank 3 did not answer [tests/error_test.cpp:"), 0u)
        << error.what();
  }
}

TEST(Error, RequireThrowsOnlyWhenBroken) {
  EXPECT_NO_THROW(RUNGS_REQUIRE(1 + 1 == 2, "unused"));
  try {
    RUNGS_REQUIRE(1 > 2, "k must be at least 1, got ", 0);
    FAIL() << "RUNGS_REQUIRE let a broken condition pass";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_EQ(error.message(), "k must be at least 1, got 0");
  }
}

TEST(Error, AssertNamesTheCondition) {
  try {
    RUNGS_ASSERT(2 < 1, "value ", 7);
    FAIL() << "RUNGS_ASSERT let a broken condition pass";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInternal);
    EXPECT_EQ(error.message(), "bug: (2 < 1) value 7");
  }
}

TEST(Error, EveryCodeHasAName) {
  for (const ErrorCode code :
       {ErrorCode::kInvalidArgument, ErrorCode::kUnsupported, ErrorCode::kSystem, ErrorCode::kCuda,
        ErrorCode::kVerbs, ErrorCode::kTimeout, ErrorCode::kPeerLost, ErrorCode::kInternal}) {
    EXPECT_STRNE(to_string(code), "unknown");
  }
  EXPECT_STREQ(to_string(static_cast<ErrorCode>(99)), "unknown");
}

TEST(DType, SizesAndNames) {
  EXPECT_EQ(size_bytes(DType::kBf16), 2u);
  EXPECT_EQ(size_bytes(DType::kF32), 4u);
  EXPECT_EQ(size_bytes(DType::kF64), 8u);
  EXPECT_EQ(size_bytes(DType::kF8E4M3), 1u);
  EXPECT_EQ(size_bytes(static_cast<DType>(77)), 0u);
  EXPECT_STREQ(to_string(DType::kBf16), "bf16");
  EXPECT_STREQ(to_string(static_cast<DType>(-1)), "unknown");
}

// Every bf16 is exact in float and comes back; NaNs become the one quiet NaN.
TEST(Bf16, EveryValueSurvivesTheRoundTrip) {
  for (std::uint32_t bits = 0; bits < 0x10000u; ++bits) {
    const bf16 value{static_cast<std::uint16_t>(bits)};
    const float wide = to_float(value);
    const std::uint16_t back = to_bf16(wide).bits;
    if (std::isnan(wide)) {
      ASSERT_EQ(back, 0x7fff) << bits;
    } else {
      ASSERT_EQ(back, value.bits) << bits;
    }
  }
}

TEST(Bf16, RoundsToNearestEven) {
  // One unit in the last place of 1.0 is 2^-7; halves go to the even neighbour.
  EXPECT_EQ(to_float(to_bf16(1.0f + 0x1p-8f)), 1.0f);
  EXPECT_EQ(to_float(to_bf16(1.0f + 0x1p-7f + 0x1p-8f)), 1.0f + 0x1p-6f);
  EXPECT_EQ(to_float(to_bf16(1.0f + 0x1p-8f + 0x1p-20f)), 1.0f + 0x1p-7f);
  EXPECT_EQ(to_float(to_bf16(-(1.0f + 0x1p-8f))), -1.0f);
  EXPECT_TRUE(std::isinf(to_float(to_bf16(std::numeric_limits<float>::max()))));
  EXPECT_EQ(to_bf16(-0.0f).bits, 0x8000);
}

TEST(Tensor, ViewsSayShapeStridesAndType) {
  bf16 data[6];
  const Tensor<2> view = tensor(data, 2, 3);
  EXPECT_EQ(view.dtype, DType::kBf16);
  EXPECT_EQ(view.count(), 6);
  EXPECT_EQ(view.strides[0], 3);
  EXPECT_EQ(view.strides[1], 1);
  const ConstTensor<2> turned = view.transposed();
  EXPECT_EQ(turned.shape[0], 3);
  EXPECT_EQ(turned.strides[0], 1);
  EXPECT_EQ(turned.as<bf16>(), data);
}

}  // namespace
}  // namespace rungs
