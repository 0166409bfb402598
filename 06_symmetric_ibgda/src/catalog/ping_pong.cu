// Two ranks throw messages to and fro without their hosts.
//
// New: all rungs run this kernel. How a put travels, by a proxy thread, by stores into mapped
// memory or by a queue that the kernel feeds, was decided when the context was made.
//
//     flag      writer                        reader      resets
//     arrived   the other rank's put_signal   this rank   nobody: counts on over all launches
//
// Cost: 2 dependent messages a round trip.
//
// Source: the ping-pong benches of NVSHMEM (perftest/device/pt-to-pt).

#include "catalog/ping_pong.hpp"

#include <rungs/gpu/launch.hpp>
#include <rungs/symmetric/put_device.hpp>

namespace rungs::symmetric {
namespace {

constexpr unsigned kThreads = RUNGS_GPU_CUDA ? 512 : 64;

RUNGS_KERNEL(kThreads, 1)
ping_pong_kernel(const DeviceContext* context, PingPong side) {
  const DeviceContext& c = *context;
  const int other = 1 - c.rank;
  for (std::size_t i = 0; i < side.round_trips; ++i) {
    std::uint8_t* const window = side.windows + i * side.size_bytes;
    const std::uint64_t count = side.before + i + 1;
    // 1. Rank 0 throws.
    if (c.rank == 0) {
      put_signal(c, other, window, side.messages + i * side.size_bytes, side.size_bytes,
                 side.arrived, count);
    }
    // 2. Each waits for its turn. Who gave up has said so; the host asks.
    if (!wait_signal(c, side.arrived, count, other)) return;
    // 3. Rank 1 throws what it caught back.
    if (c.rank == 1) put_signal(c, other, window, window, side.size_bytes, side.arrived, count);
  }
}

}  // namespace

void launch_ping_pong(const DeviceContext* context, const PingPong& side,
                      gpu::StreamHandle stream) {
  gpu::launch("symmetric ping-pong", {.grid = {1}, .block = {kThreads}}, stream, ping_pong_kernel,
              context, side);
}

}  // namespace rungs::symmetric
