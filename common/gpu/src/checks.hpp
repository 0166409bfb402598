#pragma once
/// @file checks.hpp
/// What both back ends refuse, with the same words.

#include <rungs/gpu/device.hpp>
#include <rungs/gpu/launch.hpp>
#include <rungs/gpu/peer.hpp>
#include <rungs/gpu/tensor_map.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace rungs::gpu::detail {

/// @throws Error kInvalidArgument for a shape that no device takes, or that `info` does not
void check_launch(std::string_view name, const LaunchConfig& config, const DeviceInfo& info,
                  const void* kernel);

/// @throws Error kInvalidArgument for null pointers or overlap; sizes of 0 pass
void check_copy(const void* to, const void* from, std::size_t size_bytes);
void check_fill(const void* to, std::size_t size_bytes);

/// @throws Error kInvalidArgument for a descriptor, size or offset that cannot be right
void check_exported(const ExportedMemory& memory);

/// @throws Error kInvalidArgument unless it is whole pages of memory
void check_host_range(const void* pointer, std::size_t size_bytes);
/// What registering memory says that is registered.
std::string registered_already(std::size_t size_bytes);

/// What a call says that a capture does not allow.
std::string refused_in_capture(std::string_view call);

/// The back end's encoding of a checked description.
TensorMap encode_tensor_map(const TensorMapSpec& spec);

/// "4x2x1"
std::string to_string(const Dim3& extent);

}  // namespace rungs::gpu::detail
