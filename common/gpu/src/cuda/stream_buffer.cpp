#include <rungs/gpu/stream_buffer.hpp>

#include "api.hpp"
#include "checks.hpp"

#include <rungs/core/log.hpp>
#include <rungs/gpu/graph.hpp>

namespace rungs::gpu::detail {

void* allocate_in_order(std::size_t size_bytes, StreamHandle stream) {
  if (CaptureScope::innermost() != nullptr || is_capturing(stream)) {
    refuse_in_capture(concat("stream-ordered allocation of ", size_bytes, " bytes"));
  }
  const int ordinal = device_of(stream);
  const DeviceGuard guard(ordinal);
  void* pointer = nullptr;
  const cudaError_t result = cudaMallocAsync(&pointer, size_bytes, stream);
  if (result == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    RUNGS_THROW(kCuda, "device ", ordinal, ": out of memory: ", size_bytes,
                " bytes asked for in stream order; free buffers");
  }
  check(result, concat("device ", ordinal, ": cudaMallocAsync of ", size_bytes, " bytes"));
  return pointer;
}

void release_in_order(void* pointer, StreamHandle stream) {
  if (is_capturing(stream)) refuse_in_capture("stream-ordered release");
  const DeviceGuard guard(device_of(stream));
  check(cudaFreeAsync(pointer, stream), "cudaFreeAsync");
}

void release_in_order_or_log(void* pointer, StreamHandle stream) noexcept {
  const cudaError_t result = cudaFreeAsync(pointer, stream);
  if (result != cudaSuccess && result != cudaErrorCudartUnloading) {
    log::warn("a stream's buffer could not be freed: ", explain(result));
  }
}

}  // namespace rungs::gpu::detail
