// Kernels of the wgmma conformance tests with f32 accumulators.

#include "wgmma_kernel.hpp"

namespace rungs::ptx::test {
namespace {

struct alignas(1024) ChainedTiles {
  std::uint32_t c[kWgmmaImageBytes / 4];
  std::uint32_t a[kWgmmaImageBytes / 4];
  std::uint32_t b[kWgmmaImageBytes / 4];
};

RUNGS_DEVICE std::uint32_t pack(float low, float high) {
  return to_bf16(low).bits | static_cast<std::uint32_t>(to_bf16(high).bits) << 16;
}

RUNGS_KERNEL(128)
chained_kernel(std::uint32_t c_leading, std::uint32_t c_stride, std::uint32_t c_advance,
               const std::uint32_t* a, const std::uint32_t* b, const std::uint32_t* c, float* d) {
  RUNGS_DYNAMIC_SHARED(ChainedTiles, s);
  const unsigned t = threadIdx.x;
  for (unsigned i = t; i < kWgmmaImageBytes / 4; i += 128) {
    s.a[i] = a[i];
    s.b[i] = b[i];
    s.c[i] = c[i];
  }
  fence_proxy_async();
  syncthreads();
  // 1. P = A B
  float p[32];
  wgmma_fence();
  wgmma<64, float, bf16>(p, wgmma_descriptor(shared_u32(s.a), 16, 256, gpu::Swizzle::k32B),
                         wgmma_descriptor(shared_u32(s.b), 16, 256, gpu::Swizzle::k32B), false);
  wgmma_commit();
  wgmma_wait<0>(p);
  // 2. Columns 16 i ... + 15 of P are the fragment of step i: the pairs of d lie as A wants them.
  std::uint32_t fragments[4][4];
#pragma unroll
  for (int i = 0; i < 4; i++) {
#pragma unroll
    for (int j = 0; j < 4; j++) fragments[i][j] = pack(p[8 * i + 2 * j], p[8 * i + 2 * j + 1]);
  }
  // 3. D = P C, two groups: the first is waited for while the second runs.
  float mine[32];
  wgmma_fence();
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const std::uint32_t address = shared_u32(s.c) + static_cast<std::uint32_t>(i) * c_advance;
    wgmma<64, float, bf16, bf16, kWgmmaTransposeB>(
        mine, fragments[i], wgmma_descriptor(address, c_leading, c_stride, gpu::Swizzle::k128B),
        i > 0);
    if (i % 2 == 1) wgmma_commit();
  }
  wgmma_wait<1>(mine);
  wgmma_wait<0>(mine);
  const unsigned row = 16 * (t / 32) + t % 32 / 4, column = 2 * (t % 4);
#pragma unroll
  for (unsigned j = 0; j < 32; j++)
    d[(row + 8 * (j / 2 % 2)) * 64 + column + 8 * (j / 4) + j % 2] = mine[j];
}

}  // namespace

void launch_chained(gpu::StreamHandle stream, std::uint32_t c_leading, std::uint32_t c_stride,
                    std::uint32_t c_advance, const std::uint32_t* a, const std::uint32_t* b,
                    const std::uint32_t* c, float* d) {
  gpu::launch("chained", {.grid = {1}, .block = {128}, .shared_bytes = sizeof(ChainedTiles)},
              stream, chained_kernel, c_leading, c_stride, c_advance, a, b, c, d);
}

std::vector<WgmmaForm> float_forms() {
  std::vector<WgmmaForm> forms;
  add_forms<float, bf16, bf16>(forms);
  add_forms<float, f16, f16>(forms);
  add_forms<float, tf32, tf32>(forms);
  add_forms<float, f8e4m3, f8e4m3>(forms);
  add_forms<float, f8e4m3, f8e5m2>(forms);
  add_forms<float, f8e5m2, f8e4m3>(forms);
  add_forms<float, f8e5m2, f8e5m2>(forms);
  add_transposed<float, bf16>(forms);
  add_transposed<float, f16>(forms);
  return forms;
}

}  // namespace rungs::ptx::test
