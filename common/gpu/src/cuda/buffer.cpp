#include <rungs/gpu/buffer.hpp>

#include "api.hpp"
#include "checks.hpp"
#include "shared_memory.hpp"

#include <rungs/core/log.hpp>

namespace rungs::gpu {
namespace detail {
namespace {

void* allocate_device(int ordinal, std::size_t size_bytes) {
  void* pointer = nullptr;
  const cudaError_t result = cudaMalloc(&pointer, size_bytes);
  if (result == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    (void)cudaMemGetInfo(&free_bytes, &total_bytes);
    RUNGS_THROW(kCuda, "device ", ordinal, ": out of memory: ", size_bytes, " bytes asked for, ",
                free_bytes, " of ", total_bytes, " are free; free buffers");
  }
  check(result, concat("device ", ordinal, ": cudaMalloc of ", size_bytes, " bytes"));
  return pointer;
}

void* allocate_mapped(int ordinal, std::size_t size_bytes) {
  void* pointer = nullptr;
  // With unified addressing the device's pointer is the host's, on every device (portable).
  const cudaError_t result =
      cudaHostAlloc(&pointer, size_bytes, cudaHostAllocMapped | cudaHostAllocPortable);
  check(result,
        concat("out of host memory: ", size_bytes, " bytes asked for, mapped to device ", ordinal));
  return pointer;
}

}  // namespace

void* allocate(const Device& device, std::size_t size_bytes, Space space) {
  if (CaptureScope::innermost() != nullptr) {
    refuse_in_capture(concat("allocation of ", size_bytes, " bytes"));
  }
  const DeviceGuard guard(device.ordinal());
  switch (space) {
    case Space::kDevice:
      return allocate_device(device.ordinal(), size_bytes);
    case Space::kShared:
      return allocate_shared(device.ordinal(), size_bytes);
    case Space::kHostMapped:
      return allocate_mapped(device.ordinal(), size_bytes);
  }
  RUNGS_THROW(kInvalidArgument, "allocation in space ", static_cast<int>(space), ": no such space");
}

void release(void* pointer, Space space) noexcept {
  cudaError_t result = cudaSuccess;
  switch (space) {
    case Space::kDevice:
      result = cudaFree(pointer);
      break;
    case Space::kShared:
      release_shared(pointer);
      break;
    case Space::kHostMapped:
      result = cudaFreeHost(pointer);
      break;
  }
  if (result != cudaSuccess && result != cudaErrorCudartUnloading) {
    log::warn("a buffer could not be freed: ", explain(result));
  }
}

}  // namespace detail

void copy_async(void* to, const void* from, std::size_t size_bytes, StreamHandle stream) {
  detail::check_copy(to, from, size_bytes);
  if (size_bytes == 0) return;
  detail::check(cudaMemcpyAsync(to, from, size_bytes, cudaMemcpyDefault, stream),
                concat("copy of ", size_bytes, " bytes"));
}

void fill_async(void* to, int value, std::size_t size_bytes, StreamHandle stream) {
  detail::check_fill(to, size_bytes);
  if (size_bytes == 0) return;
  const detail::DeviceGuard guard(detail::device_of(stream));
  detail::check(cudaMemsetAsync(to, value, size_bytes, stream),
                concat("fill of ", size_bytes, " bytes"));
}

}  // namespace rungs::gpu
