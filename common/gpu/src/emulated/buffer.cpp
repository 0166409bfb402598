#include <rungs/gpu/buffer.hpp>

#include "capture.hpp"
#include "checks.hpp"
#include "device_state.hpp"
#include "stream_state.hpp"

#include <rungs/core/error.hpp>

#include <cstdlib>
#include <cstring>

namespace rungs::gpu {
namespace detail {

void* allocate(const Device& device, std::size_t size_bytes, Space space) {
  if (Capture* capture = Capture::of_this_thread()) {
    capture->refuse(refused_in_capture(concat("allocation of ", size_bytes, " bytes")));
  }
  DeviceState& state = DeviceState::get(device.ordinal());
  switch (space) {
    case Space::kDevice:
    case Space::kShared: {
      void* memory = state.arena().allocate(size_bytes, space == Space::kShared);
      forget_released(memory, size_bytes);
      return memory;
    }
    case Space::kHostMapped:
      break;
    default:
      RUNGS_THROW(kInvalidArgument, "allocation in space ", static_cast<int>(space),
                  ": no such space");
  }
  constexpr std::size_t kAlignment = 256;
  const std::size_t rounded = (size_bytes + kAlignment - 1) / kAlignment * kAlignment;
  void* memory = rounded >= size_bytes ? std::aligned_alloc(kAlignment, rounded) : nullptr;
  if (memory == nullptr) {
    RUNGS_THROW(kCuda, "out of host memory: ", size_bytes, " bytes asked for, mapped to device ",
                device.ordinal());
  }
  std::memset(memory, 0xff, size_bytes);
  return memory;
}

void release(void* pointer, Space space) noexcept {
  if (space == Space::kHostMapped) {
    std::free(pointer);
  } else if (DeviceState* owner = DeviceState::owner_of(pointer)) {
    // Memory without an owner is the parent's, seen by its fork()ed child.
    owner->arena().release(pointer);
  }
}

}  // namespace detail

void copy_async(void* to, const void* from, std::size_t size_bytes, StreamHandle stream) {
  detail::check_copy(to, from, size_bytes);
  detail::StreamState& queue = detail::StreamState::from(stream);
  if (size_bytes == 0) return;
  detail::note_use(queue, from, size_bytes, "copy");
  detail::note_use(queue, to, size_bytes, "copy");
  queue.add({queue.device(), detail::CopyOperation{to, from, size_bytes}});
}

void fill_async(void* to, int value, std::size_t size_bytes, StreamHandle stream) {
  detail::check_fill(to, size_bytes);
  detail::StreamState& queue = detail::StreamState::from(stream);
  if (size_bytes == 0) return;
  detail::note_use(queue, to, size_bytes, "fill");
  queue.add({queue.device(), detail::FillOperation{to, value, size_bytes}});
}

}  // namespace rungs::gpu
