#pragma once
/// @file kernel_table.hpp
/// Stage 04's kernels and the same ring over LL, with the tuner that picks between them by size.

#include <rungs/collectives/kernel_table.hpp>

#include <memory>

namespace rungs::protocols {

/// 04's entries first, then ring over LL: f32, bf16, i32 × sum, max, avg.
collectives::KernelTable kernel_table();

/// Picks by a cost model: latency + bytes / bandwidth of each legal entry (stage 05's chapter).
/// RUNGS_PROTO=Simple|LL and RUNGS_ALGO=root|ring force one.
/// @throws Error kInvalidArgument for a bad value of either
std::shared_ptr<const collectives::Tuner> tuner();

}  // namespace rungs::protocols
