// TMA stores and reductions at every rank, against a host oracle, bit for bit.

#include "tma_tile.hpp"

namespace rungs::ptx::test {
namespace {

TEST_F(TileConformance, StoresOfEveryRank) {
  rungs::testing::conforms("tma_store");
  every_shape([&](const Tensor& t) {
    for (const Coordinates& at : places(t, false)) store(t, Hint::kNone, at);
  });
}

TEST_F(TileConformance, StoresWithCachePolicy) {
  rungs::testing::conforms("tma_store_hint createpolicy_fractional");
  every_shape([&](const Tensor& t) { store(t, Hint::kPolicy, places(t, false)[1]); });
}

// The swizzle follows the bits of the address, also where a tile does not start with its pattern.
TEST_F(TileConformance, SwizzleFollowsTheAddress) {
  rungs::testing::conforms("tma_load tma_store");
  for (const Swizzle swizzle : {Swizzle::k32B, Swizzle::k64B, Swizzle::k128B}) {
    const Tensor t = make_tensor(3, TensorElement::kBf16, swizzle, span_of(swizzle));
    for (const std::uint32_t shift : {128u, 384u, 896u}) {
      load(t, Hint::kNone, places(t, false)[1], shift);
      store(t, Hint::kNone, places(t, false)[1], shift);
    }
  }
}

TEST_F(TileConformance, SumWithCachePolicy) {
  rungs::testing::conforms("tma_reduce_hint createpolicy_fractional");
  Tensor t = make_tensor(3, TensorElement::kU32, Swizzle::k64B, 64);
  t.bytes = reduction_operands(t.spec.element, t.bytes.size(), 5);
  const auto data = upload(t.bytes);
  const gpu::TensorMap map = map_of(t, data);
  const std::vector<std::uint8_t> image = reduction_operands(t.spec.element, t.tile_bytes(), 6);
  const auto source = upload(image);
  const Coordinates at = places(t, false)[2];
  launch_add_tile(nullptr, map, at, t.tile_bytes(), source.data());
  std::vector<std::uint8_t> expected = t.bytes;
  t.walk(at, [&](std::uint32_t place, std::int64_t to) {
    if (to >= 0)
      reduce_one(BulkReduction::kAdd, t.spec.element, &expected[static_cast<std::size_t>(to)],
                 &image[place]);
  });
  compare(data.download(), expected, t, at);
}

TEST_F(TileConformance, Reductions) {
  rungs::testing::conforms("tma_reduce");
  for (const TensorElement element : {TensorElement::kU32, TensorElement::kI32, TensorElement::kF32,
                                      TensorElement::kBf16, TensorElement::kF16})
    reduce_all(element);
}

TEST_F(TileConformance, ReductionsOfU64) {
  rungs::testing::conforms("tma_reduce");
  reduce_all(TensorElement::kU64);
}

TEST_F(TileConformance, ReductionsOfI64) {
  rungs::testing::conforms("tma_reduce");
  reduce_all(TensorElement::kI64);
}

TEST_F(TileConformance, ReductionsOfF64) {
  rungs::testing::conforms("tma_reduce");
  reduce_all(TensorElement::kF64);
}

}  // namespace
}  // namespace rungs::ptx::test
