#pragma once
/// @file counters.hpp
/// What the kernels of a device did, counted: what an emulated rung is judged by, since its wall
/// time says nothing about a GPU.

#include <rungs/gpu/device.hpp>

#include <cstdint>
#include <optional>

namespace rungs::gpu {

/// Totals since the process began. Take them after synchronising and subtract two readings. A real
/// GPU counts only launches: the other members are then empty.
struct Counters {
  std::uint64_t launches = 0;                ///< kernels, those in replayed graphs included
  std::optional<std::uint64_t> async_bytes;  ///< moved by TMA
  std::optional<std::uint64_t> mma_flops;    ///< of matrix instructions, a multiply and an add each
  std::optional<std::uint64_t> barriers;     ///< block, named and cluster barriers, mbarrier phases
};

/// What was counted between two readings of one device.
Counters operator-(const Counters& after, const Counters& before);

/// The totals of `device`.
Counters counters(const Device& device);

}  // namespace rungs::gpu
