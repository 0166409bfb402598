#include "arena.hpp"

#include <rungs/core/error.hpp>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

// AddressSanitizer's interface, there only in builds that have it.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): its names
extern "C" {
__attribute__((weak)) void __asan_poison_memory_region(const volatile void*, std::size_t);
__attribute__((weak)) void __asan_unpoison_memory_region(const volatile void*, std::size_t);
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

namespace rungs::gpu::detail {
namespace {

constexpr std::size_t kAlignment = 256;  // as cudaMalloc
// Pages of larger freed ranges go back to the system; below, refilling costs less than faulting
// again.
constexpr std::size_t kReturnedBytes = std::size_t{4} << 20;

bool has_red_zones() { return &__asan_poison_memory_region != nullptr; }
std::size_t red_zone_bytes() { return has_red_zones() ? kAlignment : 0; }

void poison(const void* begin, std::size_t size_bytes) {
  if (has_red_zones()) __asan_poison_memory_region(begin, size_bytes);
}
void unpoison(const void* begin, std::size_t size_bytes) {
  if (has_red_zones()) __asan_unpoison_memory_region(begin, size_bytes);
}

}  // namespace

Arena::Arena(std::string device_name, std::size_t size_bytes)
    : device_name_(std::move(device_name)),
      size_bytes_(size_bytes),
      ranges_(size_bytes, kAlignment) {
  descriptor_ = memfd_create("rungs-device-memory", MFD_CLOEXEC);
  if (descriptor_ < 0) {
    RUNGS_THROW(kSystem, device_name_, ": memfd_create failed: ", std::strerror(errno));
  }
  void* mapped = MAP_FAILED;
  if (ftruncate(descriptor_, static_cast<off_t>(size_bytes)) == 0) {
    mapped = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                  descriptor_, 0);
  }
  if (mapped == MAP_FAILED) {
    const int reason = errno;
    close(descriptor_);
    RUNGS_THROW(kSystem, device_name_, ": ", size_bytes >> 20,
                " MiB cannot be mapped: ", std::strerror(reason),
                "; set RUNGS_EMULATED_MEMORY_MIB lower");
  }
  base_ = static_cast<std::byte*>(mapped);
}

Arena::~Arena() {
  unpoison(base_, size_bytes_);
  munmap(base_, size_bytes_);
  close(descriptor_);
}

void* Arena::allocate(std::size_t size_bytes, bool exportable) {
  const std::lock_guard lock(mutex_);
  const std::size_t around = 2 * red_zone_bytes();
  const auto range =
      size_bytes <= size_bytes_ ? ranges_.allocate(size_bytes + around) : std::nullopt;
  if (!range) {
    RUNGS_THROW(kCuda, device_name_, ": out of memory: ", size_bytes, " bytes asked for, ",
                ranges_.largest_free(), " is the largest free range, ", ranges_.used(), " of ",
                size_bytes_, " are in use; free buffers or set RUNGS_EMULATED_MEMORY_MIB higher");
  }
  allocations_[range->offset] = {size_bytes, exportable};
  std::byte* begin = base_ + range->offset;
  std::byte* user = begin + red_zone_bytes();
  unpoison(begin, range->size);
  std::memset(user, 0xff, size_bytes);
  poison(begin, red_zone_bytes());
  poison(user + size_bytes, static_cast<std::size_t>(begin + range->size - (user + size_bytes)));
  return user;
}

bool Arena::release(void* pointer) noexcept {
  const std::lock_guard lock(mutex_);
  if (!contains(pointer)) return false;
  const auto range = ranges_.release(offset_of(pointer) - red_zone_bytes());
  if (!range) return false;
  allocations_.erase(range->offset);
  if (range->size >= kReturnedBytes) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t first = (range->offset + page - 1) / page * page;
    const std::size_t last = (range->offset + range->size) / page * page;
    // Failing only keeps the pages: they are filled again before anyone reads them.
    (void)fallocate(descriptor_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                    static_cast<off_t>(first), static_cast<off_t>(last - first));
  }
  poison(base_ + range->offset, range->size);
  return true;
}

bool Arena::contains(const void* pointer) const noexcept {
  return pointer >= base_ && pointer < base_ + size_bytes_;
}

std::size_t Arena::offset_of(const void* pointer) const noexcept {
  return static_cast<std::size_t>(static_cast<const std::byte*>(pointer) - base_);
}

std::size_t Arena::exported_end(const void* pointer) const {
  const std::lock_guard lock(mutex_);
  const auto range = contains(pointer) ? ranges_.find(offset_of(pointer)) : std::nullopt;
  RUNGS_REQUIRE(range.has_value(), "export_memory: ", pointer, " is not memory of ", device_name_);
  const Allocation& allocation = allocations_.at(range->offset);
  RUNGS_REQUIRE(allocation.exportable, "export_memory: the buffer around ", pointer,
                " was not made in Space::kShared");
  const std::size_t end = range->offset + red_zone_bytes() + allocation.size_bytes;
  RUNGS_REQUIRE(offset_of(pointer) >= range->offset + red_zone_bytes() && offset_of(pointer) < end,
                "export_memory: ", pointer, " is not inside a buffer");
  return end;
}

}  // namespace rungs::gpu::detail
