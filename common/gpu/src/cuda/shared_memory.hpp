#pragma once
/// @file shared_memory.hpp
/// Space::kShared: VMM allocations that can be exported as a POSIX file descriptor.

#include "api.hpp"

#include <cstddef>

namespace rungs::gpu::detail {

/// @throws Error kCuda when memory is exhausted
void* allocate_shared(int ordinal, std::size_t size_bytes);
void release_shared(void* pointer) noexcept;

/// Lets `ordinal` use the kShared memory of `owner`, that which is there and that which comes.
void enable_shared_access(int ordinal, int owner);

/// The allocation around a pointer.
struct SharedRange {
  CUdeviceptr base = 0;
  std::size_t size_bytes = 0;  // mapped: rounded up to the granularity
  CUmemGenericAllocationHandle handle = 0;
  int owner = 0;
};
/// @throws Error kInvalidArgument if there is none on device `ordinal`
SharedRange find_shared(int ordinal, const void* pointer);

/// How an exportable allocation on `ordinal` is asked for.
CUmemAllocationProp shared_properties(int ordinal);
/// Maps `handle` at a fresh address for `ordinal`'s kernels.
CUdeviceptr map_shared(CUmemGenericAllocationHandle handle, std::size_t size_bytes, int ordinal);
void unmap_shared(CUdeviceptr base, std::size_t size_bytes) noexcept;
void set_shared_access(CUdeviceptr base, std::size_t size_bytes, int ordinal);

}  // namespace rungs::gpu::detail
