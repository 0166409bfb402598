// Kernels of the conformance suite: ldmatrix and stmatrix.

#include "warp_conformance.hpp"

#include <rungs/core/error.hpp>
#include <rungs/gpu/kernel.hpp>
#include <rungs/ptx/matrix.hpp>
#include <rungs/ptx/mma.hpp>
#include <rungs/ptx/sync.hpp>

namespace rungs::ptx::test {
namespace {

struct alignas(16) Image {
  std::uint16_t elements[kMatrixElements];
};

// Lanes whose address the instruction does not use pass one that must not be touched, though a
// valid one.
template <int Count>
RUNGS_DEVICE std::uint16_t* row_of(Image& image, unsigned lane) {
  return lane < 8 * Count ? &image.elements[matrix_row(lane / 8, lane % 8)]
                          : image.elements + kMatrixElements - 8;
}

template <int Count, bool kTranspose>
RUNGS_KERNEL(32)
load_matrix_kernel(const std::uint16_t* from, std::uint32_t* out) {
  RUNGS_SHARED(Image, image);
  const unsigned lane = threadIdx.x;
  for (unsigned i = lane; i < kMatrixElements; i += 32) image.elements[i] = from[i];
  syncthreads();
  std::uint32_t d[Count];
  if constexpr (kTranspose) {
    ldmatrix_trans(d, row_of<Count>(image, lane));
  } else {
    ldmatrix(d, row_of<Count>(image, lane));
  }
  for (unsigned i = 0; i < Count; i++) out[i * 32 + lane] = d[i];
}

template <int Count, bool kTranspose>
RUNGS_KERNEL(32)
store_matrix_kernel(const std::uint32_t* from, std::uint16_t* out) {
  RUNGS_SHARED(Image, image);
  const unsigned lane = threadIdx.x;
  for (unsigned i = lane; i < kMatrixElements; i += 32) image.elements[i] = 0xffff;
  std::uint32_t values[Count];
  for (unsigned i = 0; i < Count; i++) values[i] = from[i * 32 + lane];
  syncthreads();
  if constexpr (kTranspose) {
    stmatrix_trans(row_of<Count>(image, lane), values);
  } else {
    stmatrix(row_of<Count>(image, lane), values);
  }
  syncthreads();
  for (unsigned i = lane; i < kMatrixElements; i += 32) out[i] = image.elements[i];
}

struct alignas(16) Tiles {
  std::uint16_t a[16][16];
  std::uint16_t b[16][8];
};

RUNGS_KERNEL(32)
tile_product_kernel(const std::uint16_t* a, const std::uint16_t* b, float* d) {
  RUNGS_SHARED(Tiles, s);
  const unsigned lane = threadIdx.x;
  for (unsigned i = lane; i < 256; i += 32) s.a[i / 16][i % 16] = a[i];
  for (unsigned i = lane; i < 128; i += 32) s.b[i / 8][i % 8] = b[i];
  syncthreads();
  std::uint32_t fragment_a[4], fragment_b[2];
  ldmatrix(fragment_a, &s.a[lane % 16][lane / 16 * 8]);
  ldmatrix_trans(fragment_b, s.b[lane % 16]);
  float sum[4] = {0, 0, 0, 0};
  mma_m16n8k16_bf16(sum, fragment_a, fragment_b, sum);
  for (unsigned i = 0; i < 4; i++)
    d[(lane / 4 + 8 * (i / 2)) * 8 + 2 * (lane % 4) + i % 2] = sum[i];
}

template <int Count>
void load(StreamHandle stream, bool transpose, const std::uint16_t* image, std::uint32_t* out) {
  gpu::launch("load_matrix", {.grid = {1}, .block = {32}}, stream,
              transpose ? load_matrix_kernel<Count, true> : load_matrix_kernel<Count, false>, image,
              out);
}
template <int Count>
void store(StreamHandle stream, bool transpose, const std::uint32_t* values, std::uint16_t* out) {
  gpu::launch("store_matrix", {.grid = {1}, .block = {32}}, stream,
              transpose ? store_matrix_kernel<Count, true> : store_matrix_kernel<Count, false>,
              values, out);
}

}  // namespace

void launch_load_matrix(StreamHandle stream, int count, bool transpose, const std::uint16_t* image,
                        std::uint32_t* out) {
  if (count == 1) return load<1>(stream, transpose, image, out);
  if (count == 2) return load<2>(stream, transpose, image, out);
  RUNGS_REQUIRE(count == 4, "1, 2 or 4 matrices, not ", count);
  load<4>(stream, transpose, image, out);
}
void launch_store_matrix(StreamHandle stream, int count, bool transpose,
                         const std::uint32_t* values, std::uint16_t* out) {
  if (count == 1) return store<1>(stream, transpose, values, out);
  if (count == 2) return store<2>(stream, transpose, values, out);
  RUNGS_REQUIRE(count == 4, "1, 2 or 4 matrices, not ", count);
  store<4>(stream, transpose, values, out);
}
void launch_tile_product(StreamHandle stream, const std::uint16_t* a, const std::uint16_t* b,
                         float* d) {
  gpu::launch("tile_product", {.grid = {1}, .block = {32}}, stream, tile_product_kernel, a, b, d);
}

}  // namespace rungs::ptx::test
