#pragma once
// Cross-entropy of the next byte, and its VJP in the same pass.

#include <rungs/core/dtype.hpp>

#include <cstdint>

#include "detail/queue.hpp"

namespace rungs::training::layers {

struct CrossEntropy {
  const float* logits;          // [rows, classes]
  const std::int32_t* targets;  // [rows]
  float* loss;                  // [rows] nats
  bf16* d_logits;               // [rows, classes] of the mean over rows, or null: only the loss
  int rows;
  int classes;  // a multiple of kLanes
};

void cross_entropy(const CrossEntropy& args, const Queue& queue);

}  // namespace rungs::training::layers
