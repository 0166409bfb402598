// A program outside the project: one product through the installed library, checked.
#include <rungs/core/error.hpp>
#include <rungs/gemm/gemm.hpp>
#include <rungs/gpu/buffer.hpp>
#include <rungs/gpu/stream.hpp>

#include <cstdio>
#include <span>
#include <vector>

int main() try {
  using namespace rungs;
  constexpr int kM = 3, kN = 5, kK = 8;
  if (gpu::Device::count() == 0) {
    std::puts("no GPU: linked, not run");
    return 0;
  }
  const gpu::Device device = gpu::Device::open(0);
  device.make_current();
  const gpu::Stream stream(device);

  // Small integers: every product and sum is exact in bf16 and fp32.
  std::vector<bf16> a(kM * kK), b(kN * kK);
  for (int i = 0; i < kM * kK; ++i) a[i] = to_bf16(static_cast<float>(i % 3 - 1));
  for (int i = 0; i < kN * kK; ++i) b[i] = to_bf16(static_cast<float>(i % 5 - 2));
  gpu::Buffer<bf16> device_a(device, a.size()), device_b(device, b.size());
  gpu::Buffer<float> device_c(device, kM * kN);
  device_a.upload(a, stream);
  device_b.upload(b, stream);
  gemm::multiply({.a = tensor<const bf16>(device_a.data(), kM, kK),
                  .b = tensor<const bf16>(device_b.data(), kN, kK),
                  .c = tensor(device_c.data(), kM, kN)},
                 stream);
  const std::vector<float> c = device_c.download(stream);

  for (int m = 0; m < kM; ++m) {
    for (int n = 0; n < kN; ++n) {
      int expected = 0;
      for (int k = 0; k < kK; ++k) expected += ((m * kK + k) % 3 - 1) * ((n * kK + k) % 5 - 2);
      if (!(c[m * kN + n] == static_cast<float>(expected))) {
        std::printf("C[%d, %d] is %g, expected %d\n", m, n, c[m * kN + n], expected);
        return 1;
      }
    }
  }
  std::printf("%zu rungs, %dx%dx%d right on %s\n", gemm::kLadder.size(), kM, kN, kK,
              device.info().name.c_str());
  return 0;
} catch (const std::exception& error) {
  std::printf("%s\n", error.what());
  return 1;
}
