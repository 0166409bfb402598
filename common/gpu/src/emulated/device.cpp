#include <rungs/gpu/device.hpp>

#include "capture.hpp"
#include "checks.hpp"
#include "device_state.hpp"
#include "settings.hpp"

#include <rungs/core/error.hpp>
#include <rungs/gpu/counters.hpp>

namespace rungs::gpu {

int Device::count() { return detail::emulated_devices(); }

Device Device::open(int ordinal) {
  detail::DeviceState::get(ordinal);
  return Device(ordinal);
}

Device Device::current() { return Device(detail::DeviceState::current().info().ordinal); }

const DeviceInfo& Device::info() const { return detail::DeviceState::get(ordinal_).info(); }

void Device::make_current() const { detail::DeviceState::make_current(ordinal_); }

void Device::synchronize(const Deadline& deadline) const {
  if (auto* capture = detail::Capture::of_this_thread()) {
    capture->refuse(detail::refused_in_capture("Device::synchronize"));
  }
  detail::DeviceState::get(ordinal_).synchronize(deadline);
}

// All emulated devices of a process share its address space.
bool Device::can_access_peer(const Device& other) const { return ordinal_ != other.ordinal_; }

void Device::enable_peer_access(const Device& other) const {
  RUNGS_REQUIRE(can_access_peer(other), "device ", ordinal_, " is no peer of itself");
}

Counters counters(const Device& device) {
  const emulator::Counters counted =
      detail::DeviceState::get(device.ordinal()).executor().counters();
  return {counted.launches, counted.async_bytes, counted.mma_flops, counted.barriers};
}

namespace detail {

void reset_error_for_tests(const Device& device) {
  DeviceState::get(device.ordinal()).reset_error();
}

}  // namespace detail
}  // namespace rungs::gpu
