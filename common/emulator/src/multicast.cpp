#include <rungs/emulator/multicast.hpp>

#include <rungs/core/error.hpp>
#include <rungs/emulator/model_atomic.hpp>

#include "report.hpp"
#include "sanitizer.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <vector>

namespace rungs::emulator {
namespace {

struct Range {
  std::size_t size_bytes = 0;
  std::vector<std::byte*> places;
};

struct Registry {
  std::shared_mutex mutex;
  std::map<const std::byte*, Range> ranges;  // by first address
};

// Kernels may be running when static objects are destroyed.
Registry& registry() {
  static auto* const all = new Registry;
  return *all;
}

}  // namespace

void* create_multicast(std::size_t size_bytes, int devices) {
  void* range =
      mmap(nullptr, size_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) {
    RUNGS_THROW(kSystem, "multicast object of ", size_bytes,
                " bytes: no addresses: ", std::strerror(errno));
  }
  const std::unique_lock lock(registry().mutex);
  registry().ranges[static_cast<std::byte*>(range)] = {
      size_bytes, std::vector<std::byte*>(static_cast<std::size_t>(devices), nullptr)};
  return range;
}

void bind_multicast(void* range, int index, void* memory) {
  const std::unique_lock lock(registry().mutex);
  registry().ranges.at(static_cast<std::byte*>(range)).places.at(static_cast<std::size_t>(index)) =
      static_cast<std::byte*>(memory);
}

void destroy_multicast(void* range) {
  std::size_t size_bytes = 0;
  {
    const std::unique_lock lock(registry().mutex);
    const auto found = registry().ranges.find(static_cast<std::byte*>(range));
    size_bytes = found->second.size_bytes;
    registry().ranges.erase(found);
  }
  munmap(range, size_bytes);
}

namespace model {

MulticastTarget multicast_target(const void* address, std::uint32_t size_bytes,
                                 const char* instruction, Location where) {
  check_aligned(address, size_bytes, instruction, where);
  const sanitizer::Mute mute;
  const auto* at = static_cast<const std::byte*>(address);
  MulticastTarget target{};
  std::size_t missing = 0;
  bool inside = false;
  {
    const std::shared_lock lock(registry().mutex);
    auto found = registry().ranges.upper_bound(at);
    if (found != registry().ranges.begin()) {
      const auto& [first, range] = *--found;
      const auto offset = static_cast<std::size_t>(at - first);
      inside = offset + size_bytes <= range.size_bytes;
      for (std::byte* place : range.places) {
        if (place == nullptr) missing++;
        if (inside && place != nullptr) target.places[target.count++] = place + offset;
      }
    }
  }
  if (!inside) {
    fail(where, "an address from gpu::Multicast::data(), inside the object",
         "%s: address %p is in no multicast object", instruction, address);
  }
  if (missing > 0) {
    fail(where, "gpu::Multicast::bind() for every device, before the first kernel",
         "%s: address %p: %zu of %zu devices have no memory bound", instruction, address, missing,
         missing + static_cast<std::size_t>(target.count));
  }
  return target;
}

}  // namespace model
}  // namespace rungs::emulator
