// Kernels of the conformance suite: TMA and wgmma.

#include "conformance.hpp"

#include <rungs/core/error.hpp>
#include <rungs/gpu/kernel.hpp>
#include <rungs/ptx/fence.hpp>
#include <rungs/ptx/mbarrier.hpp>
#include <rungs/ptx/sync.hpp>
#include <rungs/ptx/tma.hpp>
#include <rungs/ptx/wgmma.hpp>

namespace rungs::ptx::test {
namespace {

struct alignas(1024) TileBuffer {
  std::uint8_t bytes[kMaxTileBytes];
  std::uint64_t landed;
};

RUNGS_KERNEL(64)
copy_tile_kernel(RUNGS_GRID_CONSTANT const gpu::TensorMap map, int x, int y,
                 std::uint32_t tile_bytes, std::uint8_t* out) {
  RUNGS_DYNAMIC_SHARED(TileBuffer, s);
  if (threadIdx.x == 0) {
    tma_prefetch_descriptor(&map);
    mbarrier_init(&s.landed, 1);
    fence_mbarrier_init();
  }
  syncthreads();
  if (threadIdx.x == 0) {
    // Half of the bytes are expected before the arrival: the two instructions add up.
    mbarrier_expect_tx(&s.landed, tile_bytes / 2);
    mbarrier_arrive_expect_tx(&s.landed, tile_bytes - tile_bytes / 2);
    tma_load_2d(s.bytes, &map, &s.landed, x, y);
  }
  mbarrier_wait(&s.landed, 0);
  for (std::uint32_t i = threadIdx.x; i < tile_bytes; i += blockDim.x) out[i] = s.bytes[i];
}

struct alignas(1024) MulticastBuffer {
  std::uint8_t bytes[2][1024];
  std::uint64_t landed;
};

RUNGS_KERNEL(64) multicast_kernel(RUNGS_GRID_CONSTANT const gpu::TensorMap map, std::uint8_t* out) {
  RUNGS_DYNAMIC_SHARED(MulticastBuffer, s);
  if (threadIdx.x == 0) {
    mbarrier_init(&s.landed, 1);
    fence_mbarrier_init();
  }
  cluster_arrive();
  cluster_wait();
  const std::uint32_t rank = cluster_rank();
  if (threadIdx.x == 0) {
    mbarrier_arrive_expect_tx(&s.landed, 2048);
    tma_load_2d_multicast(s.bytes[rank], &map, &s.landed, 0, static_cast<int>(8 * rank), 3);
  }
  mbarrier_wait(&s.landed, 0);
  for (unsigned i = threadIdx.x; i < 2048; i += 64)
    out[blockIdx.x * 2048 + i] = s.bytes[i / 1024][i % 1024];
  cluster_arrive();
  cluster_wait();
}

struct alignas(1024) Images {
  std::uint32_t a[kImageBytes / 4];
  std::uint32_t b[kImageBytes / 4];
};

template <int N, bool TransA, bool TransB>
RUNGS_KERNEL(128)
multiplication_kernel(Multiplication m, const std::uint32_t* image_a, const std::uint32_t* image_b,
                      float* d) {
  RUNGS_DYNAMIC_SHARED(Images, s);
  const unsigned t = threadIdx.x;
  // 1. The images to shared memory, visible to the asynchronous proxy.
  for (unsigned i = t; i < kImageBytes / 4; i += 128) {
    s.a[i] = image_a[i];
    s.b[i] = image_b[i];
  }
  fence_proxy_async();
  syncthreads();
  // 2. C to registers.
  float mine[N / 2];
  const unsigned row = 16 * (t / 32) + t % 32 / 4, column = 2 * (t % 4);
#pragma unroll
  for (unsigned j = 0; j < N / 2; j++)
    mine[j] = d[(row + 8 * (j / 2 % 2)) * N + column + 8 * (j / 4) + j % 2];
  // 3. The chain.
  wgmma_fence();
  for (int i = 0; i < m.steps; i++) {
    const auto step = static_cast<std::uint32_t>(i);
    const std::uint64_t a = wgmma_descriptor(shared_u32(s.a) + step * m.a_advance, m.a_leading,
                                             m.a_stride, m.swizzle_a);
    const std::uint64_t b = wgmma_descriptor(shared_u32(s.b) + step * m.b_advance, m.b_leading,
                                             m.b_stride, m.swizzle_b);
    wgmma_bf16<N, TransA, TransB>(mine, a, b, i > 0 || m.accumulate_first);
  }
  wgmma_commit();
  wgmma_wait<0>(mine);
  // 4. D to memory.
#pragma unroll
  for (unsigned j = 0; j < N / 2; j++)
    d[(row + 8 * (j / 2 % 2)) * N + column + 8 * (j / 4) + j % 2] = mine[j];
}

template <int N, bool TransA, bool TransB>
void launch_one(StreamHandle stream, const Multiplication& m, const std::uint32_t* image_a,
                const std::uint32_t* image_b, float* d) {
  gpu::launch("multiplication", {.grid = {1}, .block = {128}, .shared_bytes = sizeof(Images)},
              stream, multiplication_kernel<N, TransA, TransB>, m, image_a, image_b, d);
}

template <int N>
void launch_width(StreamHandle stream, bool transpose_a, bool transpose_b, const Multiplication& m,
                  const std::uint32_t* image_a, const std::uint32_t* image_b, float* d) {
  if (transpose_a && transpose_b) return launch_one<N, true, true>(stream, m, image_a, image_b, d);
  if (transpose_a) return launch_one<N, true, false>(stream, m, image_a, image_b, d);
  if (transpose_b) return launch_one<N, false, true>(stream, m, image_a, image_b, d);
  launch_one<N, false, false>(stream, m, image_a, image_b, d);
}

}  // namespace

void launch_copy_tile(StreamHandle stream, const gpu::TensorMap& map, int x, int y,
                      std::uint32_t tile_bytes, std::uint8_t* out) {
  gpu::launch("copy_tile", {.grid = {1}, .block = {64}, .shared_bytes = sizeof(TileBuffer)}, stream,
              copy_tile_kernel, map, x, y, tile_bytes, out);
}

void launch_multicast(StreamHandle stream, const gpu::TensorMap& map, std::uint8_t* out) {
  gpu::launch("multicast",
              {.grid = {2}, .block = {64}, .shared_bytes = sizeof(MulticastBuffer), .cluster = {2}},
              stream, multicast_kernel, map, out);
}

void launch_multiplication(StreamHandle stream, int n, bool transpose_a, bool transpose_b,
                           const Multiplication& m, const std::uint32_t* image_a,
                           const std::uint32_t* image_b, float* d) {
  switch (n) {
    case 32:
      return launch_width<32>(stream, transpose_a, transpose_b, m, image_a, image_b, d);
    case 64:
      return launch_width<64>(stream, transpose_a, transpose_b, m, image_a, image_b, d);
    case 96:
      return launch_width<96>(stream, transpose_a, transpose_b, m, image_a, image_b, d);
    case 128:
      return launch_width<128>(stream, transpose_a, transpose_b, m, image_a, image_b, d);
    case 192:
      return launch_width<192>(stream, transpose_a, transpose_b, m, image_a, image_b, d);
    case 256:
      return launch_width<256>(stream, transpose_a, transpose_b, m, image_a, image_b, d);
    default:
      RUNGS_THROW(kInvalidArgument, "no multiplication of width ", n);
  }
}

}  // namespace rungs::ptx::test
