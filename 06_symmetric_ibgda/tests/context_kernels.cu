#include "context_kernels.hpp"

#include <rungs/gpu/launch.hpp>
#include <rungs/symmetric/put_device.hpp>

namespace rungs::symmetric {
namespace {

constexpr unsigned kThreads = 64;

RUNGS_DEVICE void come_late(std::uint64_t nanoseconds) {
  if (nanoseconds == 0 || threadIdx.x == 0) return;
  const std::uint64_t end = ptx::globaltimer_ns() + nanoseconds;
  while (ptx::globaltimer_ns() < end) ptx::nanosleep(1000);
}

RUNGS_DEVICE bool make(const DeviceContext& c, const Step& s) {
  switch (s.call) {
    case Call::kPut:
      put(c, s.peer, s.mine, s.other, s.bytes);
      return true;
    case Call::kPutSignal:
      put_signal(c, s.peer, s.mine, s.other, s.bytes, s.signal, s.value);
      return true;
    case Call::kSet:
      signal_set(c, s.peer, s.signal, s.value);
      return true;
    case Call::kAdd:
      signal_add(c, s.peer, s.signal, s.value);
      return true;
    case Call::kGet:
      return get(c, s.peer, s.other, s.mine, s.bytes);
    case Call::kWait:
      return wait_signal(c, s.signal, s.value, s.peer);
    case Call::kQuiet:
      return quiet(c, s.peer);
    case Call::kBarrier:
      return barrier(c);
    case Call::kFill:
      for (std::uint64_t i = blockDim.x - 1 - threadIdx.x; i < s.bytes; i += blockDim.x)
        static_cast<std::uint8_t*>(s.other)[i] = static_cast<std::uint8_t>(s.value + i);
      return true;
  }
  return false;
}

RUNGS_KERNEL(kThreads, 1)
script_kernel(const DeviceContext* context, const Step* steps, int count, std::uint32_t* gave_up) {
  for (int i = 0; i < count; ++i) {
    come_late(steps[i].late_ns);
    const bool well = make(*context, steps[i]);
    if (!well && threadIdx.x == 0) ++*gave_up;
  }
}

}  // namespace

void launch_script(const DeviceContext* context, const Step* steps, int count,
                   std::uint32_t* gave_up, gpu::StreamHandle stream) {
  gpu::launch("script of symmetric calls", {.grid = {1}, .block = {kThreads}}, stream,
              script_kernel, context, steps, count, gave_up);
}

}  // namespace rungs::symmetric
