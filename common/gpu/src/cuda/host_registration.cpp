#include <rungs/gpu/host_registration.hpp>

#include "api.hpp"
#include "checks.hpp"

#include <rungs/core/log.hpp>

namespace rungs::gpu {

HostRegistration::HostRegistration(const Device& device, void* pointer, std::size_t size_bytes) {
  detail::check_host_range(pointer, size_bytes);
  const std::string what = concat("registration of ", size_bytes, " bytes of host memory");
  if (detail::CaptureScope::innermost() != nullptr) detail::refuse_in_capture(what);
  const detail::DeviceGuard guard(device.ordinal());
  const cudaError_t result =
      cudaHostRegister(pointer, size_bytes, cudaHostRegisterMapped | cudaHostRegisterPortable);
  if (result == cudaErrorHostMemoryAlreadyRegistered) {
    (void)cudaGetLastError();
    RUNGS_THROW(kInvalidArgument, detail::registered_already(size_bytes));
  }
  detail::check(result, concat(what, " for device ", device.ordinal()));
  void* mapped = nullptr;
  const cudaError_t found = cudaHostGetDevicePointer(&mapped, pointer, 0);
  if (found != cudaSuccess) {
    (void)cudaHostUnregister(pointer);
    detail::check(found, concat(what, ": its address on device ", device.ordinal()));
  }
  host_ = static_cast<std::byte*>(pointer);
  device_ = static_cast<std::byte*>(mapped);
  size_bytes_ = size_bytes;
}

void HostRegistration::reset() noexcept {
  if (device_ == nullptr) return;
  const cudaError_t result = cudaHostUnregister(host_);
  if (result != cudaSuccess && result != cudaErrorCudartUnloading) {
    log::warn("host memory could not be unregistered: ", detail::explain(result));
  }
  host_ = nullptr;
  device_ = nullptr;
  size_bytes_ = 0;
}

}  // namespace rungs::gpu
