// Kernels of the conformance suite: one-dimensional bulk copies and reductions, bulk groups.

#include "bulk_conformance.hpp"
#include "wait_in_time.hpp"

#include <rungs/gpu/kernel.hpp>
#include <rungs/ptx/bulk.hpp>
#include <rungs/ptx/fence.hpp>
#include <rungs/ptx/mbarrier.hpp>
#include <rungs/ptx/sync.hpp>

namespace rungs::ptx::test {
namespace {

constexpr unsigned kThreads = 64;

struct alignas(128) Buffer {
  std::uint8_t bytes[kMaxBulkBytes];
  std::uint64_t landed;
};

template <Hint H>
RUNGS_KERNEL(kThreads)
round_trip_kernel(const std::uint8_t* in, std::uint8_t* out, std::uint32_t size_bytes) {
  RUNGS_DYNAMIC_SHARED(Buffer, s);
  if (threadIdx.x == 0) {
    mbarrier_init(&s.landed, 1);
    fence_mbarrier_init();
    if constexpr (H == Hint::kNone) {
      bulk_prefetch(in, size_bytes);
    } else {
      bulk_prefetch_hint(in, size_bytes, createpolicy_fractional<L2Priority::kEvictLast>());
    }
  }
  syncthreads();
  if (threadIdx.x != 0) return;
  mbarrier_arrive_expect_tx(&s.landed, size_bytes);
  if constexpr (H == Hint::kNone) {
    bulk_load(s.bytes, in, size_bytes, &s.landed);
  } else {
    bulk_load_hint(s.bytes, in, size_bytes, &s.landed,
                   createpolicy_fractional<L2Priority::kEvictFirst>());
  }
  if (!wait_in_time(&s.landed, 0)) return;
  if constexpr (H == Hint::kNone) {
    bulk_store(out, s.bytes, size_bytes);
  } else {
    bulk_store_hint(out, s.bytes, size_bytes,
                    createpolicy_fractional<L2Priority::kEvictUnchanged>());
  }
  bulk_commit();
  bulk_wait<0>();
}

constexpr unsigned kChunk = 256;  // words

struct alignas(128) Chunks {
  std::uint32_t words[2][kChunk];
};

RUNGS_KERNEL(kThreads) store_pipeline_kernel(std::uint32_t* out, int chunks) {
  RUNGS_DYNAMIC_SHARED(Chunks, s);
  for (int c = 0; c < chunks; c++) {
    std::uint32_t* const buffer = s.words[c % 2];
    const auto begin = static_cast<std::uint32_t>(c) * kChunk;
    // 1. The copy before the last has read this buffer.
    if (threadIdx.x == 0) bulk_wait_read<1>();
    syncthreads();
    // 2. New contents, visible to the asynchronous proxy.
    for (unsigned i = threadIdx.x; i < kChunk; i += kThreads) buffer[i] = (begin + i) * 2654435761u;
    fence_proxy_async();
    syncthreads();
    // 3. Two copies in one group.
    if (threadIdx.x == 0) {
      bulk_store(out + begin, buffer, kChunk * 2);
      bulk_store(out + begin + kChunk / 2, buffer + kChunk / 2, kChunk * 2);
      bulk_commit();
    }
  }
  if (threadIdx.x == 0) bulk_wait<0>();
}

RUNGS_KERNEL(kThreads)
bulk_multicast_kernel(const std::uint8_t* in, std::uint8_t* out, std::uint32_t size_bytes) {
  RUNGS_DYNAMIC_SHARED(Buffer, s);
  if (threadIdx.x == 0) {
    mbarrier_init(&s.landed, 1);
    fence_mbarrier_init();
  }
  cluster_arrive();
  cluster_wait();
  const std::uint32_t rank = cluster_rank();
  const std::uint32_t half = size_bytes / 2;
  if (threadIdx.x == 0) {
    mbarrier_arrive_expect_tx(&s.landed, size_bytes);
    if (rank == 0) {
      bulk_load_multicast(s.bytes, in, half, &s.landed, 3);
    } else {
      bulk_load_multicast_hint(s.bytes + half, in + half, half, &s.landed, 3,
                               createpolicy_fractional<L2Priority::kEvictNormal>());
    }
  }
  const bool landed = wait_in_time(&s.landed, 0);
  for (std::uint32_t i = threadIdx.x; landed && i < size_bytes; i += kThreads)
    out[rank * size_bytes + i] = s.bytes[i];
  syncwarp();
  cluster_arrive();
  cluster_wait();
}

struct alignas(128) Mailbox {
  std::uint8_t outbox[kMaxBulkBytes];
  std::uint8_t inbox[kMaxBulkBytes];
  std::uint64_t landed;
};

RUNGS_KERNEL(kThreads)
exchange_kernel(const std::uint8_t* in, std::uint8_t* out, std::uint32_t size_bytes) {
  RUNGS_DYNAMIC_SHARED(Mailbox, s);
  const std::uint32_t rank = cluster_rank();
  for (std::uint32_t i = threadIdx.x; i < size_bytes; i += kThreads)
    s.outbox[i] = in[rank * size_bytes + i];
  if (threadIdx.x == 0) {
    mbarrier_init(&s.landed, 1);
    fence_mbarrier_init();
  }
  fence_proxy_async();
  cluster_arrive();
  cluster_wait();
  if (threadIdx.x == 0) {
    mbarrier_arrive_expect_tx(&s.landed, size_bytes);
    bulk_copy_cluster(map_shared(shared_u32(s.inbox), rank ^ 1), s.outbox, size_bytes,
                      map_shared(shared_u32(&s.landed), rank ^ 1));
  }
  const bool landed = wait_in_time(&s.landed, 0);
  for (std::uint32_t i = threadIdx.x; landed && i < size_bytes; i += kThreads)
    out[rank * size_bytes + i] = s.inbox[i];
  syncwarp();
  cluster_arrive();
  cluster_wait();
}

RUNGS_KERNEL(kThreads)
cross_load_kernel(const std::uint8_t* in, std::uint8_t* out, std::uint32_t size_bytes) {
  RUNGS_DYNAMIC_SHARED(Mailbox, s);
  const std::uint32_t rank = cluster_rank();
  if (threadIdx.x == 0) {
    mbarrier_init(&s.landed, 1);
    fence_mbarrier_init();
  }
  cluster_arrive();
  cluster_wait();
  if (threadIdx.x == 0) {
    mbarrier_arrive_expect_tx(&s.landed, size_bytes);
    bulk_load_cluster(map_shared(shared_u32(s.inbox), rank ^ 1), in + rank * size_bytes, size_bytes,
                      map_shared(shared_u32(&s.landed), rank ^ 1));
  }
  const bool landed = wait_in_time(&s.landed, 0);
  for (std::uint32_t i = threadIdx.x; landed && i < size_bytes; i += kThreads)
    out[rank * size_bytes + i] = s.inbox[i];
  syncwarp();
  cluster_arrive();
  cluster_wait();
}

template <BulkReduction Reduction, TensorElement Type>
RUNGS_KERNEL(kThreads)
bulk_reduce_kernel(std::uint8_t* data, const std::uint8_t* in, std::uint32_t size_bytes) {
  RUNGS_DYNAMIC_SHARED(Buffer, s);
  for (std::uint32_t i = threadIdx.x; i < size_bytes; i += kThreads) s.bytes[i] = in[i];
  fence_proxy_async();
  syncthreads();
  if (threadIdx.x != 0) return;
  bulk_reduce<Reduction, Type>(data, s.bytes, size_bytes);
  bulk_commit();
  bulk_wait<0>();
}

RUNGS_KERNEL(kThreads)
bulk_add_kernel(std::uint8_t* data, const std::uint8_t* in, std::uint32_t size_bytes) {
  RUNGS_DYNAMIC_SHARED(Buffer, s);
  for (std::uint32_t i = threadIdx.x; i < size_bytes; i += kThreads) s.bytes[i] = in[i];
  fence_proxy_async();
  syncthreads();
  if (threadIdx.x != 0) return;
  bulk_reduce_hint<BulkReduction::kAdd, TensorElement::kU32>(
      data, s.bytes, size_bytes, createpolicy_fractional<L2Priority::kEvictFirst>());
  bulk_commit();
  bulk_wait<0>();
}

template <BulkReduction Reduction, TensorElement Type>
RUNGS_KERNEL(kThreads)
bulk_reduce_cluster_kernel(std::uint8_t* data, const std::uint8_t* in, std::uint32_t size_bytes) {
  RUNGS_DYNAMIC_SHARED(Mailbox, s);
  const std::uint32_t rank = cluster_rank();
  for (std::uint32_t i = threadIdx.x; i < size_bytes; i += kThreads) {
    s.outbox[i] = in[i];
    s.inbox[i] = data[i];
  }
  if (threadIdx.x == 0) {
    mbarrier_init(&s.landed, 1);
    fence_mbarrier_init();
  }
  fence_proxy_async();
  cluster_arrive();
  cluster_wait();
  if (rank == 0 && threadIdx.x == 0) {
    bulk_reduce_cluster<Reduction, Type>(map_shared(shared_u32(s.inbox), 1), s.outbox, size_bytes,
                                         map_shared(shared_u32(&s.landed), 1));
  }
  if (rank == 1) {
    if (threadIdx.x == 0) mbarrier_arrive_expect_tx(&s.landed, size_bytes);
    const bool landed = wait_in_time(&s.landed, 0);
    for (std::uint32_t i = threadIdx.x; landed && i < size_bytes; i += kThreads)
      data[i] = s.inbox[i];
  }
  syncwarp();
  cluster_arrive();  // block 0's source may be read until the copy has landed
  cluster_wait();
}

using ReduceKernel = void (*)(std::uint8_t*, const std::uint8_t*, std::uint32_t);

template <bool Cluster, BulkReduction Reduction, TensorElement Type>
ReduceKernel reduce_kernel_of() {
  if constexpr (!bulk_reduction_exists(Reduction, Type, !Cluster)) {
    return nullptr;
  } else if constexpr (Cluster) {
    return bulk_reduce_cluster_kernel<Reduction, Type>;
  } else {
    return bulk_reduce_kernel<Reduction, Type>;
  }
}

template <bool Cluster, BulkReduction Reduction>
ReduceKernel reduce_kernel_of(TensorElement type) {
  switch (type) {
    case TensorElement::kU32:
      return reduce_kernel_of<Cluster, Reduction, TensorElement::kU32>();
    case TensorElement::kI32:
      return reduce_kernel_of<Cluster, Reduction, TensorElement::kI32>();
    case TensorElement::kU64:
      return reduce_kernel_of<Cluster, Reduction, TensorElement::kU64>();
    case TensorElement::kI64:
      return reduce_kernel_of<Cluster, Reduction, TensorElement::kI64>();
    case TensorElement::kF16:
      return reduce_kernel_of<Cluster, Reduction, TensorElement::kF16>();
    case TensorElement::kBf16:
      return reduce_kernel_of<Cluster, Reduction, TensorElement::kBf16>();
    case TensorElement::kF32:
      return reduce_kernel_of<Cluster, Reduction, TensorElement::kF32>();
    case TensorElement::kF64:
      return reduce_kernel_of<Cluster, Reduction, TensorElement::kF64>();
    default:
      return nullptr;
  }
}

template <bool Cluster>
ReduceKernel reduce_kernel_of(BulkReduction reduction, TensorElement type) {
  switch (reduction) {
    case BulkReduction::kAdd:
      return reduce_kernel_of<Cluster, BulkReduction::kAdd>(type);
    case BulkReduction::kMin:
      return reduce_kernel_of<Cluster, BulkReduction::kMin>(type);
    case BulkReduction::kMax:
      return reduce_kernel_of<Cluster, BulkReduction::kMax>(type);
    case BulkReduction::kInc:
      return reduce_kernel_of<Cluster, BulkReduction::kInc>(type);
    case BulkReduction::kDec:
      return reduce_kernel_of<Cluster, BulkReduction::kDec>(type);
    case BulkReduction::kAnd:
      return reduce_kernel_of<Cluster, BulkReduction::kAnd>(type);
    case BulkReduction::kOr:
      return reduce_kernel_of<Cluster, BulkReduction::kOr>(type);
    case BulkReduction::kXor:
      return reduce_kernel_of<Cluster, BulkReduction::kXor>(type);
  }
  return nullptr;
}

constexpr gpu::LaunchConfig kPair{
    .grid = {2}, .block = {kThreads}, .shared_bytes = sizeof(Mailbox), .cluster = {2}};

}  // namespace

void launch_round_trip(StreamHandle stream, Hint hint, const std::uint8_t* in, std::uint8_t* out,
                       std::uint32_t size_bytes) {
  gpu::launch(
      "round_trip", {.grid = {1}, .block = {kThreads}, .shared_bytes = sizeof(Buffer)}, stream,
      hint == Hint::kNone ? round_trip_kernel<Hint::kNone> : round_trip_kernel<Hint::kPolicy>, in,
      out, size_bytes);
}

void launch_store_pipeline(StreamHandle stream, std::uint32_t* out, int chunks) {
  gpu::launch("store_pipeline", {.grid = {1}, .block = {kThreads}, .shared_bytes = sizeof(Chunks)},
              stream, store_pipeline_kernel, out, chunks);
}

void launch_bulk_multicast(StreamHandle stream, const std::uint8_t* in, std::uint8_t* out,
                           std::uint32_t size_bytes) {
  gpu::launch("bulk_multicast", kPair, stream, bulk_multicast_kernel, in, out, size_bytes);
}

void launch_exchange(StreamHandle stream, const std::uint8_t* in, std::uint8_t* out,
                     std::uint32_t size_bytes) {
  gpu::launch("exchange", kPair, stream, exchange_kernel, in, out, size_bytes);
}

void launch_cross_load(StreamHandle stream, const std::uint8_t* in, std::uint8_t* out,
                       std::uint32_t size_bytes) {
  gpu::launch("cross_load", kPair, stream, cross_load_kernel, in, out, size_bytes);
}

bool launch_bulk_reduce(StreamHandle stream, gpu::BulkReduction reduction, gpu::TensorElement type,
                        std::uint8_t* data, const std::uint8_t* in, std::uint32_t size_bytes) {
  const ReduceKernel kernel = reduce_kernel_of<false>(reduction, type);
  if (kernel == nullptr) return false;
  gpu::launch("bulk_reduce", {.grid = {1}, .block = {kThreads}, .shared_bytes = sizeof(Buffer)},
              stream, kernel, data, in, size_bytes);
  return true;
}

void launch_bulk_add(StreamHandle stream, std::uint8_t* data, const std::uint8_t* in,
                     std::uint32_t size_bytes) {
  gpu::launch("bulk_add", {.grid = {1}, .block = {kThreads}, .shared_bytes = sizeof(Buffer)},
              stream, bulk_add_kernel, data, in, size_bytes);
}

bool launch_bulk_reduce_cluster(StreamHandle stream, gpu::BulkReduction reduction,
                                gpu::TensorElement type, std::uint8_t* data, const std::uint8_t* in,
                                std::uint32_t size_bytes) {
  const ReduceKernel kernel = reduce_kernel_of<true>(reduction, type);
  if (kernel == nullptr) return false;
  gpu::launch("bulk_reduce_cluster", kPair, stream, kernel, data, in, size_bytes);
  return true;
}

}  // namespace rungs::ptx::test
