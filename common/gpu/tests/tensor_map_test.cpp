// The rules of a tensor map, each broken once.

#include "fixture.hpp"

#include <rungs/gpu/tensor_map.hpp>

namespace rungs::gpu::test {
namespace {

class TensorMapTest : public GpuTest {};

TEST_F(TensorMapTest, NamesTheBrokenRule) {
  Buffer<std::uint32_t> data = words(4096);
  char* const base = reinterpret_cast<char*>(data.data());
  const auto error = [](const void* from, DType dtype, std::uint64_t rows, std::uint64_t cols,
                        std::uint64_t pitch_bytes, std::uint32_t box_rows, std::uint32_t box_cols,
                        Swizzle swizzle) {
    return error_of([&] {
      (void)make_tensor_map_2d(from, dtype, rows, cols, pitch_bytes, box_rows, box_cols, swizzle);
    });
  };
  constexpr DType kBf16 = DType::kBf16;
  constexpr Swizzle k128 = Swizzle::k128B;
  EXPECT_EQ(error(base, kBf16, 64, 64, 128, 64, 64, k128), "nothing");
  EXPECT_EQ(error(base, kBf16, 7, 13, 32, 256, 8, Swizzle::kNone), "nothing");
  EXPECT_EQ(error(base, DType::kF32, 1, 1, 16, 1, 4, Swizzle::k32B), "nothing");
  EXPECT_EQ(error(base, DType::kF8E4M3, 64, 64, 64, 8, 64, Swizzle::k64B), "nothing");

  expect_contains(error(nullptr, kBf16, 64, 64, 128, 64, 64, k128),
                  "InvalidArgument: tensor map: base ");
  expect_contains(error(base + 8, kBf16, 64, 64, 128, 64, 64, k128),
                  "must be a multiple of 16 bytes");
  expect_contains(error(base, static_cast<DType>(99), 64, 64, 128, 64, 64, k128),
                  "dtype 99 does not exist");
  expect_contains(error(base, kBf16, 0, 64, 128, 64, 64, k128),
                  "dimension 1 has 0 elements, it must have 1 to 4294967296");
  expect_contains(error(base, kBf16, 64, 0, 128, 64, 64, k128), "dimension 0 has 0 elements");
  expect_contains(error(base, kBf16, 64, 60, 120, 64, 64, k128),
                  "the stride of 120 bytes of dimension 1 must be a multiple of 16");
  expect_contains(error(base, kBf16, 64, 64, 112, 64, 64, k128),
                  "a pitch of 112 bytes is less than a row of 64 bf16 (128 bytes)");
  expect_contains(error(base, kBf16, 64, 64, 128, 257, 64, k128),
                  "the box has 257 elements in dimension 1, it must have 1 to 256");
  expect_contains(error(base, kBf16, 64, 64, 128, 64, 0, k128),
                  "the box has 0 elements in dimension 0");
  expect_contains(error(base, kBf16, 64, 64, 128, 64, 4, k128),
                  "a box row of 4 bf16 has 8 bytes, it must be a multiple of 16");
  expect_contains(error(base, kBf16, 64, 128, 256, 64, 128, k128),
                  "a box row of 256 bytes is wider than the swizzle's 128");
  expect_contains(error(base, kBf16, 64, 64, 128, 64, 64, static_cast<Swizzle>(9)),
                  "swizzle 9 does not exist");
}

// Five dimensions of bf16, and each rule of the general form broken once.
TEST_F(TensorMapTest, NamesTheBrokenRuleOfAnyRank) {
  Buffer<std::uint32_t> data = words(4096);
  TensorMapSpec good;
  good.base = data.data();
  good.element = TensorElement::kBf16;
  good.rank = 5;
  good.sizes = {16, 3, 2, 2, 2};
  good.strides_bytes = {128, 384, 768, 1536};
  good.box = {16, 2, 2, 1, 1};
  const auto error = [&](auto change) {
    TensorMapSpec spec = good;
    change(spec);
    return error_of([&] { (void)make_tensor_map(spec); });
  };
  for (int rank = 1; rank <= 5; rank++) {
    EXPECT_EQ(error([&](TensorMapSpec& s) { s.rank = rank; }), "nothing");
  }
  EXPECT_EQ(error([](auto& s) { s.fill = OutOfBounds::kNan; }), "nothing");
  EXPECT_EQ(error([](auto& s) { s.element_strides = {1, 2, 1, 8, 1}; }), "nothing");
  if (!RUNGS_GPU_CUDA) {  // not known of every driver
    EXPECT_EQ(error([](auto& s) { s.strides_bytes = {128, 0, 16, 384}; }), "nothing");
  }
  EXPECT_EQ(error([](auto& s) { s.sizes[1] = 0x100000000ull; }), "nothing");
  for (const auto promotion :
       {L2Promotion::kNone, L2Promotion::k64B, L2Promotion::k128B, L2Promotion::k256B}) {
    EXPECT_EQ(error([&](auto& s) { s.promotion = promotion; }), "nothing");
  }
  for (const auto element :
       {TensorElement::kU16, TensorElement::kU32, TensorElement::kI32, TensorElement::kU64,
        TensorElement::kI64, TensorElement::kF16, TensorElement::kF32, TensorElement::kF64}) {
    EXPECT_EQ(error([&](auto& s) { s.element = element; }), "nothing");
  }

  expect_contains(error([](auto& s) { s.rank = 0; }), "rank 0, it must be 1 to 5");
  expect_contains(error([](auto& s) { s.rank = 6; }), "rank 6, it must be 1 to 5");
  expect_contains(error([](auto& s) { s.element = static_cast<TensorElement>(77); }),
                  "element type 77 does not exist");
  expect_contains(error([](auto& s) { s.sizes[4] = 0; }), "dimension 4 has 0 elements");
  expect_contains(error([](auto& s) { s.sizes[2] = 0x100000001ull; }),
                  "dimension 2 has 4294967297 elements");
  expect_contains(error([](auto& s) { s.strides_bytes[2] = 200; }),
                  "the stride of 200 bytes of dimension 3 must be a multiple of 16");
  expect_contains(error([](auto& s) { s.strides_bytes[3] = std::uint64_t{1} << 40; }),
                  "of dimension 4 must be a multiple of 16 below 2^40");
  expect_contains(error([](auto& s) { s.box[3] = 0; }), "the box has 0 elements in dimension 3");
  expect_contains(error([](auto& s) { s.box[0] = 12; }),
                  "a box row of 12 bf16 has 24 bytes, it must be a multiple of 16");
  expect_contains(error([](auto& s) { s.element_strides[1] = 9; }),
                  "the element stride of dimension 1 is 9, it must be 1 to 8");
  expect_contains(error([](auto& s) { s.element_strides[4] = 0; }),
                  "the element stride of dimension 4 is 0");
  expect_contains(error([](auto& s) { s.element_strides[0] = 2; }),
                  "the element stride of dimension 0 is 2, it must be 1");
  expect_contains(error([](auto& s) {
                    s.element = TensorElement::kU16;
                    s.fill = OutOfBounds::kNan;
                  }),
                  "outside a tensor of u16 cannot be filled with NaN");
  expect_contains(error([](auto& s) { s.promotion = static_cast<L2Promotion>(4); }),
                  "L2 promotion 4 does not exist");
}

#if !RUNGS_GPU_CUDA
TEST_F(TensorMapTest, TheEmulatorRefusesTypesItDoesNotModel) {
  Buffer<std::uint32_t> data = words(4096);
  TensorMapSpec spec;
  spec.base = data.data();
  spec.element = TensorElement::kTf32;
  spec.sizes = {16, 16};
  spec.strides_bytes = {64};
  spec.box = {16, 16};
  expect_contains(error_of([&] { (void)make_tensor_map(spec); }),
                  "Unsupported: tensor map: element type 11 (f32_ftz, tf32, tf32_ftz)");
}
#endif

TEST_F(TensorMapTest, SameRequestSameBytes) {
  Buffer<std::uint32_t> data = words(4096);
  const auto make = [&](std::uint64_t rows) {
    return make_tensor_map_2d(data.data(), DType::kBf16, rows, 64, 128, 64, 64, Swizzle::k128B);
  };
  const TensorMap one = make(64);
  const TensorMap two = make(64);
  const TensorMap other = make(63);
  EXPECT_EQ(std::vector(one.opaque, one.opaque + 16), std::vector(two.opaque, two.opaque + 16));
  EXPECT_NE(std::vector(one.opaque, one.opaque + 16), std::vector(other.opaque, other.opaque + 16));
}

}  // namespace
}  // namespace rungs::gpu::test
