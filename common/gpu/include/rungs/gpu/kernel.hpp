#pragma once
/// @file kernel.hpp
/// The CUDA-language surface a kernel source may touch; include only from kernel sources and
/// *_device.hpp. Under nvcc these are CUDA's own words; under the host compiler they name the
/// emulator's model.
///
/// Rules for kernel source (docs/architecture.md says why): no <<<>>>, inline asm or intrinsics
/// outside rungs/ptx; shared memory only through the macros below; every spin through a wrapper
/// that yields; kernels that wait for other blocks launch cooperatively; __syncwarp() after an
/// elected block; no mutable globals.

#include <rungs/config.hpp>
#include <rungs/core/dtype.hpp>

#if RUNGS_GPU_CUDA
#define RUNGS_KERNEL(...) __global__ void __launch_bounds__(__VA_ARGS__)
#define RUNGS_DEVICE __device__ __forceinline__
#define RUNGS_GRID_CONSTANT __grid_constant__
/// The dynamic shared memory of the launch, 1024-byte aligned, seen as a T. One a kernel.
#define RUNGS_DYNAMIC_SHARED(T, name)                                      \
  extern __shared__ __align__(1024) unsigned char rungs_dynamic_shared_[]; \
  T& name = *reinterpret_cast<T*>(rungs_dynamic_shared_)
/// Statically sized shared memory: an object, and an array.
#define RUNGS_SHARED(T, name) __shared__ T name
#define RUNGS_SHARED_ARRAY(T, name, count) __shared__ T name[count]
#else
#include <rungs/emulator/device.hpp>
#endif
