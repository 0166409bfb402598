// A ring of tiles: TMA loads them, two warps change them in place, TMA stores them from there.
//
//     barrier     count  who arrives                              ends when
//     full[s]     1      the loading thread, with the tile's bytes  the tile has landed
//     empty[s]    1      the storing thread                       the store has read the tile

#include "bulk_conformance.hpp"

#include <rungs/gpu/kernel.hpp>
#include <rungs/ptx/fence.hpp>
#include <rungs/ptx/mbarrier.hpp>
#include <rungs/ptx/sync.hpp>
#include <rungs/ptx/tma.hpp>

namespace rungs::ptx::test {
namespace {

constexpr int kStages = 3;
constexpr unsigned kElements = kRingTileBytes / 4;
constexpr unsigned kConsumers = 64;

struct alignas(1024) Ring {
  std::uint32_t tiles[kStages][kElements];
  std::uint64_t full[kStages];
  std::uint64_t empty[kStages];
};

RUNGS_KERNEL(96)
ring_kernel(RUNGS_GRID_CONSTANT const gpu::TensorMap in,
            RUNGS_GRID_CONSTANT const gpu::TensorMap out, int tiles) {
  RUNGS_DYNAMIC_SHARED(Ring, s);
  const unsigned t = threadIdx.x;
  if (t == 0) {
    for (int i = 0; i < kStages; i++) {
      mbarrier_init(&s.full[i], 1);
      mbarrier_init(&s.empty[i], 1);
    }
    fence_mbarrier_init();
  }
  syncthreads();
  const auto first = static_cast<int>(blockIdx.x);
  const auto step = static_cast<int>(gridDim.x);
  if (t < 32) {
    if (t != 0) return;
    for (int i = 0, tile = first; tile < tiles; i++, tile += step) {
      const int stage = i % kStages;
      const auto parity = static_cast<std::uint32_t>(i / kStages & 1);
      // 1. The store that used the stage has read it.
      mbarrier_wait(&s.empty[stage], parity ^ 1);
      mbarrier_arrive_expect_tx(&s.full[stage], kRingTileBytes);
      tma_load(s.tiles[stage], &in, &s.full[stage], {0, 0, tile});
    }
    return;
  }
  for (int i = 0, tile = first; tile < tiles; i++, tile += step) {
    const int stage = i % kStages;
    // 2. Change the tile in place, for the asynchronous proxy to see.
    mbarrier_wait(&s.full[stage], static_cast<std::uint32_t>(i / kStages & 1));
    for (unsigned e = t - 32; e < kElements; e += kConsumers)
      s.tiles[stage][e] = s.tiles[stage][e] * 2 + 1;
    fence_proxy_async();
    bar_sync(1, kConsumers);
    // 3. Store it; hand back the stage of the store before.
    if (t == 32) {
      tma_store(&out, {0, 0, tile}, s.tiles[stage]);
      bulk_commit();
      bulk_wait_read<1>();
      if (i > 0) mbarrier_arrive(&s.empty[(i - 1) % kStages]);
    }
  }
  if (t == 32) bulk_wait<0>();
}

}  // namespace

void launch_ring(StreamHandle stream, const gpu::TensorMap& in, const gpu::TensorMap& out,
                 int tiles, unsigned blocks) {
  gpu::launch("ring", {.grid = {blocks}, .block = {96}, .shared_bytes = sizeof(Ring)}, stream,
              ring_kernel, in, out, tiles);
}

}  // namespace rungs::ptx::test
