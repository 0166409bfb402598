#pragma once
// Cross-entropy of the next byte, and its VJP in the same pass.

#include <rungs/core/dtype.hpp>

#include <cstdint>

#include <rungs/gpu/queue.hpp>

namespace rungs::training::layers {

struct CrossEntropy {
  const float* logits;          // [rows, classes]
  const std::int32_t* targets;  // [rows]
  float* loss;                  // [rows] nats
  bf16* d_logits;  // [rows, classes] of the mean over `mean_rows`, or null: only the loss
  int rows;
  int mean_rows;  // rows of all ranks
  int classes;    // a multiple of gpu::kLanes
};

void cross_entropy(const CrossEntropy& args, const gpu::Queue& queue);

}  // namespace rungs::training::layers
