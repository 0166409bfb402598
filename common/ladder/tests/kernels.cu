// A kernel that waits for ever, to see that a failing rung leaves the rungs after it alone; and one
// to be counted.

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

RUNGS_KERNEL(1) set_kernel(int* word, int value) { *word = value; }

}  // namespace

void launch_hang(gpu::StreamHandle stream) {
  gpu::launch("hang_kernel", {.grid = {1}, .block = {32}}, stream, &hang_kernel);
}

void launch_set(gpu::StreamHandle stream, int* word, int value) {
  gpu::launch("set_kernel", {.grid = {1}, .block = {1}}, stream, &set_kernel, word, value);
}

}  // namespace rungs::ladder::test
