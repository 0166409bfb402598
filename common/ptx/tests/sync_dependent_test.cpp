#include "fixture.hpp"
#include "memory_conformance.hpp"

#include <rungs/testing/conforms.hpp>
#if !RUNGS_GPU_CUDA
#include <rungs/emulator/options.hpp>
#endif

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

namespace rungs::ptx::test {
namespace {

// Copies what a kernel writes after it has released its dependents; the stream holds both launches
// before the first goes on.
std::vector<std::uint32_t> copy_late_writes(const gpu::Device& device, gpu::StreamHandle stream,
                                            std::uint32_t* data, unsigned words, bool waits) {
  const gpu::Buffer<std::uint32_t> gate(device, 1, gpu::Space::kHostMapped);
  const gpu::Buffer<std::uint32_t> out(device, words), scratch(device, words);
  // Both kernels are loaded before one of them waits for the host: loading may wait for the device.
  std::atomic_ref<std::uint32_t>(*gate.data()).store(1);
  launch_dependent_copy(stream, gate.data(), scratch.data(), out.data(), words, waits);
  gpu::fill_async(out.data(), 0xee, out.size_bytes(), stream);
  gpu::synchronize(stream);
  std::atomic_ref<std::uint32_t>(*gate.data()).store(0);
  launch_dependent_copy(stream, gate.data(), data, out.data(), words, waits);
  std::atomic_ref<std::uint32_t>(*gate.data()).store(1);
  return out.download(stream);
}

TEST_F(Conformance, DependentLaunches) {
  testing::conforms("launch_dependents wait_for_prerequisites");
  constexpr unsigned kWords = 3000;
  const gpu::Stream stream(device());
  for (int round = 0; round < 5; round++) {
    std::vector<std::uint32_t> expected(kWords);
    for (unsigned i = 0; i < kWords; i++) expected[i] = i;
    const auto data = upload(expected);
    launch_dependent_chain(stream, data.data(), kWords, 12);
    for (std::uint32_t& word : expected) {
      for (std::uint32_t k = 0; k < 12; k++) word = (word + k) * 3;
    }
    EXPECT_EQ(data.download(stream), expected);

    for (std::uint32_t i = 0; i < kWords; i++) expected[i] = i * 7 + 1;
    EXPECT_EQ(copy_late_writes(device(), stream, data.data(), kWords, true), expected);
  }
}

#if !RUNGS_GPU_CUDA
// A GPU may or may not show it.
TEST_F(Conformance, DependentLaunchWithoutItsWaitShows) {
#if defined(RUNGS_SANITIZE_THREAD)
  return rungs::testing::skip(rungs::testing::Lack::kPlainBuild,
                              "ThreadSanitizer itself reports the planted race");
#endif
  const emulator::Options before = emulator::options();
  emulator::Options late = before;
  late.async = emulator::Async::kLate;
  emulator::set_options(late);
  constexpr unsigned kWords = 300;
  const auto data = filled<std::uint32_t>(kWords, 0xdead);
  const std::vector<std::uint32_t> copied =
      copy_late_writes(device(), nullptr, data.data(), kWords, false);
  emulator::set_options(before);
  EXPECT_TRUE(
      std::any_of(copied.begin(), copied.end(), [](std::uint32_t word) { return word == 0xdead; }));
}
#endif

}  // namespace
}  // namespace rungs::ptx::test
