#pragma once
/// @file streams.hpp
/// The streams that rungs made, by device, so that Device::synchronize() can watch them against a
/// deadline.

#include "api.hpp"

namespace rungs::gpu::detail {

void add_stream(int ordinal, cudaStream_t stream);
void remove_stream(int ordinal, cudaStream_t stream) noexcept;
/// cudaErrorNotReady while one of the device's streams has work; streams being captured are left
/// out, since asking would spoil the capture.
cudaError_t query_streams(int ordinal);

}  // namespace rungs::gpu::detail
