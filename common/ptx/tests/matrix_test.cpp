#include "fixture.hpp"
#include "warp_conformance.hpp"

#include <rungs/core/dtype.hpp>
#include <rungs/testing/conforms.hpp>

#include <cstdint>
#include <vector>

namespace rungs::ptx::test {
namespace {

// Every element of shared memory is its own index.
std::vector<std::uint16_t> numbered() {
  std::vector<std::uint16_t> image(kMatrixElements);
  for (std::size_t i = 0; i < image.size(); i++) image[i] = static_cast<std::uint16_t>(i);
  return image;
}

TEST_F(Conformance, LoadMatrix) {
  testing::conforms("ldmatrix ldmatrix_trans");
  const auto image = upload(numbered());
  for (const unsigned count : {1u, 2u, 4u}) {
    for (const bool transpose : {false, true}) {
      const auto buffer = filled<std::uint32_t>(count * 32, 0xdeadbeef);
      launch_load_matrix(nullptr, static_cast<int>(count), transpose, image.data(), buffer.data());
      const std::vector<std::uint32_t> out = buffer.download();
      for (unsigned i = 0; i < count; i++) {
        // Element (row, column) goes to lane 4 row + column / 2, or with the two exchanged.
        for (unsigned row = 0; row < 8; row++) {
          for (unsigned column = 0; column < 8; column++) {
            const unsigned lane = transpose ? 4 * column + row / 2 : 4 * row + column / 2;
            const unsigned half = transpose ? row % 2 : column % 2;
            ASSERT_EQ(out[i * 32 + lane] >> 16 * half & 0xffff, matrix_row(i, row) + column)
                << count << " matrices, transposed " << transpose << ", matrix " << i << ", ("
                << row << ", " << column << ")";
          }
        }
      }
    }
  }
}

TEST_F(Conformance, StoreMatrix) {
  testing::conforms("stmatrix stmatrix_trans");
  for (const unsigned count : {1u, 2u, 4u}) {
    for (const bool transpose : {false, true}) {
      std::vector<std::uint32_t> values(count * 32);
      for (std::uint32_t i = 0; i < values.size(); i++) values[i] = 2 * i | (2 * i + 1) << 16;
      const auto device_values = upload(values);
      const auto buffer = filled<std::uint16_t>(kMatrixElements, 0xdead);
      launch_store_matrix(nullptr, static_cast<int>(count), transpose, device_values.data(),
                          buffer.data());
      std::vector<std::uint16_t> expected(kMatrixElements, 0xffff);
      for (unsigned i = 0; i < count; i++) {
        for (unsigned row = 0; row < 8; row++) {
          for (unsigned column = 0; column < 8; column++) {
            const unsigned lane = transpose ? 4 * column + row / 2 : 4 * row + column / 2;
            const unsigned half = transpose ? row % 2 : column % 2;
            expected[matrix_row(i, row) + column] =
                static_cast<std::uint16_t>(2 * (i * 32 + lane) + half);
          }
        }
      }
      EXPECT_EQ(buffer.download(), expected) << count << " matrices, transposed " << transpose;
    }
  }
}

TEST_F(Conformance, TileProduct) {
  testing::conforms("ldmatrix ldmatrix_trans mma_m16n8k16_bf16");
  std::vector<std::uint16_t> a(256), b(128);
  const auto value_a = [](int m, int k) { return (m * 5 + k * 3) % 17 - 8; };
  const auto value_b = [](int k, int n) { return (k * 7 + n * 2) % 13 - 6; };
  for (int m = 0; m < 16; m++) {
    for (int k = 0; k < 16; k++)
      a[static_cast<std::size_t>(m * 16 + k)] = to_bf16(static_cast<float>(value_a(m, k))).bits;
  }
  for (int k = 0; k < 16; k++) {
    for (int n = 0; n < 8; n++)
      b[static_cast<std::size_t>(k * 8 + n)] = to_bf16(static_cast<float>(value_b(k, n))).bits;
  }
  const auto device_a = upload(a), device_b = upload(b);
  const auto buffer = filled<float>(128, -1);
  launch_tile_product(nullptr, device_a.data(), device_b.data(), buffer.data());
  const std::vector<float> d = buffer.download();
  for (int m = 0; m < 16; m++) {
    for (int n = 0; n < 8; n++) {
      int sum = 0;
      for (int k = 0; k < 16; k++) sum += value_a(m, k) * value_b(k, n);
      EXPECT_EQ(d[static_cast<std::size_t>(m * 8 + n)], static_cast<float>(sum)) << m << ", " << n;
    }
  }
}

}  // namespace
}  // namespace rungs::ptx::test
