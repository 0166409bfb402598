#pragma once
/// @file dependent.hpp
/// Programmatic dependent launch (PTX ISA, "griddepcontrol"): the head of a kernel launched with
/// gpu::LaunchConfig::programmatic overlaps the tail of the kernel ahead of it on the stream.

#include <rungs/ptx/where.hpp>

#if !RUNGS_GPU_CUDA
#include <rungs/emulator/model_memory.hpp>
#endif

namespace rungs::ptx {

/// Says that the next kernel on the stream may start as far as this block is concerned; it does
/// when all blocks have said so or ended. One thread of the block suffices, more change nothing.
/// Orders no memory: what the block writes, before or after, the dependent kernel sees only after
/// wait_for_prerequisites(). PTX: griddepcontrol.launch_dependents.
RUNGS_DEVICE void launch_dependents(RUNGS_WHERE) {
#if RUNGS_GPU_CUDA
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#else
  emulator::model::launch_dependents(where);
#endif
}

/// Waits until the kernel ahead on the stream has ended; what it wrote is visible afterwards. Every
/// thread that reads it (or one, and then a barrier). Returns at once in a kernel that was not
/// launched so. PTX: griddepcontrol.wait.
RUNGS_DEVICE void wait_for_prerequisites(RUNGS_WHERE) {
#if RUNGS_GPU_CUDA
  asm volatile("griddepcontrol.wait;" ::: "memory");
#else
  emulator::model::wait_for_prerequisites(where);
#endif
}

}  // namespace rungs::ptx
