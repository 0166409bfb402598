#pragma once
// The experts' end of the layer: two GEMMs with a GELU between, for each expert of this rank, and
// their VJP. How many rows each has is known to the device alone.

#include <rungs/gemm/linear.hpp>
#include <rungs/gpu/queue.hpp>

#include <cstdint>
#include <vector>

namespace rungs::moe {

/// Blocks are [experts, capacity, ·]. Rows from the count up to the next multiple of kPadRows must
/// be zero in `rows` and `d_outputs`.
struct ExpertsArgs {
  int experts;                // of this rank
  int capacity;               // rows of a block, a multiple of kPadRows
  int width;                  // a multiple of gpu::kLanes
  int hidden;                 // a multiple of gpu::kLanes
  const std::int32_t* count;  // device, [experts] rows in use
  const bf16* up;             // [experts, hidden, width]
  const bf16* down;           // [experts, width, hidden]
  const bf16* rows;           // [experts, capacity, width]
  bf16* before_gelu;          // [experts, capacity, hidden] kept for the VJP
  bf16* after_gelu;           // [experts, capacity, hidden] kept for the VJP
  float* outputs;             // [experts, capacity, width] result
  // VJP.
  const bf16* d_outputs;  // [experts, capacity, width]
  bf16* d_hidden;         // [experts, capacity, hidden] workspace: d after GELU, then d before GELU
  float* d_rows;          // [experts, capacity, width] result
  float* d_up;            // [experts, hidden, width] result
  float* d_down;          // [experts, width, hidden] result
};

class Experts {
 public:
  Experts(const ExpertsArgs& args, const gpu::Device& device);
  void forward(const gpu::Queue& queue) const;
  void vjp(const gpu::Queue& queue) const;

 private:
  ExpertsArgs args_;
  std::vector<gemm::Linear> up_;    // one an expert
  std::vector<gemm::Linear> down_;  // one an expert
};

}  // namespace rungs::moe
