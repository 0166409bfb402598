#pragma once
/// @file wgmma_kernel.hpp
/// The kernel of the wgmma conformance tests and the table entry of one form.

#include "wgmma_conformance.hpp"

#include <rungs/gpu/kernel.hpp>
#include <rungs/ptx/fence.hpp>
#include <rungs/ptx/sync.hpp>
#include <rungs/ptx/wgmma.hpp>

#include <cstring>
#include <type_traits>

namespace rungs::ptx::test {
namespace {

struct alignas(1024) WgmmaImages {
  std::uint32_t a[kWgmmaImageBytes / 4];
  std::uint32_t b[kWgmmaImageBytes / 4];
};

template <int N, class D, class A, class B, WgmmaModifiers M, bool kFromRegisters>
RUNGS_KERNEL(128)
wgmma_chain_kernel(WgmmaChain chain, const std::uint32_t* a, const std::uint32_t* b,
                   std::uint32_t* d) {
  RUNGS_DYNAMIC_SHARED(WgmmaImages, s);
  constexpr int kCount = kWgmmaRegisters<N, D>;
  const unsigned t = threadIdx.x;
  // 1. The images to shared memory, visible to the asynchronous proxy.
  for (unsigned i = t; i < kWgmmaImageBytes / 4; i += 128) {
    if (!kFromRegisters) s.a[i] = a[i];
    s.b[i] = b[i];
  }
  fence_proxy_async();
  syncthreads();
  // 2. C to registers, and A.
  WgmmaRegister<D> mine[kCount];
#pragma unroll
  for (int i = 0; i < kCount; i++) memcpy(&mine[i], &d[static_cast<unsigned>(i) * 128 + t], 4);
  std::uint32_t fragments[kMaxWgmmaSteps][4] = {};
  if (kFromRegisters) {
#pragma unroll
    for (int i = 0; i < kMaxWgmmaSteps; i++) {
#pragma unroll
      for (int j = 0; j < 4; j++) {
        if (i < chain.steps)
          fragments[i][j] = a[(static_cast<unsigned>(i) * 128 + t) * 4 + static_cast<unsigned>(j)];
      }
    }
  }
  // 3. The chain.
  wgmma_fence();
#pragma unroll
  for (int i = 0; i < kMaxWgmmaSteps; i++) {
    if (i >= chain.steps) break;
    const auto step = static_cast<std::uint32_t>(i);
    const bool accumulate = i > 0 || chain.accumulate_first;
    const std::uint64_t right = wgmma_descriptor(shared_u32(s.b) + step * chain.b_advance,
                                                 chain.b_leading, chain.b_stride, chain.swizzle_b);
    if constexpr (kFromRegisters) {
      wgmma<N, D, A, B, M>(mine, fragments[i], right, accumulate);
    } else {
      const std::uint64_t left = wgmma_descriptor(shared_u32(s.a) + step * chain.a_advance,
                                                  chain.a_leading, chain.a_stride, chain.swizzle_a);
      wgmma<N, D, A, B, M>(mine, left, right, accumulate);
    }
  }
  wgmma_commit();
  wgmma_wait<0>(mine);
  // 4. D to memory.
#pragma unroll
  for (int i = 0; i < kCount; i++) memcpy(&d[static_cast<unsigned>(i) * 128 + t], &mine[i], 4);
}

template <int N, class D, class A, class B, WgmmaModifiers M, bool kFromRegisters>
void launch_chain(gpu::StreamHandle stream, const WgmmaChain& chain, const std::uint32_t* a,
                  const std::uint32_t* b, std::uint32_t* d) {
  gpu::launch("wgmma_chain", {.grid = {1}, .block = {128}, .shared_bytes = sizeof(WgmmaImages)},
              stream, wgmma_chain_kernel<N, D, A, B, M, kFromRegisters>, chain, a, b, d);
}

template <class T>
constexpr Element element_of() {
  return std::is_same_v<T, float>          ? Element::kF32
         : std::is_same_v<T, f16>          ? Element::kF16
         : std::is_same_v<T, bf16>         ? Element::kBf16
         : std::is_same_v<T, tf32>         ? Element::kTf32
         : std::is_same_v<T, f8e4m3>       ? Element::kE4m3
         : std::is_same_v<T, f8e5m2>       ? Element::kE5m2
         : std::is_same_v<T, std::int32_t> ? Element::kS32
         : std::is_same_v<T, std::int8_t>  ? Element::kS8
                                           : Element::kU8;
}

template <int N, class D, class A, class B, WgmmaModifiers M, bool kFromRegisters>
WgmmaForm form() {
  return {N,
          element_of<D>(),
          element_of<A>(),
          element_of<B>(),
          (M & kWgmmaTransposeA) != 0,
          (M & kWgmmaTransposeB) != 0,
          (M & kWgmmaNegateA) != 0,
          (M & kWgmmaNegateB) != 0,
          (M & kWgmmaSatfinite) != 0,
          kFromRegisters,
          &launch_chain<N, D, A, B, M, kFromRegisters>};
}

/// A from shared memory and from registers, at the narrowest, an odd and the greatest width. The
/// signs vary with the width where the type has them.
template <class D, class A, class B, WgmmaModifiers M = 0>
void add_forms(std::vector<WgmmaForm>& forms) {
  constexpr bool kSigned = !std::is_same_v<D, std::int32_t>;
  constexpr WgmmaModifiers kA = M | (kSigned ? kWgmmaNegateA : 0);
  constexpr WgmmaModifiers kB = M | (kSigned ? kWgmmaNegateB : 0);
  forms.push_back(form<8, D, A, B, kA, false>());
  forms.push_back(form<8, D, A, B, M, true>());
  forms.push_back(form<24, D, A, B, M, false>());
  forms.push_back(form<24, D, A, B, kB, true>());
  forms.push_back(form<256, D, A, B, kA | kB, false>());
  forms.push_back(form<256, D, A, B, kA, true>());
}

/// MN-major operands, of 16-bit types.
template <class D, class T>
void add_transposed(std::vector<WgmmaForm>& forms) {
  forms.push_back(form<64, D, T, T, kWgmmaTransposeA, false>());
  forms.push_back(form<128, D, T, T, kWgmmaTransposeB, false>());
  forms.push_back(form<192, D, T, T, kWgmmaTransposeA | kWgmmaTransposeB, false>());
  forms.push_back(form<64, D, T, T, kWgmmaTransposeB, true>());
}

}  // namespace
}  // namespace rungs::ptx::test
