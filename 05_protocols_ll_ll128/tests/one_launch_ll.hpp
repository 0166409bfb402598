#pragma once
/// @file one_launch_ll.hpp
/// The ring over LL for all ranks in one launch: a LaunchAll of 04's tests/one_launch.hpp.

#include <rungs/collectives/kernel_args.hpp>
#include <rungs/gpu/device.hpp>

namespace rungs::protocols {

void launch_ring_ll(const collectives::KernelArgs* ranks, unsigned count, unsigned channels,
                    gpu::StreamHandle stream);

}  // namespace rungs::protocols
