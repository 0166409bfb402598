#include <rungs/gpu/host_registration.hpp>

#include "capture.hpp"
#include "checks.hpp"

#include <rungs/core/error.hpp>

#include <map>
#include <mutex>

namespace rungs::gpu {
namespace {

// Registered ranges of this process, as CUDA's driver knows them: begin, end.
struct Ranges {
  std::mutex mutex;
  std::map<std::byte*, std::byte*> all;
};

// Never destroyed: a registration may end while the process does.
Ranges& ranges() {
  static auto* const instance = new Ranges;
  return *instance;
}

}  // namespace

HostRegistration::HostRegistration(const Device& device, void* pointer, std::size_t size_bytes) {
  detail::check_host_range(pointer, size_bytes);
  (void)device.info();
  if (detail::Capture* capture = detail::Capture::of_this_thread()) {
    capture->refuse(detail::refused_in_capture(
        concat("registration of ", size_bytes, " bytes of host memory")));
  }
  auto* const begin = static_cast<std::byte*>(pointer);
  std::byte* const end = begin + size_bytes;
  Ranges& known = ranges();
  const std::lock_guard lock(known.mutex);
  const auto next = known.all.lower_bound(begin);
  const bool overlaps = (next != known.all.end() && next->first < end) ||
                        (next != known.all.begin() && std::prev(next)->second > begin);
  RUNGS_REQUIRE(!overlaps, detail::registered_already(size_bytes));
  known.all.emplace(begin, end);
  host_ = begin;
  device_ = begin;
  size_bytes_ = size_bytes;
}

void HostRegistration::reset() noexcept {
  if (device_ == nullptr) return;
  Ranges& known = ranges();
  const std::lock_guard lock(known.mutex);
  known.all.erase(host_);
  host_ = nullptr;
  device_ = nullptr;
  size_bytes_ = 0;
}

}  // namespace rungs::gpu
