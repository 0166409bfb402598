#include <rungs/gpu/stream.hpp>

#include "device_state.hpp"
#include "stream_state.hpp"

#include <utility>

namespace rungs::gpu {

Stream::Stream(const Device& device)
    : handle_(detail::DeviceState::get(device.ordinal()).add_stream()->handle()) {}

Stream::~Stream() {
  if (handle_ == nullptr) return;
  auto* stream = reinterpret_cast<detail::StreamState*>(handle_);
  // After fork() the parent's device cannot be asked; its states are left alone.
  if (stream->device().alive()) stream->close();
}

Stream::Stream(Stream&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}

Stream& Stream::operator=(Stream&& other) noexcept {
  std::swap(handle_, other.handle_);
  return *this;
}

void Stream::synchronize(const Deadline& deadline) const { gpu::synchronize(handle_, deadline); }

void synchronize(StreamHandle stream, const Deadline& deadline) {
  detail::StreamState& state = detail::StreamState::from(stream);
  state.drain(deadline);
  state.device().throw_if_failed("synchronize");
}

}  // namespace rungs::gpu
