/// What the contract refuses, in which words, and which rung Plan takes.

#include <rungs/core/error.hpp>
#include <rungs/gemm/gemm.hpp>
#include <rungs/gpu/buffer.hpp>
#include <rungs/gpu/device.hpp>

#include "catalog/my_rungs.hpp"
#include "check.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace rungs::gemm {
namespace {

constexpr int kM = 64;
constexpr int kN = 72;
constexpr int kK = 80;

class Contract : public OnDevice<::testing::Test> {
 protected:
  void SetUp() override {
    OnDevice::SetUp();
    if (!has_device()) return;
    a_ = gpu::Buffer<bf16>(device(), std::size_t{4} * kM * kK);
    b_ = gpu::Buffer<bf16>(device(), std::size_t{4} * kN * kK);
    c_ = gpu::Buffer<float>(device(), std::size_t{4} * kM * kN);
    args_.a = tensor(static_cast<const bf16*>(a_.data()), kM, kK);
    args_.b = tensor(static_cast<const bf16*>(b_.data()), kN, kK);
    args_.c = tensor(c_.data(), kM, kN);
  }
  /// The text of the error that Plan throws, "" if it throws none.
  std::string refusal(const Args& args) const {
    try {
      const Plan plan(args, device());
      return "";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << error.what();
      return error.message();
    }
  }
  std::string_view chosen(const Args& args) const { return Plan(args, device()).rung(); }
  std::string_view reason(const Args& args) const {
    return kLadder[2].supports(args, ladder::Machine{&device(), 1}).reason;
  }

  gpu::Buffer<bf16> a_;
  gpu::Buffer<bf16> b_;
  gpu::Buffer<float> c_;
  Args args_;
};

#define EXPECT_REFUSED(args, ...)                                                               \
  do {                                                                                          \
    const std::string text = refusal(args);                                                     \
    for (const std::string_view part : {__VA_ARGS__}) {                                         \
      EXPECT_NE(text.find(part), std::string::npos) << "text: " << text << "\nlacks: " << part; \
    }                                                                                           \
  } while (false)

TEST_F(Contract, TakesTheFastestRungThatSupportsTheCall) {
  EXPECT_EQ(refusal(args_), "");
  const bool hopper = device().info().compute_major == 9;
  EXPECT_EQ(chosen(args_), hopper ? "tma_wgmma" : "tiled");
}

TEST_F(Contract, ShapesMustAgree) {
  Args args = args_;
  args.b.shape[1] = kK - 8;
  EXPECT_REFUSED(args, "b.shape[1] (K) is 72", "a.shape[1] (K) is 80", "transposed()");
  args = args_;
  args.c.shape[0] = kM + 1;
  EXPECT_REFUSED(args, "c.shape[0] (M) is 65", "a.shape[0] (M) is 64");
  args = args_;
  args.c.shape[1] = kN - 1;
  EXPECT_REFUSED(args, "c.shape[1] (N) is 71", "b.shape[0] (N) is 72");
}

TEST_F(Contract, ExtentsLieInRange) {
  Args args = args_;
  args.a.shape[0] = -1;
  EXPECT_REFUSED(args, "a.shape[0] (M) is -1", "[0, ");
  args = args_;
  args.b.shape[1] = std::int64_t{1} << 31;
  EXPECT_REFUSED(args, "b.shape[1] (K) is 2147483648");
}

TEST_F(Contract, TypesAreBf16InAndF32OrBf16Out) {
  Args args = args_;
  args.a.dtype = DType::kF32;
  EXPECT_REFUSED(args, "a.dtype is f32", "bf16");
  args = args_;
  args.b.dtype = DType::kF16;
  EXPECT_REFUSED(args, "b.dtype is f16");
  args = args_;
  args.c.dtype = DType::kI32;
  EXPECT_REFUSED(args, "c.dtype is i32", "f32 or bf16");
}

TEST_F(Contract, PointersAreThereAndAligned) {
  Args args = args_;
  args.a.data = nullptr;
  EXPECT_REFUSED(args, "a.data is null", "[64, 80]");
  args = args_;
  args.c.data = nullptr;
  EXPECT_REFUSED(args, "c.data is null");
  args = args_;
  args.b.data = reinterpret_cast<const char*>(b_.data()) + 1;
  EXPECT_REFUSED(args, "b.data is 0x", "element size 2");
  args = args_;
  args.c.data = reinterpret_cast<char*>(c_.data()) + 2;
  EXPECT_REFUSED(args, "c.data is 0x", "element size 4");
  args = args_;
  args.valid_rows =
      reinterpret_cast<const std::int32_t*>(reinterpret_cast<const char*>(c_.data()) + 2);
  EXPECT_REFUSED(args, "valid_rows is 0x", "multiple of 4");
}

TEST_F(Contract, OneStrideOfAnOperandIsOneAndLinesDoNotOverlap) {
  Args args = args_;
  args.a.strides = {2 * kK, 2};
  EXPECT_REFUSED(args, "a.strides are [160, 2]", "must be 1");
  args = args_;
  args.b.strides = {kK - 1, 1};
  EXPECT_REFUSED(args, "b.strides[0] is 79", "80 elements", "overlap");
  args = args_;
  args.a.strides = {1, kM - 1};
  EXPECT_REFUSED(args, "a.strides[1] is 63", "64 elements", "overlap");
  args = args_;
  args.a.strides = {0, 1};
  EXPECT_REFUSED(args, "a.strides[0] is 0");
  args = args_;
  args.a.strides = {-kK, 1};
  EXPECT_REFUSED(args, "a.strides[0] is -80");
}

TEST_F(Contract, OutputIsRowMajorAndItsRowsDoNotOverlap) {
  Args args = args_;
  args.c.strides = {1, kM};
  EXPECT_REFUSED(args, "c.strides[1] is 64", "row-major");
  args = args_;
  args.c.strides = {kN - 1, 1};
  EXPECT_REFUSED(args, "c.strides[0] is 71", "N = 72", "overlap");
}

TEST_F(Contract, OutputDoesNotOverlapAnOperand) {
  Args args = args_;
  args.c = tensor(reinterpret_cast<float*>(a_.data()), kM, kN);
  EXPECT_REFUSED(args, "c at 0x", "overlaps a at 0x");
  args = args_;
  args.c.data = reinterpret_cast<float*>(b_.data() + std::size_t{kN} * kK) - 1;
  EXPECT_REFUSED(args, "overlaps b at 0x");
}

TEST_F(Contract, ColumnWindowsOfOneMatrixDoNotOverlap) {
  // a: the first 80 columns of a [64, 160] matrix; c: the last 72 in bf16.
  Args args = args_;
  args.a.strides = {160, 1};
  args.c = {a_.data() + 88, DType::kBf16, {kM, kN}, {160, 1}};
  EXPECT_EQ(refusal(args), "");
  args.c.data = a_.data() + 78;
  EXPECT_REFUSED(args, "overlaps a");
  args.c.data = a_.data() + 90;  // its end wraps into the next row's first columns
  EXPECT_REFUSED(args, "overlaps a");
}

TEST_F(Contract, WhatTmaCannotReadFallsBackWithAReason) {
  if (device().info().compute_major != 9)
    return testing::skip(testing::Lack::kGpu, std::string(reason(args_)));
  Args args = args_;
  args.a = {a_.data(), DType::kBf16, {kM, kK}, {kK + 1, 1}};
  EXPECT_EQ(chosen(args), "tiled");
  EXPECT_NE(reason(args).find("stride between contiguous lines of a"), std::string_view::npos)
      << reason(args);
  args = args_;
  args.b.data = b_.data() + 1;
  EXPECT_EQ(chosen(args), "tiled");
  EXPECT_EQ(reason(args), "b.data is not a multiple of 16 bytes, which TMA needs");
  args = args_;
  args.b = {b_.data(), DType::kBf16, {kN, kK}, {1, kN + 4}};
  EXPECT_EQ(chosen(args), "tiled");
  EXPECT_NE(reason(args).find("stride between contiguous lines of b"), std::string_view::npos)
      << reason(args);
  // Asking for the rung itself is an error with the same reason.
  try {
    detail::prepare_tma_wgmma(args, ladder::Machine{&device(), 1});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_NE(error.message().find(reason(args)), std::string::npos) << error.message();
  }
}

TEST_F(Contract, AWrongCallIsAnErrorOfEveryRung) {
  Args args = args_;
  args.a.strides = {0, 1};
  for (const auto& rung : whole_ladder()) {
    EXPECT_THROW(rung.prepare(args, ladder::Machine{&device(), 1}), Error) << rung.name;
  }
}

TEST_F(Contract, FallbackComputesTheSameProduct) {
  for (const bool mn_major : {false, true}) {
    GemmShape shape;
    shape.m = 67;
    shape.n = 71;
    shape.k = 73;
    shape.a_m_major = mn_major;
    shape.b_n_major = mn_major;
    shape.dense = true;
    GemmProblem problem(shape, device(), 11);
    const Plan plan(problem.args(), device());
    EXPECT_EQ(plan.rung(), "tiled");
    problem.reset();
    plan.run(nullptr);
    gpu::synchronize(nullptr);
    EXPECT_EQ(judge(problem), "");
  }
}

TEST_F(Contract, MultiplyIsOnePlanAndRun) {
  GemmShape shape;
  shape.m = 100;
  shape.n = 90;
  shape.k = 70;
  shape.beta = 1;
  GemmProblem problem(shape, device(), 12);
  problem.reset();
  multiply(problem.args(), nullptr);
  gpu::synchronize(nullptr);
  EXPECT_EQ(judge(problem), "");
}

TEST_F(Contract, StridesOfExtentsOfOneDoNotMatter) {
  Args args = args_;
  args.a = {a_.data(), DType::kBf16, {1, kK}, {0, 1}};
  args.c = {c_.data(), DType::kF32, {1, kN}, {-7, 1}};
  EXPECT_EQ(refusal(args), "");
  args = args_;
  args.a = {a_.data(), DType::kBf16, {kM, 1}, {3, 0}};  // a column of a matrix
  args.b = {b_.data(), DType::kBf16, {kN, 1}, {8, 5}};
  EXPECT_EQ(refusal(args), "");
  args = args_;
  args.a = {a_.data(), DType::kBf16, {1, kK}, {1, 16}};  // one row of a transposed matrix
  args.c = {c_.data(), DType::kF32, {1, kN}, {kN, 1}};
  EXPECT_EQ(refusal(args), "");
}

TEST_F(Contract, EmptyTensorsNeedNoMemory) {
  Args args;
  args.a = {nullptr, DType::kBf16, {0, kK}, {kK, 1}};
  args.b = {b_.data(), DType::kBf16, {kN, kK}, {kK, 1}};
  args.c = {nullptr, DType::kF32, {0, kN}, {kN, 1}};
  Plan(args, device()).run(nullptr);
  gpu::synchronize(nullptr);
  EXPECT_EQ(refusal(args), "");
}

}  // namespace
}  // namespace rungs::gemm
