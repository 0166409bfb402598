/// Rung 0: one thread an element of C.
/// New: nothing; this is the product as its definition reads. Every later rung is compared with it.
/// Layout: any strides; a warp's 32 threads hold 32 neighbouring columns of one row of C, so they
///   share a row of A (one broadcast load) and read 32 rows of B at a distance of its pitch (32
///   sectors for 64 bytes of use).
/// Cost: 2·M·N·K FLOPs and 2·M·N·K element reads: each A element is fetched N times, each B element
///   M times; only caches stand between that and device memory.
/// Source: the definition.

#include <rungs/gpu/kernel.hpp>
#include <rungs/gpu/launch.hpp>

#include "../detail/bounds_device.hpp"
#include "../detail/problem.hpp"

#include <algorithm>
#include <cstdint>

namespace rungs::gemm::detail {
namespace {

constexpr int kThreads = 256;
constexpr int kBlocksPerSm = 8;  // 2048 threads: what a Hopper SM holds

RUNGS_KERNEL(kThreads) gemm_naive_kernel(const Problem problem) {
  const Bounds bounds = live_bounds(problem);
  // 1. Walk the elements of C with a stride of the whole grid: the grid fits the machine, not the
  // problem.
  const std::int64_t elements = static_cast<std::int64_t>(bounds.rows) * problem.n;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < elements; i += step) {
    const int row = static_cast<int>(i / problem.n);
    const int col = static_cast<int>(i % problem.n);
    const bf16* a = problem.a.data + row * problem.a.extent_stride;
    const bf16* b = problem.b.data + col * problem.b.extent_stride;
    // 2. One dot product, in fp32, in the order of k.
    float sum = 0.0f;
    for (int k = 0; k < bounds.depth; ++k) {
      sum += to_float(*a) * to_float(*b);
      a += problem.a.depth_stride;
      b += problem.b.depth_stride;
    }
    // 3. One store.
    store(problem.c, row, col, sum);
  }
}

class Naive final : public ladder::Prepared {
 public:
  Naive(const Problem& problem, unsigned blocks) : problem_(problem), blocks_(blocks) {}
  void operator()(gpu::StreamHandle stream) override {
    if (blocks_ == 0) return;
    gpu::launch("gemm_naive", {.grid = {blocks_}, .block = {kThreads}}, stream, &gemm_naive_kernel,
                problem_);
  }

 private:
  Problem problem_;
  unsigned blocks_;
};

}  // namespace

std::unique_ptr<ladder::Prepared> prepare_naive(const Args& args, const ladder::Machine& machine) {
  const Problem problem = checked(args);
  const std::int64_t blocks =
      (static_cast<std::int64_t>(problem.m) * problem.n + kThreads - 1) / kThreads;
  const std::int64_t most =
      static_cast<std::int64_t>(machine.device->info().sm_count) * kBlocksPerSm;
  return std::make_unique<Naive>(problem, static_cast<unsigned>(std::min(blocks, most)));
}

}  // namespace rungs::gemm::detail
