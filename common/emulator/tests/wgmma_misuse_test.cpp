// Misuse of wgmma: each must end the launch with a report that names it.

#include "launch_kernel.hpp"

#include <rungs/core/dtype.hpp>
#include <rungs/gpu/kernel.hpp>
#include <rungs/ptx/fence.hpp>
#include <rungs/ptx/sync.hpp>
#include <rungs/ptx/wgmma.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace rungs::emulator::testing {
namespace {

using ptx::wgmma;
using ptx::wgmma_commit;
using ptx::wgmma_fence;
using ptx::wgmma_wait;

struct alignas(1024) Tile {
  bf16 values[128 * 64];
};

enum class Misuse {
  kNone,
  kWidth,
  kUnalignedAddress,
  kUnalignedStride,
  kStrideTooLong,
  kBaseOffset,
  kOffPattern,
  kOtherWidth,
  kOtherType,
  kOtherShape,
  kOtherShapeAfterFence,  // legal
  kOperandChanged,
  kOperandWithoutFence,
  kOperandReused,  // legal
  kTouchedAfterWait,
  kIntegersInFlight,
  kHalvesInFlight,
  kNoWait,
  kNoCommit,
  kDescriptorByWarp,
  kAccumulateByThread,
  kTypeByWarp,
};

template <Misuse kMisuse>
RUNGS_KERNEL(128)
misuse_wgmma(std::uint32_t* out) {
  RUNGS_DYNAMIC_SHARED(Tile, s);
  const unsigned t = threadIdx.x;
  for (unsigned i = t; i < 128 * 64; i += 128) s.values[i] = bf16{0};
  ptx::fence_proxy_async();
  ptx::syncthreads();
  const std::uint32_t address = ptx::shared_u32(s.values);
  const auto at = [&](std::uint32_t offset, std::uint32_t stride = 1024) {
    return ptx::wgmma_descriptor(address + offset, 16, stride, gpu::Swizzle::k128B);
  };
  const std::uint64_t tile = at(0);
  float d[32] = {};
  std::int32_t integers[32] = {};
  std::uint32_t halves[16] = {};
  std::uint32_t a[4] = {};
  const auto finish = [&] {
    wgmma_commit();
    wgmma_wait<0>(d);
  };
  wgmma_fence();
  switch (kMisuse) {
    case Misuse::kNone:
      wgmma<64, float, bf16>(d, tile, tile, true);
      wgmma<64, float, f16>(d, tile, tile, true);
      wgmma<64, std::int32_t, std::int8_t>(integers, tile, tile, true);
      wgmma<64, f16, f16>(halves, a, tile, true);
      break;
    case Misuse::kWidth: {
      WgmmaInstruction instruction;
      instruction.n = 12;
      model::wgmma(instruction, d, tile, nullptr, tile, true, {__FILE__, __LINE__});
      break;
    }
    case Misuse::kUnalignedAddress:
      wgmma<64, float, bf16>(d, at(8), tile, true);
      break;
    case Misuse::kUnalignedStride:
      wgmma<64, float, bf16>(d, tile, at(0, 1028), true);
      break;
    case Misuse::kStrideTooLong:
      wgmma<64, float, bf16>(d, tile, at(0, 1u << 18 | 1024), true);
      break;
    case Misuse::kBaseOffset:
      wgmma<64, float, bf16>(d, tile | std::uint64_t{3} << 49, tile, true);
      break;
    case Misuse::kOffPattern:
      wgmma<64, float, bf16>(d, tile, at(256), true);
      break;
    case Misuse::kOtherWidth:
      wgmma<64, float, bf16>(d, tile, tile, true);
      wgmma<32, float, bf16>(reinterpret_cast<float(&)[16]>(d), tile, tile, true);
      break;
    case Misuse::kOtherType:
      wgmma<64, std::int32_t, std::int8_t>(integers, tile, tile, true);
      wgmma<64, float, f8e4m3>(reinterpret_cast<float(&)[32]>(integers), tile, tile, true);
      break;
    case Misuse::kOtherShape:
    case Misuse::kOtherShapeAfterFence:
      wgmma<64, float, bf16>(d, tile, tile, true);
      if (kMisuse == Misuse::kOtherShapeAfterFence) wgmma_fence();
      wgmma<64, float, f8e4m3>(d, tile, tile, true);
      break;
    case Misuse::kOperandChanged:
      wgmma<64, float, bf16>(d, a, tile, true);
      wgmma_commit();
      a[t % 4] = 1;
      break;
    case Misuse::kOperandWithoutFence:
    case Misuse::kOperandReused:
      wgmma<64, float, bf16>(d, a, tile, true);
      if (kMisuse == Misuse::kOperandReused) finish();
      a[t % 4] = 1;
      if (kMisuse == Misuse::kOperandReused) wgmma_fence();
      wgmma<64, float, bf16>(d, a, tile, true);
      break;
    case Misuse::kTouchedAfterWait:
      wgmma<64, float, bf16>(d, tile, tile, true);
      finish();
      d[3] *= 2;
      wgmma<64, float, bf16>(d, tile, tile, true);
      break;
    case Misuse::kIntegersInFlight:
      wgmma<64, std::int32_t, std::int8_t>(integers, tile, tile, true);
      integers[5]++;
      break;
    case Misuse::kHalvesInFlight:
      wgmma<64, f16, f8e5m2>(halves, tile, tile, true);
      halves[15] = 0;
      break;
    case Misuse::kNoWait:
      wgmma<64, f16, f16>(halves, tile, tile, true);
      wgmma_commit();
      out[t] = halves[0];
      return;
    case Misuse::kNoCommit:
      wgmma<64, f16, f16>(halves, tile, tile, true);
      wgmma_wait<0>(halves);
      out[t] = halves[0];
      return;
    case Misuse::kDescriptorByWarp:
      wgmma<64, float, bf16>(d, at(t / 32 * 2048), tile, true);
      break;
    case Misuse::kAccumulateByThread:
      wgmma<64, float, bf16>(d, tile, tile, t != 77);
      break;
    case Misuse::kTypeByWarp:
      if (t / 32 == 2)
        wgmma<64, float, f16>(d, tile, tile, true);
      else
        wgmma<64, float, bf16>(d, tile, tile, true);
      break;
  }
  finish();
  out[t] = static_cast<std::uint32_t>(d[0]) + static_cast<std::uint32_t>(integers[0]) + halves[0];
}

template <Misuse kMisuse>
std::string report_of(std::vector<std::uint32_t>* out = nullptr) {
  Executor executor({4, 1});
  std::vector<std::uint32_t> result(128, ~0u);
  const gpu::LaunchConfig config{.grid = {1}, .block = {128}, .shared_bytes = sizeof(Tile)};
  std::string report = run(executor, config, misuse_wgmma<kMisuse>, result.data());
  if (out != nullptr) *out = result;
  return report;
}

template <Misuse kMisuse>
void expect_report(std::initializer_list<const char*> parts) {
  const std::string report = report_of<kMisuse>();
  for (const char* part : parts) EXPECT_NE(report.find(part), std::string::npos) << report;
  EXPECT_NE(report.find("wgmma"), std::string::npos) << report;
}

TEST(WgmmaMisuse, RightUsePasses) {
  std::vector<std::uint32_t> out;
  EXPECT_EQ(report_of<Misuse::kNone>(&out), "");
  EXPECT_EQ(out, std::vector<std::uint32_t>(128, 0));
  EXPECT_EQ(report_of<Misuse::kOtherShapeAfterFence>(), "");
  EXPECT_EQ(report_of<Misuse::kOperandReused>(), "");
}

TEST(WgmmaMisuse, Width) { expect_report<Misuse::kWidth>({"wgmma with N = 12"}); }

TEST(WgmmaMisuse, DescriptorThatLostBits) {
  expect_report<Misuse::kUnalignedAddress>(
      {"wgmma operand A: a descriptor with reserved bits", "multiples of 16"});
  expect_report<Misuse::kUnalignedStride>({"wgmma operand B: a descriptor with reserved bits"});
  expect_report<Misuse::kStrideTooLong>({"wgmma operand B: a descriptor with reserved bits"});
}

TEST(WgmmaMisuse, DescriptorThatIsNotModelled) {
  expect_report<Misuse::kBaseOffset>({"wgmma operand A", "base offset 3 is not modelled"});
  expect_report<Misuse::kOffPattern>(
      {"wgmma operand B", "256 bytes behind where the swizzle pattern repeats", "1024 bytes"});
}

TEST(WgmmaMisuse, MixedAccumulators) {
  expect_report<Misuse::kOtherWidth>(
      {"mix up accumulators: m64n32k16.f32.bf16.bf16 here, N = 64 is in flight"});
  expect_report<Misuse::kOtherType>({"mix up accumulators"});
}

TEST(WgmmaMisuse, OtherShapeWithoutFence) {
  expect_report<Misuse::kOtherShape>(
      {"wgmma #1 adds K = 32 to accumulators on which K = 16 is in flight"});
}

TEST(WgmmaMisuse, OperandRegistersChangedInFlight) {
  expect_report<Misuse::kOperandChanged>(
      {"registers of A were changed while multiplication #0 was in flight"});
}

TEST(WgmmaMisuse, OperandRegistersWrittenWithoutFence) {
  expect_report<Misuse::kOperandWithoutFence>(
      {"wgmma #1 reads registers of A that were written since the last wgmma.fence"});
}

TEST(WgmmaMisuse, AccumulatorsTouchedWithoutFence) {
  expect_report<Misuse::kTouchedAfterWait>({"touched since the last wgmma.fence"});
}

TEST(WgmmaMisuse, AccumulatorsWrittenInFlight) {
  expect_report<Misuse::kIntegersInFlight>(
      {"registers were written while a multiplication was in flight"});
  expect_report<Misuse::kHalvesInFlight>(
      {"registers were written while a multiplication was in flight"});
}

TEST(WgmmaMisuse, MissingWaitOrCommit) {
  std::vector<std::uint32_t> out;
  EXPECT_NE(report_of<Misuse::kNoWait>(&out).find("accumulators in flight: 128 threads"),
            std::string::npos);
  for (const std::uint32_t pair : out) {  // both f16 are NaN
    EXPECT_NE(to_float(f16{static_cast<std::uint16_t>(pair)}),
              to_float(f16{static_cast<std::uint16_t>(pair)}));
    EXPECT_NE(to_float(f16{static_cast<std::uint16_t>(pair >> 16)}),
              to_float(f16{static_cast<std::uint16_t>(pair >> 16)}));
  }
  expect_report<Misuse::kNoCommit>(
      {"accumulators in flight: 128 threads", "wgmma_commit()", "issued at wgmma_misuse_test.cpp"});
}

TEST(WgmmaMisuse, ThreadsThatDisagree) {
  expect_report<Misuse::kDescriptorByWarp>({"disagree on descriptors (A): 0x"});
  expect_report<Misuse::kTypeByWarp>({"disagree on the instruction: m64n64k16.f32."});
  expect_report<Misuse::kAccumulateByThread>({"disagree on accumulation: "});
}

}  // namespace
}  // namespace rungs::emulator::testing
