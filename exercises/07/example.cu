/// A first rung of your own: one thread computes four neighbouring elements of a row of C.
/// New against `naive`: an element of A is fetched once for four products instead of once for each.
///   What did not change: B, of which every element is still fetched M times.
/// Layout: any strides. C is cut into quads of a row; the last quad of a row may be narrower.
/// Cost: 2·M·N·K FLOPs; M·N·K/4 elements of A and M·N·K of B fetched.
/// Source: the definition; exercises/README.md says how to make it yours and where to go from here.
///
/// Copied to exercises/07/mine.cu, this file is compiled as if it lay in
/// 07_gemm_hopper_blackwell/src: it may use that folder's headers.

#include <rungs/gpu/kernel.hpp>
#include <rungs/gpu/launch.hpp>

#include "catalog/my_rungs.hpp"
#include "detail/bounds_device.hpp"
#include "detail/problem.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

namespace rungs::gemm {
namespace {

using detail::Bounds;
using detail::Problem;

constexpr int kThreads = 256;
constexpr int kWidth = 4;  // elements of C a thread
constexpr int kBlocksPerSm = 8;

RUNGS_KERNEL(kThreads) mine_kernel(const Problem problem) {
  const Bounds bounds = detail::live_bounds(problem);
  const int quads = (problem.n + kWidth - 1) / kWidth;
  const std::int64_t items = static_cast<std::int64_t>(bounds.rows) * quads;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  // 1. Walk the quads of C with a stride of the whole grid: the grid fits the machine.
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < items;
       i += step) {
    const int row = static_cast<int>(i / quads);
    const int first = static_cast<int>(i % quads) * kWidth;
    const int width = problem.n - first < kWidth ? problem.n - first : kWidth;
    const bf16* a = problem.a.data + row * problem.a.extent_stride;
    const bf16* b = problem.b.data + first * problem.b.extent_stride;
    // 2. Four dot products at once, each in fp32 and in the order of k.
    float sum[kWidth] = {};
    for (int k = 0; k < bounds.depth; ++k) {
      const float value = to_float(*a);
      for (int j = 0; j < width; ++j) sum[j] += value * to_float(b[j * problem.b.extent_stride]);
      a += problem.a.depth_stride;
      b += problem.b.depth_stride;
    }
    // 3. Store what lies inside C.
    for (int j = 0; j < width; ++j) detail::store(problem.c, row, first + j, sum[j]);
  }
}

/// What is decided once, before any run: here only the size of the grid.
class Mine final : public ladder::Prepared {
 public:
  Mine(const Problem& problem, unsigned blocks) : problem_(problem), blocks_(blocks) {}
  void operator()(gpu::StreamHandle stream) override {
    if (blocks_ == 0) return;
    gpu::launch("mine", {.grid = {blocks_}, .block = {kThreads}}, stream, &mine_kernel, problem_);
  }

 private:
  Problem problem_;
  unsigned blocks_;
};

/// A call that this rung cannot serve is told so here, with the reason.
ladder::Support supports_mine(const Args&, const ladder::Machine&) { return {}; }

std::unique_ptr<ladder::Prepared> prepare_mine(const Args& args, const ladder::Machine& machine) {
  const Problem problem = detail::checked(args);  // every rung refuses a wrong call the same way
  const std::int64_t quads = (problem.n + kWidth - 1) / kWidth;
  const std::int64_t blocks = (problem.m * quads + kThreads - 1) / kThreads;
  const std::int64_t most =
      static_cast<std::int64_t>(machine.device->info().sm_count) * kBlocksPerSm;
  return std::make_unique<Mine>(problem, static_cast<unsigned>(std::min(blocks, most)));
}

}  // namespace

/// The rows: name, the one idea, and the two functions. Add as many as you like.
std::vector<ladder::Rung<Args>> my_rungs() {
  return {{"mine", "four neighbours of a row a thread", &supports_mine, &prepare_mine}};
}

}  // namespace rungs::gemm
