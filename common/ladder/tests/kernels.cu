// A kernel that waits for ever, to see that a failing rung leaves the rungs after it alone.

#include "kernels.hpp"

#include <rungs/gpu/kernel.hpp>
#include <rungs/gpu/launch.hpp>
#include <rungs/ptx/mbarrier.hpp>

namespace rungs::ladder::test {
namespace {

RUNGS_KERNEL(32) hang_kernel() {
  RUNGS_SHARED(std::uint64_t, barrier);
  if (threadIdx.x != 0) return;
  ptx::mbarrier_init(&barrier, 1);
  ptx::mbarrier_wait(&barrier, 0);
}

}  // namespace

void launch_hang(gpu::StreamHandle stream) {
  gpu::launch("hang_kernel", {.grid = {1}, .block = {32}}, stream, &hang_kernel);
}

}  // namespace rungs::ladder::test
