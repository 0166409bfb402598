// TMA loads at every rank, against a host oracle, bit for bit.

#include "tma_tile.hpp"

namespace rungs::ptx::test {
namespace {

TEST_F(TileConformance, LoadsOfEveryRank) {
  rungs::testing::conforms("tma_load tma_prefetch");
  every_shape([&](const Tensor& t) {
    for (const Coordinates& at : places(t, true)) load(t, Hint::kNone, at);
  });
}

TEST_F(TileConformance, LoadsWithCachePolicy) {
  rungs::testing::conforms("tma_load_hint tma_prefetch_hint createpolicy_fractional");
  every_shape([&](const Tensor& t) { load(t, Hint::kPolicy, places(t, true)[2]); });
}

TEST_F(TileConformance, LoadsIntoTheOtherBlock) {
  rungs::testing::conforms("tma_load_cluster");
  const Tensor t = make_tensor(3, TensorElement::kF32, Swizzle::k128B, 128);
  for (const Coordinates& at : places(t, true)) load_across(t, at);
}

TEST_F(TileConformance, Multicast) {
  rungs::testing::conforms("tma_load_multicast tma_load_multicast_hint");
  for (const int rank : {1, 3, 5}) {
    Tensor t =
        make_tensor(rank, TensorElement::kBf16, rank == 1 ? Swizzle::kNone : Swizzle::k64B, 64);
    const auto data = upload(t.bytes);
    const gpu::TensorMap map = map_of(t, data);
    const Coordinates first = places(t, true)[0], second = places(t, true)[1];
    const std::uint32_t tile = t.tile_bytes();
    const auto out = filled<std::uint8_t>(std::size_t{4} * tile, 0xee);
    launch_multicast_tiles(nullptr, rank, map, first, second, tile, out.data());
    const std::vector<std::uint8_t> images = out.download();
    for (std::size_t copy = 0; copy < 4; copy++) {
      t.walk(copy % 2 == 0 ? first : second, [&](std::uint32_t place, std::int64_t from) {
        if (HasFatalFailure()) return;
        for (std::uint32_t b = 0; b < 2; b++) {
          const std::uint8_t expected =
              from < 0 ? std::uint8_t{0} : t.bytes[static_cast<std::size_t>(from) + b];
          ASSERT_EQ(images[copy * tile + place + b], expected) << "copy " << copy << " " << place;
        }
      });
    }
  }
}

// Elements outside arrive as a NaN. Which one the manual does not say; the report keeps it.
TEST_F(TileConformance, NanOutside) {
  rungs::testing::conforms("tma_load");
  for (const TensorElement element :
       {TensorElement::kF16, TensorElement::kBf16, TensorElement::kF32, TensorElement::kF64}) {
    Tensor t = make_tensor(3, element, Swizzle::k32B, 32);
    t.spec.fill = OutOfBounds::kNan;
    const auto data = upload(t.bytes);
    const gpu::TensorMap map = map_of(t, data);
    const Coordinates at = places(t, true)[2];
    const auto out = filled<std::uint8_t>(t.tile_bytes(), 0xee);
    launch_load_tile(nullptr, 3, Hint::kNone, map, at, t.tile_bytes(), 0, out.data());
    const std::vector<std::uint8_t> image = out.download();
    const std::size_t size = element_size(element);
    int outside = 0;
    t.walk(at, [&](std::uint32_t place, std::int64_t from) {
      if (HasFatalFailure()) return;
      std::uint64_t bits = 0;
      std::memcpy(&bits, &image[place], size);
      if (from >= 0) {
        std::uint64_t expected = 0;
        std::memcpy(&expected, &t.bytes[static_cast<std::size_t>(from)], size);
        ASSERT_EQ(bits, expected) << place;
        return;
      }
      outside++;
      const int fraction = element == TensorElement::kF16    ? 10
                           : element == TensorElement::kBf16 ? 7
                           : element == TensorElement::kF32  ? 23
                                                             : 52;
      const std::uint64_t infinity =
          (std::uint64_t{1} << (size * 8 - 1)) - (std::uint64_t{1} << fraction);
      const std::uint64_t magnitude = bits & ((std::uint64_t{1} << (size * 8 - 1)) - 1);
      ASSERT_GT(magnitude, infinity) << "not a NaN: " << std::hex << bits;
      RecordProperty("nan_of_element_" + std::to_string(static_cast<int>(element)),
                     std::to_string(bits));
    });
    EXPECT_GT(outside, 0);
  }
}

TEST_F(TileConformance, ElementStrides) {
  rungs::testing::conforms("tma_load");
  Tensor t = make_tensor(4, TensorElement::kBf16, Swizzle::kNone, 32);
  t.spec.box = {16, 5, 4, 2, 1};
  t.spec.element_strides = {1, 2, 3, 1, 1};  // 3 of 5, 2 of 4, 2 of 2
  ASSERT_EQ(t.tile_bytes(), 32u * 3 * 2 * 2);
  load(t, Hint::kNone, {{0, 0, 0, 0, 0}});
  load(t, Hint::kNone, {{8, 1, 1, 1, 0}});
  load(t, Hint::kNone, {{-8, -1, -2, 0, 0}});
}

}  // namespace
}  // namespace rungs::ptx::test
