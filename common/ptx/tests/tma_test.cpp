#include "fixture.hpp"

#include <rungs/testing/conforms.hpp>

#include <cstdint>
#include <vector>

namespace rungs::ptx::test {
namespace {

using gpu::Swizzle;

struct Box {
  DType dtype;
  std::uint32_t element, rows, cols;
  Swizzle swizzle;
};

// Where chunk `chunk` of the 128-byte line `line` lies, from the picture in the PTX ISA.
std::uint32_t permuted(Swizzle swizzle, std::uint32_t line, std::uint32_t chunk) {
  switch (swizzle) {
    case Swizzle::k128B:
      return chunk ^ (line % 8);
    case Swizzle::k64B:
      return (chunk & 4) | ((chunk & 3) ^ (line % 4));
    case Swizzle::k32B:
      return (chunk & 6) | ((chunk & 1) ^ (line % 2));
    default:
      return chunk;
  }
}

class TmaConformance : public Conformance {
 protected:
  void check(const Box& box, int x, int y) {
    constexpr std::uint32_t kRows = 37;
    const std::uint32_t cols = 160 / box.element + 5;
    const std::uint32_t pitch = (cols * box.element + 31) / 16 * 16;
    std::vector<std::uint8_t> source(kRows * pitch);
    for (std::uint32_t i = 0; i < source.size(); i++)
      source[i] = static_cast<std::uint8_t>(i * 7 + i / 251 + 1);
    const auto tensor = upload(source);
    const gpu::TensorMap map = gpu::make_tensor_map_2d(tensor.data(), box.dtype, kRows, cols, pitch,
                                                       box.rows, box.cols, box.swizzle);
    const std::uint32_t row_bytes = box.cols * box.element, tile = row_bytes * box.rows;
    const auto out = filled<std::uint8_t>(tile, 0xee);
    launch_copy_tile(nullptr, map, x, y, tile, out.data());
    const std::vector<std::uint8_t> image = out.download();
    for (std::uint32_t r = 0; r < box.rows; r++) {
      for (std::uint32_t b = 0; b < row_bytes; b++) {
        const std::int64_t gy = std::int64_t{y} + r, gx = std::int64_t{x} + b / box.element;
        const bool inside = gy >= 0 && gy < kRows && gx >= 0 && gx < cols;
        const std::uint8_t expected =
            inside
                ? source[static_cast<std::size_t>(gy * pitch + gx * box.element + b % box.element)]
                : std::uint8_t{0};
        const std::uint32_t linear = r * row_bytes + b, line = linear / 128;
        const std::uint32_t place =
            line * 128 + permuted(box.swizzle, line, linear % 128 / 16) * 16 + linear % 16;
        ASSERT_EQ(image[place], expected)
            << "row " << r << " byte " << b << ", " << to_string(box.dtype) << ", swizzle "
            << static_cast<int>(box.swizzle) << ", at " << x << ", " << y;
      }
    }
  }
};

TEST_F(TmaConformance, EverySwizzleSizeAndEdge) {
  rungs::testing::conforms(
      "tma_load_2d tma_prefetch_descriptor mbarrier_expect_tx mbarrier_arrive_expect_tx");
  for (const DType dtype : {DType::kU8, DType::kBf16, DType::kF32, DType::kF64}) {
    for (const Swizzle swizzle : {Swizzle::kNone, Swizzle::k32B, Swizzle::k64B, Swizzle::k128B}) {
      const auto element = static_cast<std::uint32_t>(size_bytes(dtype));
      const std::uint32_t span = swizzle == Swizzle::k128B  ? 128
                                 : swizzle == Swizzle::k64B ? 64
                                 : swizzle == Swizzle::k32B ? 32
                                                            : 16;
      const int chunk = static_cast<int>(16 / element);  // columns come in steps of 16 bytes
      for (const std::uint32_t rows : {8u, 24u}) {
        const Box box{dtype, element, rows, span / element, swizzle};
        check(box, 0, 0);
        check(box, 3 * chunk, 5);
        check(box, -2 * chunk, -3);
        check(box, 10 * chunk, 30);      // over both far edges
        check(box, 1000 * chunk, 1000);  // all outside
      }
    }
  }
  check({DType::kBf16, 2, 64, 64, Swizzle::kNone}, 8, 1);  // rows wider than the swizzle unit
}

TEST_F(TmaConformance, Multicast) {
  rungs::testing::conforms("tma_load_2d_multicast");
  std::vector<std::uint8_t> source(2048);
  for (std::size_t i = 0; i < source.size(); i++)
    source[i] = static_cast<std::uint8_t>(i * 13 + i / 256);
  const auto tensor = upload(source);
  const gpu::TensorMap map =
      gpu::make_tensor_map_2d(tensor.data(), DType::kU8, 16, 128, 128, 8, 128, Swizzle::kNone);
  const auto out = filled<std::uint8_t>(2 * 2048, 0xee);
  launch_multicast(nullptr, map, out.data());
  const std::vector<std::uint8_t> image = out.download();
  for (std::size_t i = 0; i < image.size(); i++) ASSERT_EQ(image[i], source[i % 2048]) << i;
}

}  // namespace
}  // namespace rungs::ptx::test
