#pragma once
/// @file fence.hpp
/// Memory fences (PTX ISA, "membar / fence").

#include <rungs/ptx/where.hpp>

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

}  // namespace rungs::ptx
