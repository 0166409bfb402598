/// Rung 2: tensor cores fed by the copy engine.
/// New: warps have roles. One thread of the producer warpgroup issues TMA copies into a ring of
///   four stages; the consumer warpgroups (64 rows of C each) run wgmma on what has landed,
///   straight from shared memory. Nobody copies through registers, nobody waits at a block-wide
///   barrier, and the grid is persistent: while consumers store a tile, the producer already fills
///   the ring for the next one.
/// Layout: operand_sm90_device.hpp. A and B K-major or MN-major each; 128-byte swizzle; edges read
/// as zeros.
/// Cost: 2·M·N·K FLOPs on the tensor cores; K·M·N·(1/Rows + 1/Cols) elements through L2, so the
/// tile's shape decides.
/// Source: PTX ISA, "cp.async.bulk.tensor", "mbarrier", "wgmma.mma_async"; the role split of
///   CUTLASS's sm90 warp-specialised kernels and of DeepGEMM.
///
/// Protocol, a stage s of the ring; use u (0, 1, 2, …) of it:
///   flag     | one phase takes            | written by              | waited for by  | parity
///   full[s]  | 1 arrival + the tile bytes | producer, TMA (bytes)   | every consumer | u & 1
///   empty[s] | 1 arrival a consumer warp  | lane 0 after its wgmmas | producer       | (u & 1) ^ 1
/// A fresh mbarrier is in phase 0: waiting for parity 1 passes at once, so the producer's first
/// round does not wait. Nobody resets a flag: a completed phase re-arms itself, and parities run on
/// across tiles.
///
/// Why no proxy fence between tiles: shared memory is written by TMA and read by wgmma only, both
/// in the async proxy; wgmma's reads are over before `empty` is arrived on (wait_group), TMA's
/// writes are visible when `full` completes. Why the producer may exit first: consumers wait for
/// every copy it issued, and the block's shared memory lives until its last thread exits.

#include <rungs/core/error.hpp>
#include <rungs/gpu/kernel.hpp>
#include <rungs/gpu/launch.hpp>
#include <rungs/gpu/tensor_map.hpp>
#include <rungs/ptx/fence.hpp>
#include <rungs/ptx/mbarrier.hpp>
#include <rungs/ptx/sync.hpp>
#include <rungs/ptx/tma.hpp>
#include <rungs/ptx/wgmma.hpp>

#include "../detail/bounds_device.hpp"
#include "../detail/epilogue_sm90_device.hpp"
#include "../detail/operand_sm90_device.hpp"
#include "../detail/problem.hpp"
#include "../detail/tile_choice.hpp"
#include "../detail/tile_walk_device.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

namespace rungs::gemm::detail {
namespace {

constexpr int kStages = 4;

/// The block's tile of C and the threads that go with it.
template <int Rows, int Cols>
struct Tile {
  static constexpr int kRows = Rows;
  static constexpr int kCols = Cols;
  static constexpr int kConsumers = Rows / kPanelRows;  // warpgroups
  static constexpr int kThreads = 128 * (1 + kConsumers);
  static constexpr std::uint32_t kStageBytes = (Rows + Cols) * kPanelDepth * 2;
};

/// Dynamic shared memory of a block.
template <class Tile>
struct alignas(kAtomBytes) Ring {
  bf16 a[kStages][Tile::kRows * kPanelDepth];
  bf16 b[kStages][Tile::kCols * kPanelDepth];
  std::uint64_t full[kStages];
  std::uint64_t empty[kStages];
};

/// Where a role stands in the ring. Producer and consumers advance alike: once for every 64 of K of
/// every tile.
struct RingPosition {
  int stage = 0;
  std::uint32_t parity = 0;  // of the current use of the stage
  RUNGS_DEVICE void advance() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

/// All threads of the grid. C = beta·C on [0, rows) × [0, cols): the product when nothing is
/// summed.
RUNGS_DEVICE void scale_only(const Output& c, int rows, int cols) {
  const std::int64_t elements = static_cast<std::int64_t>(rows) * cols;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < elements; i += step) {
    store(c, static_cast<int>(i / cols), static_cast<int>(i % cols), 0.0f);
  }
}

template <class Tile, bool TransA, bool TransB>
RUNGS_KERNEL(Tile::kThreads, 1)
gemm_tma_wgmma_kernel(RUNGS_GRID_CONSTANT const gpu::TensorMap map_a,
                      RUNGS_GRID_CONSTANT const gpu::TensorMap map_b, const Problem problem) {
  RUNGS_DYNAMIC_SHARED(Ring<Tile>, ring);
  const int thread = static_cast<int>(threadIdx.x);
  const int warpgroup = thread / 128;

  // 1. What there is to do: the same for every role, and known only now (live counts).
  const Bounds bounds = live_bounds(problem);
  const int tiles_rows = (bounds.rows + Tile::kRows - 1) / Tile::kRows;
  const int tiles_cols = (problem.n + Tile::kCols - 1) / Tile::kCols;
  const int tiles = tiles_rows * tiles_cols;
  const int depth_steps = (bounds.depth + kPanelDepth - 1) / kPanelDepth;
  const int first_tile = static_cast<int>(blockIdx.x);
  if (depth_steps == 0) {  // an empty sum needs no pipeline
    scale_only(problem.c, bounds.rows, problem.n);
    return;
  }
  if (first_tile >= tiles) return;  // the whole block: nobody has touched a barrier yet

  // 2. One thread makes the barriers; fences publish them to the other threads and to TMA.
  if (thread == 0) {
    for (int stage = 0; stage < kStages; ++stage) {
      ptx::mbarrier_init(&ring.full[stage], 1);
      ptx::mbarrier_init(&ring.empty[stage], 4 * Tile::kConsumers);
    }
    ptx::fence_mbarrier_init();
    ptx::fence_proxy_async();
  }
  ptx::syncthreads();

  if (warpgroup == 0) {
    // 3. Producer. It needs few registers: with two consumers the block hands the rest to them.
    if constexpr (Tile::kConsumers > 1) ptx::setmaxnreg_dec<40>();
    if (thread < 32 && ptx::elect_one()) {
      ptx::tma_prefetch_descriptor(&map_a);
      ptx::tma_prefetch_descriptor(&map_b);
      RingPosition at;
      for (int tile = first_tile; tile < tiles; tile += static_cast<int>(gridDim.x)) {
        const TilePosition position = tile_at(tile, tiles_rows, tiles_cols);
        for (int step = 0; step < depth_steps; ++step, at.advance()) {
          ptx::mbarrier_wait(&ring.empty[at.stage], at.parity ^ 1);
          std::uint64_t* const full = &ring.full[at.stage];
          // The bytes are announced before they can arrive; zero-filled ones count too.
          ptx::mbarrier_arrive_expect_tx(full, Tile::kStageBytes);
          const int depth = step * kPanelDepth;
          load_panels<Tile::kRows, TransA>(ring.a[at.stage], &map_a, full,
                                           position.row * Tile::kRows, depth);
          load_panels<Tile::kCols, TransB>(ring.b[at.stage], &map_b, full,
                                           position.col * Tile::kCols, depth);
        }
      }
    }
    ptx::syncwarp();
  } else {
    // 4. Consumers: each warpgroup owns 64 rows of the tile, a panel of A.
    if constexpr (Tile::kConsumers > 1) ptx::setmaxnreg_inc<232>();
    const int panel = warpgroup - 1;
    const bool speaks_for_warp = thread % 32 == 0;
    constexpr std::uint64_t kStepA = descriptor_step(TransA);
    constexpr std::uint64_t kStepB = descriptor_step(TransB);
    float d[Tile::kCols / 2];
    // 5. What one stage holds: four instructions of 16 of K, a group of their own.
    const auto multiply_stage = [&](int stage, bool accumulate) {
      const std::uint64_t a = panel_descriptor<TransA>(ring.a[stage] + panel * (kPanelBytes / 2));
      const std::uint64_t b = panel_descriptor<TransB>(ring.b[stage]);
      ptx::wgmma_fence();
#pragma unroll
      for (int i = 0; i < kInstructionsPerPanel; ++i) {
        ptx::wgmma_bf16<Tile::kCols, TransA, TransB>(d, a + i * kStepA, b + i * kStepB,
                                                     accumulate || i > 0);
      }
      ptx::wgmma_commit();
    };
    RingPosition at;
    for (int tile = first_tile; tile < tiles; tile += static_cast<int>(gridDim.x)) {
      // 6. The tile's first instruction overwrites the accumulators. From then on one group stays
      //    in flight: when the next one is on its way, the one before is waited for and its stage
      //    given back.
      ptx::mbarrier_wait(&ring.full[at.stage], at.parity);
      multiply_stage(at.stage, false);
      int previous_stage = at.stage;
      at.advance();
      for (int step = 1; step < depth_steps; ++step, at.advance()) {
        ptx::mbarrier_wait(&ring.full[at.stage], at.parity);
        multiply_stage(at.stage, true);
        ptx::wgmma_wait<1>(d);
        if (speaks_for_warp) ptx::mbarrier_arrive(&ring.empty[previous_stage]);
        previous_stage = at.stage;
      }
      // 7. Drain, give the last stage back before the slow part, and store.
      ptx::wgmma_wait<0>(d);
      if (speaks_for_warp) ptx::mbarrier_arrive(&ring.empty[previous_stage]);
      const TilePosition position = tile_at(tile, tiles_rows, tiles_cols);
      const int row = position.row * Tile::kRows + panel * kPanelRows;
      const int col = position.col * Tile::kCols;
      if (problem.c.is_bf16) {
        store_accumulators<bf16, Tile::kCols>(problem.c, d, row, col, bounds.rows, problem.n);
      } else {
        store_accumulators<float, Tile::kCols>(problem.c, d, row, col, bounds.rows, problem.n);
      }
    }
  }
}

using Kernel = void (*)(gpu::TensorMap, gpu::TensorMap, Problem);

/// A tile shape's four kernels, by the operands' majors, and their launch numbers.
struct Variant {
  Kernel kernel[2][2];  // [A is M-major][B is N-major]
  unsigned threads;
  unsigned shared_bytes;
};

template <class Tile>
constexpr Variant variant() {
  return {{{&gemm_tma_wgmma_kernel<Tile, false, false>, &gemm_tma_wgmma_kernel<Tile, false, true>},
           {&gemm_tma_wgmma_kernel<Tile, true, false>, &gemm_tma_wgmma_kernel<Tile, true, true>}},
          Tile::kThreads,
          sizeof(Ring<Tile>)};
}

const Variant& variant_of(TileShape shape) {
  static const std::array<Variant, kTileShapes.size()> variants{
      variant<Tile<128, 256>>(), variant<Tile<128, 128>>(), variant<Tile<64, 128>>(),
      variant<Tile<64, 64>>()};
  for (std::size_t i = 0; i < kTileShapes.size(); ++i) {
    if (kTileShapes[i] == shape) return variants[i];
  }
  RUNGS_THROW(kInternal, "bug: no kernel for a tile of ", shape.rows, "x", shape.cols);
}

/// The tensor map of an operand whose tile has `tile_rows` rows.
gpu::TensorMap map_of(const Operand& operand, int extent, int depth, int tile_rows) {
  const bool mn_major = operand.major == Major::kExtent;
  const int lines = mn_major ? depth : extent;
  const int line = mn_major ? extent : depth;
  // A single line has no pitch; TMA still wants a multiple of 16 bytes.
  const std::int64_t pitch = lines > 1 ? operand.pitch() : (line + std::int64_t{7}) / 8 * 8;
  return gpu::make_tensor_map_2d(
      operand.data, DType::kBf16, static_cast<std::uint64_t>(lines),
      static_cast<std::uint64_t>(line), static_cast<std::uint64_t>(pitch) * sizeof(bf16),
      static_cast<std::uint32_t>(mn_major ? kPanelDepth : tile_rows), 64, gpu::Swizzle::k128B);
}

class TmaWgmma final : public ladder::Prepared {
 public:
  TmaWgmma(const Problem& problem, int sm_count) : problem_(problem) {
    if (problem.m == 0 || problem.n == 0) return;  // no element of C: nothing to launch
    const TileShape shape = choose_tile(problem.m, problem.n, sm_count);
    variant_ = &variant_of(shape);
    blocks_ = static_cast<unsigned>(
        std::min<std::int64_t>(tile_count(shape, problem.m, problem.n), sm_count));
    if (problem.k == 0) return;  // the maps stay empty: no step reads through them
    map_a_ = map_of(problem.a, problem.m, problem.k, shape.rows);
    map_b_ = map_of(problem.b, problem.n, problem.k, shape.cols);
  }
  void operator()(gpu::StreamHandle stream) override {
    if (blocks_ == 0) return;
    const bool trans_a = problem_.a.major == Major::kExtent;
    const bool trans_b = problem_.b.major == Major::kExtent;
    gpu::launch(
        "gemm_tma_wgmma",
        {.grid = {blocks_}, .block = {variant_->threads}, .shared_bytes = variant_->shared_bytes},
        stream, variant_->kernel[trans_a ? 1 : 0][trans_b ? 1 : 0], map_a_, map_b_, problem_);
  }

 private:
  Problem problem_;
  const Variant* variant_ = nullptr;
  unsigned blocks_ = 0;
  gpu::TensorMap map_a_{};
  gpu::TensorMap map_b_{};
};

}  // namespace

std::unique_ptr<ladder::Prepared> prepare_tma_wgmma(const Args& args,
                                                    const ladder::Machine& machine) {
  const ladder::Support support = supports_sm90_tma(args, machine);
  if (!support.ok)
    RUNGS_THROW(kUnsupported, "gemm: the rung tma_wgmma cannot serve this call: ", support.reason);
  return std::make_unique<TmaWgmma>(checked(args), machine.device->info().sm_count);
}

}  // namespace rungs::gemm::detail
