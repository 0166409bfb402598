#include <rungs/gpu/launch.hpp>

#include "checks.hpp"
#include "device_state.hpp"
#include "stream_state.hpp"

#include <memory>
#include <string>
#include <utility>

namespace rungs::gpu {

void launch_raw(std::string_view name, const LaunchConfig& config, StreamHandle stream,
                const void* kernel, Invoke invoke, const KernelArgs& args) {
  detail::StreamState& queue = detail::StreamState::from(stream);
  detail::DeviceState& device = queue.device();
  detail::check_launch(name, config, device.info(), kernel);
  auto request = std::make_shared<emulator::LaunchRequest>(emulator::LaunchRequest{
      std::string(name), config, kernel, invoke, emulator::ParameterBlock(args)});
  device.executor().check(*request);
  if (queue.capture() == nullptr) detail::note_uses(queue, args, name);
  queue.add({device, detail::KernelOperation{std::move(request)}});
}

}  // namespace rungs::gpu
