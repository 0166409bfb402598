#pragma once
/// @file kernel_table.hpp
/// Stage 05's kernels and the one-shot all-reduce, with a tuner that knows when it wins.

#include <rungs/collectives/kernel_table.hpp>

#include <memory>

namespace rungs::symmetric {

/// 05's entries first, then all_reduce by "one_shot" over ProtocolId::kSymmetric: f32, bf16, i32 ×
/// sum, max, avg.
collectives::KernelTable kernel_table();

/// 05's tuner with the cost of one_shot. RUNGS_ALGO=one_shot, too, forces it (for all_reduce; other
/// collectives it does not have).
/// @throws Error kInvalidArgument for a bad value of RUNGS_ALGO or RUNGS_PROTO
std::shared_ptr<const collectives::Tuner> tuner();

}  // namespace rungs::symmetric
