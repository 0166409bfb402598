// Every form of wgmma.mma_async once: each type at each N, A from shared memory and from registers.
// For the assembler, which knows what Hopper has; never launched.

#include "wgmma_conformance.hpp"

#include <rungs/gpu/kernel.hpp>
#include <rungs/ptx/wgmma.hpp>

#include <cstring>
#include <utility>

namespace rungs::ptx::test {
namespace {

template <int N, class D, class A, class B, WgmmaModifiers M>
RUNGS_DEVICE void multiply_once(std::uint32_t* out, std::uint64_t descriptor, bool accumulate) {
  if constexpr (detail::wgmma_has_width<D>(N)) {
    constexpr int kCount = kWgmmaRegisters<N, D>;
    WgmmaRegister<D> d[kCount];
    const std::uint32_t a[4] = {out[0], out[1], out[2], out[3]};
#pragma unroll
    for (int i = 0; i < kCount; i++) d[i] = 0;
    wgmma_fence();
    wgmma<N, D, A, B, M>(d, descriptor, descriptor, accumulate);
    wgmma<N, D, A, B, M>(d, a, descriptor, true);
    wgmma_commit();
    wgmma_wait<0>(d);
    std::uint32_t all = 0;
#pragma unroll
    for (int i = 0; i < kCount; i++) {
      std::uint32_t bits;
      memcpy(&bits, &d[i], sizeof(bits));
      all ^= bits;
    }
    out[threadIdx.x] = all;
  }
}

template <class D, class A, class B, WgmmaModifiers M, int... I>
RUNGS_DEVICE void multiply_all(std::uint32_t* out, std::uint64_t descriptor, bool accumulate,
                               std::integer_sequence<int, I...> /*widths / 8 - 1*/) {
  (multiply_once<8 * I + 8, D, A, B, M>(out, descriptor, accumulate), ...);
}

template <class D, class A, class B, WgmmaModifiers M = 0>
RUNGS_KERNEL(128)
every_width_kernel(std::uint32_t* out, std::uint64_t descriptor, bool accumulate) {
  multiply_all<D, A, B, M>(out, descriptor, accumulate, std::make_integer_sequence<int, 32>{});
}

template <class D, class A, class B, WgmmaModifiers M = 0>
const void* kernel() {
  return reinterpret_cast<const void*>(&every_width_kernel<D, A, B, M>);
}

}  // namespace

std::vector<const void*> every_wgmma() {
  constexpr WgmmaModifiers kNegative = kWgmmaNegateA | kWgmmaNegateB;
  using std::int32_t, std::int8_t, std::uint8_t;
  return {kernel<float, bf16, bf16, kNegative>(),
          kernel<float, f16, f16>(),
          kernel<float, tf32, tf32, kNegative>(),
          kernel<float, f8e4m3, f8e4m3>(),
          kernel<float, f8e4m3, f8e5m2, kNegative>(),
          kernel<float, f8e5m2, f8e4m3>(),
          kernel<float, f8e5m2, f8e5m2>(),
          kernel<f16, f16, f16, kNegative>(),
          kernel<f16, f8e4m3, f8e4m3>(),
          kernel<f16, f8e4m3, f8e5m2>(),
          kernel<f16, f8e5m2, f8e4m3>(),
          kernel<f16, f8e5m2, f8e5m2, kNegative>(),
          kernel<int32_t, int8_t, int8_t>(),
          kernel<int32_t, int8_t, uint8_t>(),
          kernel<int32_t, uint8_t, int8_t>(),
          kernel<int32_t, uint8_t, uint8_t>(),
          kernel<int32_t, int8_t, int8_t, kWgmmaSatfinite>(),
          kernel<int32_t, int8_t, uint8_t, kWgmmaSatfinite>(),
          kernel<int32_t, uint8_t, int8_t, kWgmmaSatfinite>(),
          kernel<int32_t, uint8_t, uint8_t, kWgmmaSatfinite>()};
}

}  // namespace rungs::ptx::test
