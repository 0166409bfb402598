#include "api.hpp"

#include "checks.hpp"
#include "streams.hpp"

#include <chrono>
#include <optional>
#include <thread>
#include <type_traits>

namespace rungs::gpu::detail {
namespace {

template <class Function>
void load(const char* name, unsigned version, Function& function) {
  void* address = nullptr;
  cudaDriverEntryPointQueryResult found{};
  const cudaError_t result =
      cudaGetDriverEntryPointByVersion(name, &address, version, cudaEnableDefault, &found);
  if (result != cudaSuccess || found != cudaDriverEntryPointSuccess || address == nullptr) {
    RUNGS_THROW(kUnsupported, "the CUDA driver has no ", name, " (version ", version,
                "); install a driver for CUDA 12.8 or later");
  }
  function = reinterpret_cast<Function>(address);
}

Driver load_driver() {
  constexpr unsigned kVmm = 10020;
  Driver result{};
  load("cuGetErrorString", 6000, result.get_error_string);
  load("cuMemGetAllocationGranularity", kVmm, result.mem_get_allocation_granularity);
  load("cuMemAddressReserve", kVmm, result.mem_address_reserve);
  load("cuMemAddressFree", kVmm, result.mem_address_free);
  load("cuMemCreate", kVmm, result.mem_create);
  load("cuMemRelease", kVmm, result.mem_release);
  load("cuMemMap", kVmm, result.mem_map);
  load("cuMemUnmap", kVmm, result.mem_unmap);
  load("cuMemSetAccess", kVmm, result.mem_set_access);
  load("cuMemExportToShareableHandle", kVmm, result.mem_export_to_shareable_handle);
  load("cuMemImportFromShareableHandle", kVmm, result.mem_import_from_shareable_handle);
  load("cuTensorMapEncodeTiled", 12000, result.tensor_map_encode_tiled);
  return result;
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables)
thread_local CaptureScope* innermost_scope = nullptr;

}  // namespace

std::string explain(cudaError_t result) {
  (void)cudaGetLastError();  // so that code which asks for the last error does not find ours
  return concat(cudaGetErrorString(result), " (", cudaGetErrorName(result), ")");
}

std::string explain(CUresult result) {
  const char* text = nullptr;
  if (driver().get_error_string(result, &text) != CUDA_SUCCESS || text == nullptr)
    text = "unknown error";
  return concat(text, " (CUresult ", static_cast<int>(result), ")");
}

const Driver& driver() {
  static const Driver functions = load_driver();
  return functions;
}

DeviceGuard::DeviceGuard(int ordinal) {
  check(cudaGetDevice(&previous_), "cudaGetDevice");
  if (previous_ == ordinal) return;
  check(cudaSetDevice(ordinal), "cudaSetDevice");
  changed_ = true;
}

DeviceGuard::~DeviceGuard() {
  if (changed_) (void)cudaSetDevice(previous_);
}

int device_of(StreamHandle stream) {
  if (const std::optional<int> ours = find_stream(stream)) return *ours;
  int ordinal = 0;
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  if (stream != nullptr) check(cudaStreamIsCapturing(stream, &capture), "cudaStreamIsCapturing");
  // A caller's own stream under capture does not tell; CUDA then wants its device to be current.
  if (stream == nullptr || capture != cudaStreamCaptureStatusNone) {
    check(cudaGetDevice(&ordinal), "cudaGetDevice");
  } else {
    check(cudaStreamGetDevice(stream, &ordinal), "cudaStreamGetDevice");
  }
  return ordinal;
}

void wait_for(const std::function<cudaError_t()>& query, const Deadline& deadline,
              const std::function<std::string()>& what) {
  // A graph-replayed step takes milliseconds: below that sleeping would show in its time.
  constexpr auto kSpin = std::chrono::microseconds(200);
  constexpr auto kYield = std::chrono::milliseconds(20);
  constexpr auto kSleep = std::chrono::microseconds(100);
  for (;;) {
    const cudaError_t result = query();
    if (result == cudaSuccess) return;
    if (result != cudaErrorNotReady) {
      RUNGS_THROW(kCuda, what(), ": ", explain(result), "; a kernel launched before this failed");
    }
    if (deadline.passed()) {
      RUNGS_THROW(kTimeout, what(), ": waited ", deadline.waited().count(), " s");
    }
    const auto waited = deadline.waited();
    if (waited < kSpin) continue;
    if (waited < kYield) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(kSleep);
    }
  }
}

CaptureScope::CaptureScope() : outer_(innermost_scope) { innermost_scope = this; }
CaptureScope::~CaptureScope() { innermost_scope = outer_; }
CaptureScope* CaptureScope::innermost() { return innermost_scope; }

void refuse_in_capture(std::string_view call) {
  const std::string reason = refused_in_capture(call);
  if (CaptureScope* scope = CaptureScope::innermost()) scope->refuse(reason);
  RUNGS_THROW(kInvalidArgument, reason);
}

}  // namespace rungs::gpu::detail
