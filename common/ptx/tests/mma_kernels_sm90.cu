// Kernels of the conformance suite: mma.sync of every type.

#include "warp_conformance.hpp"

#include <rungs/gpu/kernel.hpp>
#include <rungs/ptx/mma.hpp>

#include <cstring>

namespace rungs::ptx::test {
namespace {

using std::int8_t;
using std::uint8_t;

template <class T, int Count>
RUNGS_DEVICE void take(T (&registers)[Count], const std::uint32_t* from) {
  for (int i = 0; i < Count; i++) memcpy(&registers[i], from + i, sizeof(T));
}
template <class T, int Count>
RUNGS_DEVICE void give(std::uint32_t* to, const T (&registers)[Count]) {
  for (int i = 0; i < Count; i++) memcpy(to + i, &registers[i], sizeof(T));
}

// The place at which the wrapper is called stands in the kernel, so that it is one for all lanes.
#define RUNGS_RUN(accumulator, d_count, a_count, b_count, ...) \
  {                                                            \
    std::uint32_t a[a_count], b[b_count];                      \
    accumulator c[d_count], d[d_count];                        \
    take(a, all_a + 4 * threadIdx.x);                          \
    take(b, all_b + 4 * threadIdx.x);                          \
    take(c, all_c + 4 * threadIdx.x);                          \
    __VA_ARGS__(d, a, b, c);                                   \
    give(all_d + 4 * threadIdx.x, d);                          \
  }

template <Mma kWhich>
RUNGS_KERNEL(32)
mma_kernel(const std::uint32_t* all_a, const std::uint32_t* all_b, const std::uint32_t* all_c,
           std::uint32_t* all_d) {
  using enum Mma;
  if constexpr (kWhich == kBf16K8) RUNGS_RUN(float, 4, 2, 1, mma_m16n8k8_bf16)
  if constexpr (kWhich == kBf16K16) RUNGS_RUN(float, 4, 4, 2, mma_m16n8k16_bf16)
  if constexpr (kWhich == kF16K8) RUNGS_RUN(float, 4, 2, 1, mma_m16n8k8_f16)
  if constexpr (kWhich == kF16K16) RUNGS_RUN(float, 4, 4, 2, mma_m16n8k16_f16)
  if constexpr (kWhich == kF16AccumulatorK8) RUNGS_RUN(std::uint32_t, 2, 2, 1, mma_m16n8k8_f16_f16)
  if constexpr (kWhich == kF16AccumulatorK16)
    RUNGS_RUN(std::uint32_t, 2, 4, 2, mma_m16n8k16_f16_f16)
  if constexpr (kWhich == kTf32K4) RUNGS_RUN(float, 4, 2, 1, mma_m16n8k4_tf32)
  if constexpr (kWhich == kTf32K8) RUNGS_RUN(float, 4, 4, 2, mma_m16n8k8_tf32)
  if constexpr (kWhich == kE4M3) RUNGS_RUN(float, 4, 4, 2, mma_m16n8k32_f8<f8e4m3, f8e4m3>)
  if constexpr (kWhich == kE4M3E5M2) RUNGS_RUN(float, 4, 4, 2, mma_m16n8k32_f8<f8e4m3, f8e5m2>)
  if constexpr (kWhich == kE5M2E4M3) RUNGS_RUN(float, 4, 4, 2, mma_m16n8k32_f8<f8e5m2, f8e4m3>)
  if constexpr (kWhich == kE5M2) RUNGS_RUN(float, 4, 4, 2, mma_m16n8k32_f8<f8e5m2, f8e5m2>)
#define RUNGS_RUN_I8(suffix, saturate)                                            \
  if constexpr (kWhich == kS8K16##suffix)                                         \
    RUNGS_RUN(std::int32_t, 4, 2, 1, mma_m16n8k16_i8<int8_t, int8_t, saturate>)   \
  if constexpr (kWhich == kS8U8K16##suffix)                                       \
    RUNGS_RUN(std::int32_t, 4, 2, 1, mma_m16n8k16_i8<int8_t, uint8_t, saturate>)  \
  if constexpr (kWhich == kU8S8K16##suffix)                                       \
    RUNGS_RUN(std::int32_t, 4, 2, 1, mma_m16n8k16_i8<uint8_t, int8_t, saturate>)  \
  if constexpr (kWhich == kU8K16##suffix)                                         \
    RUNGS_RUN(std::int32_t, 4, 2, 1, mma_m16n8k16_i8<uint8_t, uint8_t, saturate>) \
  if constexpr (kWhich == kS8K32##suffix)                                         \
    RUNGS_RUN(std::int32_t, 4, 4, 2, mma_m16n8k32_i8<int8_t, int8_t, saturate>)   \
  if constexpr (kWhich == kS8U8K32##suffix)                                       \
    RUNGS_RUN(std::int32_t, 4, 4, 2, mma_m16n8k32_i8<int8_t, uint8_t, saturate>)  \
  if constexpr (kWhich == kU8S8K32##suffix)                                       \
    RUNGS_RUN(std::int32_t, 4, 4, 2, mma_m16n8k32_i8<uint8_t, int8_t, saturate>)  \
  if constexpr (kWhich == kU8K32##suffix)                                         \
  RUNGS_RUN(std::int32_t, 4, 4, 2, mma_m16n8k32_i8<uint8_t, uint8_t, saturate>)
  RUNGS_RUN_I8(, false)
  RUNGS_RUN_I8(Saturate, true)
#undef RUNGS_RUN_I8
}
#undef RUNGS_RUN

template <unsigned kIndex = 0>
void launch_one(StreamHandle stream, Mma which, const std::uint32_t* a, const std::uint32_t* b,
                const std::uint32_t* c, std::uint32_t* d) {
  if (which == static_cast<Mma>(kIndex)) {
    gpu::launch("mma", {.grid = {1}, .block = {32}}, stream, mma_kernel<static_cast<Mma>(kIndex)>,
                a, b, c, d);
  } else if constexpr (kIndex < static_cast<unsigned>(Mma::kU8K32Saturate)) {
    launch_one<kIndex + 1>(stream, which, a, b, c, d);
  }
}

}  // namespace

void launch_mma(StreamHandle stream, Mma which, const std::uint32_t* a, const std::uint32_t* b,
                const std::uint32_t* c, std::uint32_t* d) {
  launch_one(stream, which, a, b, c, d);
}

}  // namespace rungs::ptx::test
