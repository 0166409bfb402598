#include <rungs/gpu/multicast.hpp>

#include "device_state.hpp"

#include <rungs/core/error.hpp>
#include <rungs/emulator/multicast.hpp>

#include <algorithm>
#include <utility>

namespace rungs::gpu {

Multicast::Multicast(std::vector<Device> devices, std::size_t size_bytes)
    : devices_(std::move(devices)),
      bound_(devices_.size(), false),
      size_bytes_(size_bytes) {
  RUNGS_REQUIRE(devices_.size() >= 2 && devices_.size() <= emulator::kMostMulticastDevices,
                "multicast object over ", devices_.size(), " devices; 2 to ",
                int{emulator::kMostMulticastDevices}, " are possible");
  for (std::size_t i = 0; i < devices_.size(); i++) {
    for (std::size_t j = 0; j < i; j++) {
      RUNGS_REQUIRE(devices_[i].ordinal() != devices_[j].ordinal(), "multicast object: device ",
                    devices_[i].ordinal(), " twice");
    }
  }
  RUNGS_REQUIRE(size_bytes > 0 && size_bytes % 16 == 0, "multicast object of ", size_bytes,
                " bytes; a positive multiple of 16 is possible");
  range_ = emulator::create_multicast(size_bytes, static_cast<int>(devices_.size()));
}

Multicast::~Multicast() { emulator::destroy_multicast(range_); }

void Multicast::bind(const Device& device, void* memory) {
  const auto found = std::find_if(devices_.begin(), devices_.end(), [&](const Device& other) {
    return other.ordinal() == device.ordinal();
  });
  RUNGS_REQUIRE(found != devices_.end(), "multicast bind: device ", device.ordinal(),
                " is not one of the object's");
  const auto index = static_cast<std::size_t>(found - devices_.begin());
  RUNGS_REQUIRE(!bound_[index], "multicast bind: device ", device.ordinal(),
                " has memory bound already");
  const detail::Arena& arena = detail::DeviceState::get(device.ordinal()).arena();
  RUNGS_REQUIRE(arena.contains(memory), "multicast bind: ", memory, " is not memory of device ",
                device.ordinal());
  const std::size_t room = arena.exported_end(memory) - arena.offset_of(memory);
  RUNGS_REQUIRE(room >= size_bytes_, "multicast bind: ", room, " bytes from ", memory,
                " to the buffer's end, the object has ", size_bytes_);
  emulator::bind_multicast(range_, static_cast<int>(index), memory);
  bound_[index] = true;
}

}  // namespace rungs::gpu
