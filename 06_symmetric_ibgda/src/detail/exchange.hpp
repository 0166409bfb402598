#pragma once
/// @file exchange.hpp
/// The step of an all-reduce between nodes: what its kernel is given, and its launch.

#include <rungs/gpu/device.hpp>
#include <rungs/symmetric/context_args.hpp>

#include <cstddef>
#include <cstdint>

namespace rungs::symmetric::detail {

inline constexpr int kExchangeBlocks = RUNGS_GPU_CUDA ? 8 : 2;  // at most, of a launch

/// Between the ranks of one place of all nodes. Elements are floats; arrays in the heap are marked.
struct Exchange {
  const DeviceContext* context;
  std::uint64_t* epoch;    ///< device: exchanges that this object has done
  std::uint32_t* through;  ///< device: blocks of this launch that are done
  float* mine;             ///< heap [capacity]: this node's sums
  float* windows;          ///< heap [2][nodes][capacity]: the others' sums, by parity of the epoch
  std::uint64_t*
      signals;  ///< heap [kExchangeBlocks][nodes]: the epoch each block of each node sent
  const std::uint32_t* node_failed;  ///< host-mapped: not zero if the node's sums are none; or null
  std::size_t capacity;
  int node;
  int nodes;
  int peers[kMaxRanks];  ///< [nodes]: the ranks at this rank's place
};

/// What one call does: `mine` holds `part` sums of this place's part of the data, then `rest` sums
/// of its end, which belongs to all places.
struct ExchangeCall {
  std::size_t part;
  std::size_t rest;
  float* to_part;  ///< scale · sum over nodes goes there
  float* to_rest;
  float scale;
};

/// Enqueues it. Every peer must, with the same part and rest.
void exchange(const Exchange& exchange, const ExchangeCall& call, gpu::StreamHandle stream);
/// data[i] *= scale for i in [0, count).
void scale(float* data, std::size_t count, float factor, gpu::StreamHandle stream);

}  // namespace rungs::symmetric::detail
