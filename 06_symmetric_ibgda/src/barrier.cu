// A barrier of all ranks' streams: one block that says where this rank is and waits for the others.
//
// Cost: n - 1 signals out, n - 1 waits; one network trip or one store across NVLink.

#include "barrier.hpp"

#include <rungs/gpu/launch.hpp>
#include <rungs/symmetric/put_device.hpp>

namespace rungs::symmetric::detail {
namespace {

constexpr unsigned kThreads = 32;

RUNGS_KERNEL(kThreads, 1)
barrier_kernel(const DeviceContext* context, bool for_real) {
  if (for_real) barrier(*context);
}

}  // namespace

void enqueue_barrier(const DeviceContext* context, bool for_real, gpu::StreamHandle stream) {
  gpu::launch("symmetric barrier", {.grid = {1}, .block = {kThreads}}, stream, barrier_kernel,
              context, for_real);
}

}  // namespace rungs::symmetric::detail
