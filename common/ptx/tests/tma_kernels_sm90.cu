// Kernels of the conformance suite: TMA loads, stores and reductions of tiles of any rank.

#include "bulk_conformance.hpp"
#include "wait_in_time.hpp"

#include <rungs/core/error.hpp>
#include <rungs/gpu/kernel.hpp>
#include <rungs/ptx/fence.hpp>
#include <rungs/ptx/mbarrier.hpp>
#include <rungs/ptx/sync.hpp>
#include <rungs/ptx/tma.hpp>

namespace rungs::ptx::test {
namespace {

constexpr unsigned kThreads = 64;

struct alignas(1024) BoxBuffer {
  std::uint8_t bytes[kMaxBoxBytes];
  std::uint64_t landed;
};

template <int Rank>
struct At {
  int at[Rank];
};
template <int Rank>
RUNGS_DEVICE At<Rank> first_of(const Coordinates& all) {
  At<Rank> result;
#pragma unroll
  for (int d = 0; d < Rank; d++) result.at[d] = all.at[d];
  return result;
}

template <int Rank, Hint H>
RUNGS_KERNEL(kThreads)
load_tile_kernel(RUNGS_GRID_CONSTANT const gpu::TensorMap map, Coordinates coordinates,
                 std::uint32_t tile_bytes, std::uint32_t shift, std::uint8_t* out) {
  RUNGS_DYNAMIC_SHARED(BoxBuffer, s);
  if (threadIdx.x == 0) {
    mbarrier_init(&s.landed, 1);
    fence_mbarrier_init();
  }
  syncthreads();
  if (threadIdx.x == 0) {
    const At<Rank> c = first_of<Rank>(coordinates);
    mbarrier_arrive_expect_tx(&s.landed, tile_bytes);
    if constexpr (H == Hint::kNone) {
      tma_prefetch(&map, c.at);
      tma_load(s.bytes + shift, &map, &s.landed, c.at);
    } else {
      const std::uint64_t policy = createpolicy_fractional<L2Priority::kEvictFirst>();
      tma_prefetch_hint(&map, c.at, policy);
      tma_load_hint(s.bytes + shift, &map, &s.landed, c.at, policy);
    }
  }
  const bool landed = wait_in_time(&s.landed, 0);
  for (std::uint32_t i = threadIdx.x; landed && i < tile_bytes; i += kThreads)
    out[i] = s.bytes[shift + i];
}

struct alignas(1024) TwoBoxes {
  std::uint8_t bytes[2][kMaxBoxBytes];
  std::uint64_t landed;
};

template <int Rank>
RUNGS_KERNEL(kThreads)
multicast_tiles_kernel(RUNGS_GRID_CONSTANT const gpu::TensorMap map, Coordinates first,
                       Coordinates second, std::uint32_t tile_bytes, std::uint8_t* out) {
  RUNGS_DYNAMIC_SHARED(TwoBoxes, s);
  if (threadIdx.x == 0) {
    mbarrier_init(&s.landed, 1);
    fence_mbarrier_init();
  }
  cluster_arrive();
  cluster_wait();
  const std::uint32_t rank = cluster_rank();
  if (threadIdx.x == 0) {
    mbarrier_arrive_expect_tx(&s.landed, 2 * tile_bytes);
    if (rank == 0) {
      const At<Rank> c = first_of<Rank>(first);
      tma_load_multicast(s.bytes[0], &map, &s.landed, c.at, 3);
    } else {
      const At<Rank> c = first_of<Rank>(second);
      tma_load_multicast_hint(
          s.bytes[1], &map, &s.landed, c.at, 3,
          createpolicy_fractional<L2Priority::kEvictLast, L2Priority::kEvictFirst>(0.5f));
    }
  }
  const bool landed = wait_in_time(&s.landed, 0);
  for (unsigned half = 0; landed && half < 2; half++) {
    for (std::uint32_t i = threadIdx.x; i < tile_bytes; i += kThreads)
      out[(rank * 2 + half) * tile_bytes + i] = s.bytes[half][i];
  }
  syncwarp();
  cluster_arrive();
  cluster_wait();
}

RUNGS_KERNEL(kThreads)
cross_load_tile_kernel(RUNGS_GRID_CONSTANT const gpu::TensorMap map, Coordinates coordinates,
                       std::uint32_t tile_bytes, std::uint8_t* out) {
  RUNGS_DYNAMIC_SHARED(BoxBuffer, s);
  const std::uint32_t rank = cluster_rank();
  if (threadIdx.x == 0) {
    mbarrier_init(&s.landed, 1);
    fence_mbarrier_init();
  }
  cluster_arrive();
  cluster_wait();
  if (rank == 1 && threadIdx.x == 0) {
    const At<3> c = first_of<3>(coordinates);
    tma_load_cluster(map_shared(shared_u32(s.bytes), 0), &map, map_shared(shared_u32(&s.landed), 0),
                     c.at);
  }
  if (rank == 0) {
    if (threadIdx.x == 0) mbarrier_arrive_expect_tx(&s.landed, tile_bytes);
    const bool landed = wait_in_time(&s.landed, 0);
    for (std::uint32_t i = threadIdx.x; landed && i < tile_bytes; i += kThreads)
      out[i] = s.bytes[i];
  }
  syncwarp();
  cluster_arrive();
  cluster_wait();
}

RUNGS_DEVICE void fill_box(BoxBuffer& s, const std::uint8_t* image, std::uint32_t tile_bytes,
                           std::uint32_t shift) {
  for (std::uint32_t i = threadIdx.x; i < tile_bytes; i += kThreads) s.bytes[shift + i] = image[i];
  fence_proxy_async();
  syncthreads();
}

template <int Rank, Hint H>
RUNGS_KERNEL(kThreads)
store_tile_kernel(RUNGS_GRID_CONSTANT const gpu::TensorMap map, Coordinates coordinates,
                  std::uint32_t tile_bytes, std::uint32_t shift, const std::uint8_t* image) {
  RUNGS_DYNAMIC_SHARED(BoxBuffer, s);
  fill_box(s, image, tile_bytes, shift);
  if (threadIdx.x != 0) return;
  const At<Rank> c = first_of<Rank>(coordinates);
  if constexpr (H == Hint::kNone) {
    tma_store(&map, c.at, s.bytes + shift);
  } else {
    tma_store_hint(&map, c.at, s.bytes + shift,
                   createpolicy_fractional<L2Priority::kEvictNormal>());
  }
  bulk_commit();
  bulk_wait_read<0>();
}

template <BulkReduction Reduction, int Rank>
RUNGS_KERNEL(kThreads)
reduce_tile_kernel(RUNGS_GRID_CONSTANT const gpu::TensorMap map, Coordinates coordinates,
                   std::uint32_t tile_bytes, const std::uint8_t* image) {
  RUNGS_DYNAMIC_SHARED(BoxBuffer, s);
  fill_box(s, image, tile_bytes, 0);
  if (threadIdx.x != 0) return;
  const At<Rank> c = first_of<Rank>(coordinates);
  tma_reduce<Reduction>(&map, c.at, s.bytes);
  bulk_commit();
  bulk_wait<0>();
}

RUNGS_KERNEL(kThreads)
add_tile_kernel(RUNGS_GRID_CONSTANT const gpu::TensorMap map, Coordinates coordinates,
                std::uint32_t tile_bytes, const std::uint8_t* image) {
  RUNGS_DYNAMIC_SHARED(BoxBuffer, s);
  fill_box(s, image, tile_bytes, 0);
  if (threadIdx.x != 0) return;
  const At<3> c = first_of<3>(coordinates);
  tma_reduce_hint<BulkReduction::kAdd>(&map, c.at, s.bytes,
                                       createpolicy_fractional<L2Priority::kEvictLast>());
  bulk_commit();
  bulk_wait<0>();
}

template <int Rank>
void launch_load(StreamHandle stream, Hint hint, const gpu::TensorMap& map, const Coordinates& at,
                 std::uint32_t tile_bytes, std::uint32_t shift, std::uint8_t* out) {
  gpu::launch("load_tile", {.grid = {1}, .block = {kThreads}, .shared_bytes = sizeof(BoxBuffer)},
              stream,
              hint == Hint::kNone ? load_tile_kernel<Rank, Hint::kNone>
                                  : load_tile_kernel<Rank, Hint::kPolicy>,
              map, at, tile_bytes, shift, out);
}

template <int Rank>
void launch_store(StreamHandle stream, Hint hint, const gpu::TensorMap& map, const Coordinates& at,
                  std::uint32_t tile_bytes, std::uint32_t shift, const std::uint8_t* image) {
  gpu::launch("store_tile", {.grid = {1}, .block = {kThreads}, .shared_bytes = sizeof(BoxBuffer)},
              stream,
              hint == Hint::kNone ? store_tile_kernel<Rank, Hint::kNone>
                                  : store_tile_kernel<Rank, Hint::kPolicy>,
              map, at, tile_bytes, shift, image);
}

template <int Rank>
void launch_multicast(StreamHandle stream, const gpu::TensorMap& map, const Coordinates& first,
                      const Coordinates& second, std::uint32_t tile_bytes, std::uint8_t* out) {
  gpu::launch("multicast_tiles",
              {.grid = {2}, .block = {kThreads}, .shared_bytes = sizeof(TwoBoxes), .cluster = {2}},
              stream, multicast_tiles_kernel<Rank>, map, first, second, tile_bytes, out);
}

template <int Rank>
auto reduce_kernel(gpu::BulkReduction reduction) {
  switch (reduction) {
    case BulkReduction::kAdd:
      return reduce_tile_kernel<BulkReduction::kAdd, Rank>;
    case BulkReduction::kMin:
      return reduce_tile_kernel<BulkReduction::kMin, Rank>;
    case BulkReduction::kMax:
      return reduce_tile_kernel<BulkReduction::kMax, Rank>;
    case BulkReduction::kInc:
      return reduce_tile_kernel<BulkReduction::kInc, Rank>;
    case BulkReduction::kDec:
      return reduce_tile_kernel<BulkReduction::kDec, Rank>;
    case BulkReduction::kAnd:
      return reduce_tile_kernel<BulkReduction::kAnd, Rank>;
    case BulkReduction::kOr:
      return reduce_tile_kernel<BulkReduction::kOr, Rank>;
    case BulkReduction::kXor:
      return reduce_tile_kernel<BulkReduction::kXor, Rank>;
  }
  RUNGS_THROW(kInvalidArgument, "no such reduction");
}

}  // namespace

void launch_load_tile(StreamHandle stream, int rank, Hint hint, const gpu::TensorMap& map,
                      const Coordinates& at, std::uint32_t tile_bytes, std::uint32_t shift,
                      std::uint8_t* out) {
  switch (rank) {
    case 1:
      return launch_load<1>(stream, hint, map, at, tile_bytes, shift, out);
    case 2:
      return launch_load<2>(stream, hint, map, at, tile_bytes, shift, out);
    case 3:
      return launch_load<3>(stream, hint, map, at, tile_bytes, shift, out);
    case 4:
      return launch_load<4>(stream, hint, map, at, tile_bytes, shift, out);
    case 5:
      return launch_load<5>(stream, hint, map, at, tile_bytes, shift, out);
    default:
      RUNGS_THROW(kInvalidArgument, "rank ", rank);
  }
}

void launch_multicast_tiles(StreamHandle stream, int rank, const gpu::TensorMap& map,
                            const Coordinates& first, const Coordinates& second,
                            std::uint32_t tile_bytes, std::uint8_t* out) {
  switch (rank) {
    case 1:
      return launch_multicast<1>(stream, map, first, second, tile_bytes, out);
    case 3:
      return launch_multicast<3>(stream, map, first, second, tile_bytes, out);
    case 5:
      return launch_multicast<5>(stream, map, first, second, tile_bytes, out);
    default:
      RUNGS_THROW(kInvalidArgument, "rank ", rank);
  }
}

void launch_cross_load_tile(StreamHandle stream, const gpu::TensorMap& map, const Coordinates& at,
                            std::uint32_t tile_bytes, std::uint8_t* out) {
  gpu::launch("cross_load_tile",
              {.grid = {2}, .block = {kThreads}, .shared_bytes = sizeof(BoxBuffer), .cluster = {2}},
              stream, cross_load_tile_kernel, map, at, tile_bytes, out);
}

void launch_store_tile(StreamHandle stream, int rank, Hint hint, const gpu::TensorMap& map,
                       const Coordinates& at, std::uint32_t tile_bytes, std::uint32_t shift,
                       const std::uint8_t* image) {
  switch (rank) {
    case 1:
      return launch_store<1>(stream, hint, map, at, tile_bytes, shift, image);
    case 2:
      return launch_store<2>(stream, hint, map, at, tile_bytes, shift, image);
    case 3:
      return launch_store<3>(stream, hint, map, at, tile_bytes, shift, image);
    case 4:
      return launch_store<4>(stream, hint, map, at, tile_bytes, shift, image);
    case 5:
      return launch_store<5>(stream, hint, map, at, tile_bytes, shift, image);
    default:
      RUNGS_THROW(kInvalidArgument, "rank ", rank);
  }
}

void launch_add_tile(StreamHandle stream, const gpu::TensorMap& map, const Coordinates& at,
                     std::uint32_t tile_bytes, const std::uint8_t* image) {
  gpu::launch("add_tile", {.grid = {1}, .block = {kThreads}, .shared_bytes = sizeof(BoxBuffer)},
              stream, add_tile_kernel, map, at, tile_bytes, image);
}

void launch_reduce_tile(StreamHandle stream, int rank, gpu::BulkReduction reduction,
                        const gpu::TensorMap& map, const Coordinates& at, std::uint32_t tile_bytes,
                        const std::uint8_t* image) {
  const gpu::LaunchConfig config{
      .grid = {1}, .block = {kThreads}, .shared_bytes = sizeof(BoxBuffer)};
  switch (rank) {
    case 1:
      return gpu::launch("reduce_tile", config, stream, reduce_kernel<1>(reduction), map, at,
                         tile_bytes, image);
    case 2:
      return gpu::launch("reduce_tile", config, stream, reduce_kernel<2>(reduction), map, at,
                         tile_bytes, image);
    case 3:
      return gpu::launch("reduce_tile", config, stream, reduce_kernel<3>(reduction), map, at,
                         tile_bytes, image);
    case 4:
      return gpu::launch("reduce_tile", config, stream, reduce_kernel<4>(reduction), map, at,
                         tile_bytes, image);
    case 5:
      return gpu::launch("reduce_tile", config, stream, reduce_kernel<5>(reduction), map, at,
                         tile_bytes, image);
    default:
      RUNGS_THROW(kInvalidArgument, "rank ", rank);
  }
}

}  // namespace rungs::ptx::test
