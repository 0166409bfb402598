#include "context_kernels.hpp"
#include "one_launch_symmetric.hpp"

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

RUNGS_DEVICE void play(const RankScript& script) {
  for (int i = 0; i < script.count; ++i) {
    come_late(script.steps[i].late_ns);
    const bool well = make(*script.context, script.steps[i]);
    if (!well && threadIdx.x == 0) ++*script.gave_up;
  }
}

RUNGS_KERNEL(kThreads, 1)
script_kernel(RankScript script) { play(script); }

RUNGS_KERNEL(kThreads, 1)
scripts_of_all_ranks_kernel(const RankScript* ranks) { play(ranks[blockIdx.x]); }

}  // namespace

void launch_script(const DeviceContext* context, const Step* steps, int count,
                   std::uint32_t* gave_up, gpu::StreamHandle stream) {
  gpu::launch("script of symmetric calls", {.grid = {1}, .block = {kThreads}}, stream,
              script_kernel, RankScript{context, steps, count, gave_up});
}

// Blocks wait for each other, so all must be resident.
void launch_scripts(const RankScript* ranks, unsigned count, gpu::StreamHandle stream) {
  gpu::launch("scripts of all ranks", {.grid = {count}, .block = {kThreads}, .cooperative = true},
              stream, scripts_of_all_ranks_kernel, ranks);
}

}  // namespace rungs::symmetric
