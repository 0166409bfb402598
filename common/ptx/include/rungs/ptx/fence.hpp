#pragma once
/// @file fence.hpp
/// Memory fences (PTX ISA, "membar / fence").

#include <rungs/ptx/where.hpp>

#if !RUNGS_GPU_CUDA
#include <rungs/emulator/model_memory.hpp>
#endif

namespace rungs::ptx {

/// Orders the thread's earlier ordinary accesses to shared memory before later ones of the
/// asynchronous proxy (TMA, wgmma). Every thread that wrote; then a barrier; then the asynchronous
/// instruction. PTX: fence.proxy.async.shared::cta.
RUNGS_DEVICE void fence_proxy_async() {
#if RUNGS_GPU_CUDA
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#else
  emulator::model::fence_proxy_async();
#endif
}

/// Acquire-release fence among the threads of the device. PTX: fence.acq_rel.gpu.
RUNGS_DEVICE void fence_acq_rel_gpu() {
#if RUNGS_GPU_CUDA
  asm volatile("fence.acq_rel.gpu;" ::: "memory");
#else
  emulator::model::fence_memory();
#endif
}

/// Acquire-release fence among all threads of the system: peers and the host. PTX:
/// fence.acq_rel.sys.
RUNGS_DEVICE void fence_acq_rel_sys() {
#if RUNGS_GPU_CUDA
  asm volatile("fence.acq_rel.sys;" ::: "memory");
#else
  emulator::model::fence_memory();
#endif
}

// Emulated, every scope is the system's: a fence that is too narrow does not show.
#if RUNGS_GPU_CUDA
#define RUNGS_FENCE(name, text) \
  RUNGS_DEVICE void name() { asm volatile(text ";" ::: "memory"); }
#else
#define RUNGS_FENCE(name, text) \
  RUNGS_DEVICE void name() { emulator::model::fence_memory(); }
#endif
/// Acquire-release fence among the threads of the block; of the cluster. PTX: fence.acq_rel.cta,
/// fence.acq_rel.cluster.
RUNGS_FENCE(fence_acq_rel_cta, "fence.acq_rel.cta")
RUNGS_FENCE(fence_acq_rel_cluster, "fence.acq_rel.cluster")
/// Sequentially consistent fences: one order of them all, which an acquire-release fence lacks
/// (store, fence, load of another's flag on both sides). PTX: fence.sc.cta and so on.
RUNGS_FENCE(fence_sc_cta, "fence.sc.cta")
RUNGS_FENCE(fence_sc_cluster, "fence.sc.cluster")
RUNGS_FENCE(fence_sc_gpu, "fence.sc.gpu")
RUNGS_FENCE(fence_sc_sys, "fence.sc.sys")
/// Orders accesses to one memory through different virtual addresses (a multicast mapping and the
/// memory bound to it). PTX: fence.proxy.alias.
RUNGS_FENCE(fence_proxy_alias, "fence.proxy.alias")
/// fence_proxy_async() for global memory only. PTX: fence.proxy.async.global.
RUNGS_FENCE(fence_proxy_async_global, "fence.proxy.async.global")
#undef RUNGS_FENCE

/// fence_proxy_async() for shared memory of all blocks of the cluster. PTX:
/// fence.proxy.async.shared::cluster.
RUNGS_DEVICE void fence_proxy_async_cluster() {
#if RUNGS_GPU_CUDA
  asm volatile("fence.proxy.async.shared::cluster;" ::: "memory");
#else
  emulator::model::fence_proxy_async_cluster();
#endif
}
/// fence_proxy_async() for all memory, global and shared. PTX: fence.proxy.async.
RUNGS_DEVICE void fence_proxy_async_all() {
#if RUNGS_GPU_CUDA
  asm volatile("fence.proxy.async;" ::: "memory");
#else
  emulator::model::fence_proxy_async_cluster();
  emulator::model::fence_memory();
#endif
}

/// After writing a tensor map in global memory: releases it to tma instructions of the device. One
/// thread. PTX: fence.proxy.tensormap::generic.release.gpu.
RUNGS_DEVICE void fence_tensor_map_release_gpu() {
#if RUNGS_GPU_CUDA
  asm volatile("fence.proxy.tensormap::generic.release.gpu;" ::: "memory");
#else
  emulator::model::fence_memory();
#endif
}
/// Before the first use of the tensor map at `map` (128 bytes, 128-byte aligned, global memory)
/// that another thread has written and released. PTX: fence.proxy.tensormap::generic.acquire.gpu.
RUNGS_DEVICE void fence_tensor_map_acquire_gpu(const void* map) {
#if RUNGS_GPU_CUDA
  asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(map) : "memory");
#else
  static_cast<void>(map);
  emulator::model::fence_memory();
#endif
}

}  // namespace rungs::ptx
