#pragma once
/// @file barrier.hpp
/// Context::barrier()'s kernel.

#include <rungs/gpu/device.hpp>
#include <rungs/symmetric/context_args.hpp>

namespace rungs::symmetric::detail {

/// @param for_real false: does nothing, but loads the kernel
void enqueue_barrier(const DeviceContext* context, bool for_real, gpu::StreamHandle stream);

}  // namespace rungs::symmetric::detail
