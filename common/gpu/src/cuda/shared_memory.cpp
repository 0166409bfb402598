#include "shared_memory.hpp"

#include <rungs/core/log.hpp>

#include <map>
#include <mutex>
#include <set>
#include <utility>

namespace rungs::gpu::detail {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<CUdeviceptr, SharedRange> ranges;  // by base
  std::set<std::pair<int, int>> peers;        // who may use whose
};

Registry& registry() {
  static auto* all = new Registry;  // static buffers may outlive any destructor of ours
  return *all;
}

void warn(const char* call, CUresult result) noexcept {
  if (result != CUDA_SUCCESS && result != CUDA_ERROR_DEINITIALIZED) {
    log::warn(call, ": CUresult ", static_cast<int>(result));
  }
}

std::size_t granularity(const CUmemAllocationProp& properties) {
  std::size_t bytes = 0;
  check(driver().mem_get_allocation_granularity(&bytes, &properties,
                                                CU_MEM_ALLOC_GRANULARITY_MINIMUM),
        "cuMemGetAllocationGranularity");
  return bytes;
}

}  // namespace

CUmemAllocationProp shared_properties(int ordinal) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = ordinal;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return properties;
}

void set_shared_access(CUdeviceptr base, std::size_t size_bytes, int ordinal) {
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = ordinal;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  check(driver().mem_set_access(base, size_bytes, &access, 1),
        concat("cuMemSetAccess for device ", ordinal));
}

CUdeviceptr map_shared(CUmemGenericAllocationHandle handle, std::size_t size_bytes, int ordinal) {
  CUdeviceptr base = 0;
  check(driver().mem_address_reserve(&base, size_bytes, 0, 0, 0), "cuMemAddressReserve");
  const CUresult mapped = driver().mem_map(base, size_bytes, 0, handle, 0);
  if (mapped != CUDA_SUCCESS) {
    warn("cuMemAddressFree", driver().mem_address_free(base, size_bytes));
    check(mapped, "cuMemMap");
  }
  try {
    set_shared_access(base, size_bytes, ordinal);
  } catch (...) {
    unmap_shared(base, size_bytes);
    throw;
  }
  return base;
}

void unmap_shared(CUdeviceptr base, std::size_t size_bytes) noexcept {
  warn("cuMemUnmap", driver().mem_unmap(base, size_bytes));
  warn("cuMemAddressFree", driver().mem_address_free(base, size_bytes));
}

void* allocate_shared(int ordinal, std::size_t size_bytes) {
  const CUmemAllocationProp properties = shared_properties(ordinal);
  const std::size_t step = granularity(properties);
  SharedRange range;
  range.owner = ordinal;
  range.size_bytes = (size_bytes + step - 1) / step * step;
  const CUresult result = driver().mem_create(&range.handle, range.size_bytes, &properties, 0);
  if (range.size_bytes < size_bytes || result != CUDA_SUCCESS) {
    RUNGS_THROW(kCuda, "device ", ordinal, ": out of memory: ", size_bytes,
                " bytes of shareable memory asked for: ", explain(result));
  }
  const std::lock_guard lock(registry().mutex);
  try {
    range.base = map_shared(range.handle, range.size_bytes, ordinal);
    for (const auto& [user, owner] : registry().peers) {
      if (owner == ordinal) set_shared_access(range.base, range.size_bytes, user);
    }
    registry().ranges.emplace(range.base, range);
  } catch (...) {
    if (range.base != 0) unmap_shared(range.base, range.size_bytes);
    warn("cuMemRelease", driver().mem_release(range.handle));
    throw;
  }
  return reinterpret_cast<void*>(range.base);
}

void release_shared(void* pointer) noexcept {
  const std::lock_guard lock(registry().mutex);
  const auto found = registry().ranges.find(reinterpret_cast<CUdeviceptr>(pointer));
  if (found == registry().ranges.end()) return;
  const SharedRange range = found->second;
  registry().ranges.erase(found);
  unmap_shared(range.base, range.size_bytes);
  warn("cuMemRelease", driver().mem_release(range.handle));
}

void enable_shared_access(int ordinal, int owner) {
  const std::lock_guard lock(registry().mutex);
  if (!registry().peers.emplace(ordinal, owner).second) return;
  for (const auto& [base, range] : registry().ranges) {
    if (range.owner == owner) set_shared_access(base, range.size_bytes, ordinal);
  }
}

SharedRange find_shared(int ordinal, const void* pointer) {
  const auto address = reinterpret_cast<CUdeviceptr>(pointer);
  const std::lock_guard lock(registry().mutex);
  auto after = registry().ranges.upper_bound(address);
  if (after != registry().ranges.begin()) {
    const SharedRange& range = std::prev(after)->second;
    if (address < range.base + range.size_bytes && range.owner == ordinal) return range;
  }
  RUNGS_THROW(kInvalidArgument, "export_memory: ", pointer,
              " is not in a buffer that was made in Space::kShared on device ", ordinal);
}

}  // namespace rungs::gpu::detail
