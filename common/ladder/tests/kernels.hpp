#pragma once
/// Kernels of the ladder's tests.

#include <rungs/gpu/device.hpp>

namespace rungs::ladder::test {

/// Launches a kernel whose first thread waits for a barrier phase that nobody completes.
void launch_hang(gpu::StreamHandle stream);

}  // namespace rungs::ladder::test
