// Kernels of the gpu tests: small ones that show order, concurrency and parameters.

#include "kernels.hpp"

#include <rungs/gpu/kernel.hpp>
#include <rungs/ptx/atomic.hpp>
#include <rungs/ptx/mbarrier.hpp>
#include <rungs/ptx/memory.hpp>
#include <rungs/ptx/sync.hpp>

namespace rungs::gpu::test {
namespace {

constexpr std::uint64_t kPatienceNs = 20'000'000'000;

RUNGS_KERNEL(32) empty_kernel() {}

RUNGS_KERNEL(128) affine_kernel(std::uint32_t* data, std::size_t count, const Affine affine) {
  for (std::size_t i = threadIdx.x; i < count; i += blockDim.x) {
    data[i] = data[i] * affine.factor + affine.summand;
  }
}

RUNGS_KERNEL(128)
add_kernel(std::uint32_t* to, const std::uint32_t* from, std::size_t count, std::uint32_t summand) {
  for (std::size_t i = threadIdx.x; i < count; i += blockDim.x) to[i] = from[i] + summand;
}

// Whether *flag became `value` in time.
RUNGS_DEVICE bool wait_until(const std::uint32_t* flag, std::uint32_t value) {
  const std::uint64_t start = ptx::globaltimer_ns();
  while (ptx::ld_acquire_sys(flag) != value) {
    if (ptx::globaltimer_ns() - start > kPatienceNs) return false;
  }
  return true;
}

RUNGS_KERNEL(32) wait_kernel(const std::uint32_t* flag, std::uint32_t value, std::uint32_t* seen) {
  *seen = wait_until(flag, value) ? 1u : 0u;
}

// Flag `mine`: written by the other kernel, read by this one, never reset (it counts rounds).
RUNGS_KERNEL(32)
ping_pong_kernel(std::uint32_t* mine, std::uint32_t* theirs, std::uint32_t rounds, bool first,
                 std::uint32_t* reached) {
  for (std::uint32_t round = 0; round < rounds; ++round) {
    if (!(first && round == 0) && !wait_until(mine, first ? round : round + 1)) {
      *reached = round;
      return;
    }
    ptx::st_release_sys(theirs, round + 1);
  }
  *reached = rounds;
}

RUNGS_KERNEL(1024) count_kernel(std::uint32_t* counter) { ptx::red_add_gpu(counter, 1u); }

RUNGS_KERNEL(1024) reverse_kernel(std::uint32_t* data, unsigned count) {
  RUNGS_DYNAMIC_SHARED(std::uint32_t, shared);
  std::uint32_t* values = &shared;
  if (threadIdx.x < count) values[threadIdx.x] = data[threadIdx.x];
  ptx::syncthreads();
  if (threadIdx.x < count) data[threadIdx.x] = values[count - 1 - threadIdx.x];
}

RUNGS_KERNEL(32) deadlock_kernel() {
  RUNGS_SHARED(std::uint64_t, barrier);
  ptx::mbarrier_init(&barrier, 1);
  ptx::mbarrier_wait(&barrier, 0);
}

RUNGS_KERNEL(1024) shape_kernel() {}

}  // namespace

void launch_empty(StreamHandle stream) {
  launch("empty", {.grid = {1}, .block = {32}}, stream, empty_kernel);
}

void launch_affine(StreamHandle stream, std::uint32_t* data, std::size_t count, Affine affine) {
  launch("affine", {.grid = {1}, .block = {32}}, stream, affine_kernel, data, count, affine);
}

void launch_add(StreamHandle stream, std::uint32_t* to, const std::uint32_t* from,
                std::size_t count, std::uint32_t summand) {
  launch("add", {.grid = {1}, .block = {32}}, stream, add_kernel, to, from, count, summand);
}

void launch_wait(StreamHandle stream, const std::uint32_t* flag, std::uint32_t value,
                 std::uint32_t* seen) {
  launch("wait", {.grid = {1}, .block = {1}, .cooperative = true}, stream, wait_kernel, flag, value,
         seen);
}

void launch_ping_pong(StreamHandle stream, std::uint32_t* mine, std::uint32_t* theirs,
                      std::uint32_t rounds, bool first, std::uint32_t* reached) {
  launch("ping_pong", {.grid = {1}, .block = {1}, .cooperative = true}, stream, ping_pong_kernel,
         mine, theirs, rounds, first, reached);
}

void launch_count(StreamHandle stream, std::uint32_t* counter, unsigned threads) {
  launch("count", {.grid = {1}, .block = {threads}}, stream, count_kernel, counter);
}

void launch_reverse(StreamHandle stream, std::uint32_t* data, unsigned count,
                    unsigned shared_bytes) {
  launch("reverse", {.grid = {1}, .block = {count}, .shared_bytes = shared_bytes}, stream,
         reverse_kernel, data, count);
}

void launch_deadlock(StreamHandle stream) {
  launch("deadlock", {.grid = {1}, .block = {1}}, stream, deadlock_kernel);
}

void launch_shape(StreamHandle stream, const LaunchConfig& config) {
  launch("shape", config, stream, shape_kernel);
}

}  // namespace rungs::gpu::test
