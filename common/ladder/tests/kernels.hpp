#pragma once
/// Kernels of the ladder's tests.

#include <rungs/gpu/device.hpp>

namespace rungs::ladder::test {

/// Launches a kernel whose first thread waits for a barrier phase that nobody completes.
void launch_hang(gpu::StreamHandle stream);
/// Launches a kernel of one thread that sets *word to `value`.
void launch_set(gpu::StreamHandle stream, int* word, int value);

}  // namespace rungs::ladder::test
