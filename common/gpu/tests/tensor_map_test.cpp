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
                  "rows is 0, it must be 1 to 4294967296");
  expect_contains(error(base, kBf16, 64, 0, 128, 64, 64, k128), "cols is 0");
  expect_contains(error(base, kBf16, 64, 60, 120, 64, 64, k128),
                  "a pitch of 120 bytes must be a multiple of 16");
  expect_contains(error(base, kBf16, 64, 64, 112, 64, 64, k128),
                  "a pitch of 112 bytes is less than a row of 64 bf16 (128 bytes)");
  expect_contains(error(base, kBf16, 64, 64, 128, 257, 64, k128),
                  "box_rows is 257, it must be 1 to 256");
  expect_contains(error(base, kBf16, 64, 64, 128, 64, 0, k128), "box_cols is 0");
  expect_contains(error(base, kBf16, 64, 64, 128, 64, 4, k128),
                  "a box row of 4 bf16 has 8 bytes, it must be a multiple of 16");
  expect_contains(error(base, kBf16, 64, 128, 256, 64, 128, k128),
                  "a box row of 256 bytes is wider than the swizzle's 128");
  expect_contains(error(base, kBf16, 64, 64, 128, 64, 64, static_cast<Swizzle>(9)),
                  "swizzle 9 does not exist");
}

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
