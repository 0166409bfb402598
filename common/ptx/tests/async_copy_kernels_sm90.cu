// Kernels of the conformance suite: cp.async.

#include "warp_conformance.hpp"

#include <rungs/gpu/kernel.hpp>
#include <rungs/ptx/async_copy.hpp>
#include <rungs/ptx/mbarrier.hpp>
#include <rungs/ptx/sync.hpp>

namespace rungs::ptx::test {
namespace {

struct alignas(16) Stage {
  std::uint8_t bytes[kCopyThreads * 16];
};

template <CopyKind kKind>
RUNGS_DEVICE void start_copy(std::uint8_t* to, const std::uint8_t* from, unsigned source_bytes) {
  constexpr int kBytes = static_cast<int>(copy_bytes(kKind));
  using enum CopyKind;
  if constexpr (kKind == kCg16) {
    cp_async_cg(to, from);
  } else if constexpr (kKind == kCg16Fill) {
    cp_async_cg_zero_fill(to, from, source_bytes);
  } else if constexpr (kKind == kCa4Fill || kKind == kCa8Fill || kKind == kCa16Fill) {
    cp_async_ca_zero_fill<kBytes>(to, from, source_bytes);
  } else {
    cp_async_ca<kBytes>(to, from);
  }
}

// What the next thread has copied in stage s.
template <unsigned kBytes>
RUNGS_DEVICE void store_neighbour(const Stage& stage, unsigned s, std::uint8_t* out) {
  const unsigned n = (threadIdx.x + 1) % kCopyThreads;
  for (unsigned i = 0; i < kBytes; i++)
    out[(s * kCopyThreads + n) * kBytes + i] = stage.bytes[n * kBytes + i];
}

template <CopyKind kKind, int kHow>
RUNGS_KERNEL(kCopyThreads)
async_copy_kernel(const std::uint8_t* in, std::uint8_t* out) {
  constexpr unsigned kBytes = copy_bytes(kKind);
  RUNGS_SHARED_ARRAY(Stage, stages, kCopyStages);
  RUNGS_SHARED_ARRAY(std::uint64_t, full, kCopyStages);
  const unsigned t = threadIdx.x;
  if (kHow >= 2) {
    if (t == 0) {
      for (unsigned s = 0; s < kCopyStages; s++) mbarrier_init(&full[s], kCopyThreads);
      fence_mbarrier_init();
    }
    syncthreads();
  }
  for (unsigned s = 0; s < kCopyStages; s++) {
    start_copy<kKind>(&stages[s].bytes[t * kBytes], in + (s * kCopyThreads + t) * kBytes,
                      fill_bytes(t, s, kBytes));
    if (kHow == 0) cp_async_commit_group();
    if (kHow == 2) cp_async_mbarrier_arrive_noinc(&full[s]);
    if (kHow == 3) {
      cp_async_mbarrier_arrive(&full[s]);
      mbarrier_arrive(&full[s]);
    }
  }
  if (kHow == 0) {
    cp_async_wait_group<2>();
    syncthreads();
    store_neighbour<kBytes>(stages[0], 0, out);
    store_neighbour<kBytes>(stages[1], 1, out);
    cp_async_wait_group<1>();
    syncthreads();
    store_neighbour<kBytes>(stages[2], 2, out);
    cp_async_wait_group<0>();
    syncthreads();
    store_neighbour<kBytes>(stages[3], 3, out);
    return;
  }
  if (kHow == 1) {
    cp_async_wait_all();
    syncthreads();
  }
  for (unsigned s = 0; s < kCopyStages; s++) {
    if (kHow >= 2) mbarrier_wait(&full[s], 0);
    store_neighbour<kBytes>(stages[s], s, out);
  }
}

template <CopyKind kKind>
void launch_kind(StreamHandle stream, int how, const std::uint8_t* in, std::uint8_t* out) {
  gpu::launch("async_copy", {.grid = {1}, .block = {kCopyThreads}}, stream,
              how == 0   ? async_copy_kernel<kKind, 0>
              : how == 1 ? async_copy_kernel<kKind, 1>
              : how == 2 ? async_copy_kernel<kKind, 2>
                         : async_copy_kernel<kKind, 3>,
              in, out);
}

}  // namespace

void launch_async_copy(StreamHandle stream, CopyKind kind, int how, const std::uint8_t* in,
                       std::uint8_t* out) {
  switch (kind) {
    case CopyKind::kCa4:
      return launch_kind<CopyKind::kCa4>(stream, how, in, out);
    case CopyKind::kCa8:
      return launch_kind<CopyKind::kCa8>(stream, how, in, out);
    case CopyKind::kCa16:
      return launch_kind<CopyKind::kCa16>(stream, how, in, out);
    case CopyKind::kCg16:
      return launch_kind<CopyKind::kCg16>(stream, how, in, out);
    case CopyKind::kCa4Fill:
      return launch_kind<CopyKind::kCa4Fill>(stream, how, in, out);
    case CopyKind::kCa8Fill:
      return launch_kind<CopyKind::kCa8Fill>(stream, how, in, out);
    case CopyKind::kCa16Fill:
      return launch_kind<CopyKind::kCa16Fill>(stream, how, in, out);
    case CopyKind::kCg16Fill:
      return launch_kind<CopyKind::kCg16Fill>(stream, how, in, out);
  }
}

}  // namespace rungs::ptx::test
