#pragma once
/// @file kernel_table.hpp
/// Stage 04's kernels and the same ring over LL, with the tuner that picks between them by size.

#include <rungs/collectives/kernel_table.hpp>

#include <memory>
#include <span>
#include <string_view>

namespace rungs::protocols {

/// 04's entries first, then ring over LL: f32, bf16, i32 × sum, max, avg.
collectives::KernelTable kernel_table();

/// What the model says of kernels that a stage above brings.
struct KernelModel {
  std::string_view algorithm;  ///< static text, as is the name of the protocol
  collectives::ProtocolId protocol;
  /// Microseconds of a call. The same on every rank: it asks nothing but the question.
  double (*time_us)(const collectives::Question&, int channels);
};

/// Picks by a cost model: latency + bytes / bandwidth of each legal entry (stage 05's chapter).
/// RUNGS_PROTO=Simple|LL and RUNGS_ALGO=root|ring, or those of `above`, force one, for each
/// collective that the table has it for.
/// @throws Error kInvalidArgument for a bad value of either
std::shared_ptr<const collectives::Tuner> tuner(std::span<const KernelModel> above = {});

}  // namespace rungs::protocols
