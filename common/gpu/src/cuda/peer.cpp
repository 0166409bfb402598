#include <rungs/gpu/peer.hpp>

#include "api.hpp"
#include "checks.hpp"
#include "shared_memory.hpp"

#include <rungs/core/log.hpp>

#include <cstdint>

namespace rungs::gpu {

ExportedMemory export_memory(const Device& device, const void* pointer) {
  const detail::SharedRange range = detail::find_shared(device.ordinal(), pointer);
  int fd = -1;
  detail::check(detail::driver().mem_export_to_shareable_handle(
                    &fd, range.handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
                "cuMemExportToShareableHandle");
  return {fd, range.size_bytes, reinterpret_cast<CUdeviceptr>(pointer) - range.base};
}

PeerMapping::PeerMapping(const Device& device, const ExportedMemory& memory) {
  detail::check_exported(memory);
  const detail::DeviceGuard guard(device.ordinal());
  void* const descriptor = reinterpret_cast<void*>(static_cast<std::uintptr_t>(memory.fd));
  const CUresult result = detail::driver().mem_import_from_shareable_handle(
      &handle_, descriptor, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  RUNGS_REQUIRE(result != CUDA_ERROR_INVALID_VALUE, "peer mapping: descriptor ", memory.fd,
                " is not one that export_memory() gave");
  detail::check(result, "cuMemImportFromShareableHandle");
  try {
    base_ =
        reinterpret_cast<void*>(detail::map_shared(handle_, memory.size_bytes, device.ordinal()));
  } catch (...) {
    (void)detail::driver().mem_release(handle_);
    throw;
  }
  mapped_bytes_ = memory.size_bytes;
  offset_bytes_ = memory.offset_bytes;
}

PeerMapping::~PeerMapping() {
  if (base_ == nullptr) return;
  detail::unmap_shared(reinterpret_cast<CUdeviceptr>(base_), mapped_bytes_);
  if (const CUresult result = detail::driver().mem_release(handle_); result != CUDA_SUCCESS) {
    log::warn("cuMemRelease: CUresult ", static_cast<int>(result));
  }
}

}  // namespace rungs::gpu
