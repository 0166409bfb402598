// Kernels of the conformance suite: programmatic dependent launch.

#include "memory_conformance.hpp"

#include <rungs/gpu/kernel.hpp>
#include <rungs/ptx/dependent.hpp>
#include <rungs/ptx/memory.hpp>
#include <rungs/ptx/sync.hpp>

namespace rungs::ptx::test {
namespace {

RUNGS_KERNEL(64) chain_kernel(std::uint32_t* data, unsigned words, std::uint32_t summand) {
  launch_dependents();
  wait_for_prerequisites();
  for (unsigned i = blockIdx.x * 64 + threadIdx.x; i < words; i += gridDim.x * 64)
    data[i] = (data[i] + summand) * 3;
}

RUNGS_KERNEL(64)
late_writer_kernel(const std::uint32_t* gate, std::uint32_t* data, unsigned words) {
  if (threadIdx.x == 0) {
    while (ld_relaxed_sys(gate) == 0) {
    }
    launch_dependents();
  }
  syncthreads();
  for (unsigned i = blockIdx.x * 64 + threadIdx.x; i < words; i += gridDim.x * 64)
    data[i] = i * 7 + 1;
}

RUNGS_KERNEL(64)
copy_kernel(const std::uint32_t* data, std::uint32_t* out, unsigned words, bool waits) {
  if (waits) wait_for_prerequisites();
  for (unsigned i = blockIdx.x * 64 + threadIdx.x; i < words; i += gridDim.x * 64) out[i] = data[i];
}

}  // namespace

void launch_dependent_chain(StreamHandle stream, std::uint32_t* data, unsigned words,
                            unsigned count) {
  for (unsigned i = 0; i < count; i++) {
    gpu::LaunchConfig config{.grid = {4}, .block = {64}};
    config.programmatic = true;
    gpu::launch("chain", config, stream, chain_kernel, data, words, i);
  }
}
void launch_dependent_copy(StreamHandle stream, const std::uint32_t* gate, std::uint32_t* data,
                           std::uint32_t* out, unsigned words, bool waits) {
  gpu::LaunchConfig config{.grid = {2}, .block = {64}};
  gpu::launch("late_writer", config, stream, late_writer_kernel, gate, data, words);
  config.programmatic = true;
  gpu::launch("copy", config, stream, copy_kernel, data, out, words, waits);
}

}  // namespace rungs::ptx::test
