#pragma once
/// @file api.hpp
/// What the CUDA back end's files share: errors, the driver's functions, the current device,
/// waiting.

#include <rungs/core/deadline.hpp>
#include <rungs/core/error.hpp>
#include <rungs/gpu/device.hpp>

#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>

#include <functional>
#include <string>
#include <string_view>

namespace rungs::gpu::detail {

/// "an illegal memory access was encountered (cudaErrorIllegalAddress)"; clears the runtime's last
/// error.
std::string explain(cudaError_t result);
std::string explain(CUresult result);

/// @throws Error kCuda "<call>: <explanation>" unless `result` is a success
inline void check(cudaError_t result, std::string_view call) {
  if (result != cudaSuccess) RUNGS_THROW(kCuda, call, ": ", explain(result));
}
inline void check(CUresult result, std::string_view call) {
  if (result != CUDA_SUCCESS) RUNGS_THROW(kCuda, call, ": ", explain(result));
}

/// The driver's functions that the runtime does not offer, found at run time: nothing links
/// libcuda.
struct Driver {
  PFN_cuGetErrorString_v6000 get_error_string;
  PFN_cuMemGetAllocationGranularity_v10020 mem_get_allocation_granularity;
  PFN_cuMemAddressReserve_v10020 mem_address_reserve;
  PFN_cuMemAddressFree_v10020 mem_address_free;
  PFN_cuMemCreate_v10020 mem_create;
  PFN_cuMemRelease_v10020 mem_release;
  PFN_cuMemMap_v10020 mem_map;
  PFN_cuMemUnmap_v10020 mem_unmap;
  PFN_cuMemSetAccess_v10020 mem_set_access;
  PFN_cuMemExportToShareableHandle_v10020 mem_export_to_shareable_handle;
  PFN_cuMemImportFromShareableHandle_v10020 mem_import_from_shareable_handle;
  PFN_cuTensorMapEncodeTiled_v12000 tensor_map_encode_tiled;
};
/// @throws Error kUnsupported if the driver is too old
const Driver& driver();

/// Makes a device current for a scope.
class DeviceGuard {
 public:
  explicit DeviceGuard(int ordinal);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int previous_ = 0;
  bool changed_ = false;
};

/// The device that a stream belongs to; of the null stream, the current one.
int device_of(StreamHandle stream);

/// Calls `query` until it no longer says cudaErrorNotReady: spins, yields, then sleeps.
/// @throws Error kCuda for another error, kTimeout when the deadline passes
void wait_for(const std::function<cudaError_t()>& query, const Deadline& deadline,
              const std::function<std::string()>& what);

/// A Graph::capture() of the calling thread; they nest.
class CaptureScope {
 public:
  CaptureScope();
  ~CaptureScope();
  CaptureScope(const CaptureScope&) = delete;
  CaptureScope& operator=(const CaptureScope&) = delete;
  /// The first thing refused inside it; empty if there was none.
  [[nodiscard]] const std::string& refused() const { return refused_; }

  static CaptureScope* innermost();
  void refuse(const std::string& reason) {
    if (refused_.empty()) refused_ = reason;
  }

 private:
  CaptureScope* outer_;
  std::string refused_;
};

/// Marks the calling thread's capture, if there is one, as spoilt and throws kInvalidArgument.
[[noreturn]] void refuse_in_capture(std::string_view call);

/// Counts kernels for counters().
void count_launches(int ordinal, std::size_t kernels) noexcept;

}  // namespace rungs::gpu::detail
