#pragma once
/// @file streams.hpp
/// The streams that rungs made and their devices: so that Device::synchronize() can watch them
/// against a deadline, and because CUDA does not tell a stream's device while it is captured.

#include "api.hpp"

#include <optional>

namespace rungs::gpu::detail {

void add_stream(int ordinal, cudaStream_t stream);
void remove_stream(cudaStream_t stream) noexcept;
/// The device of a stream that rungs made; nothing for a caller's own.
std::optional<int> find_stream(cudaStream_t stream);
/// cudaErrorNotReady while one of the device's streams has work; streams being captured are left
/// out, since asking would spoil the capture.
cudaError_t query_streams(int ordinal);

}  // namespace rungs::gpu::detail
