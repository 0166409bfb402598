#pragma once
/// @file one_launch_symmetric.hpp
/// This stage's device code for all ranks in one launch (04's tests/one_launch_device.hpp says
/// why).

#include "context_kernels.hpp"

#include <rungs/collectives/kernel_args.hpp>

namespace rungs::symmetric {

/// One rank's script, as for launch_script().
struct RankScript {
  const DeviceContext* context = nullptr;
  const Step* steps = nullptr;
  std::int32_t count = 0;
  std::uint32_t* gave_up = nullptr;
};
/// @param ranks [count] device
void launch_scripts(const RankScript* ranks, unsigned count, gpu::StreamHandle stream);

/// The one-shot all-reduce of float: a LaunchAll of 04's tests/one_launch.hpp.
void launch_one_shot(const collectives::KernelArgs* ranks, unsigned count, unsigned channels,
                     gpu::StreamHandle stream);

}  // namespace rungs::symmetric
