#pragma once
/// @file agreement.hpp
/// What ranks must agree on before they may use each other's memory.

#include <rungs/bootstrap/group.hpp>
#include <rungs/collectives/communicator.hpp>
#include <rungs/gpu/device.hpp>

#include "detail/layout.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace rungs::collectives::detail {

/// A rank's options with every default filled in.
struct Settings {
  int channels = 0;
  std::vector<std::vector<int>> rings;  ///< [channels][size]
  Layout::SlotBytes slot_bytes{};
  std::uint64_t timeout_ns = 0;
};

/// @throws Error kInvalidArgument naming the option, its value and what is allowed
Settings settle(const CommunicatorOptions& options, int size, KernelTable table);

/// What a rank learns of the others.
struct Agreement {
  Surroundings surroundings;
  std::vector<int> ordinals;  ///< each rank's device in its process
};

/// Collective. @throws Error kInvalidArgument, on every rank, naming the first two ranks that
///         differ, in what, and both values
Agreement agree(bootstrap::Group& group, const Settings& mine, KernelTable table,
                const gpu::Device& device);

}  // namespace rungs::collectives::detail
