#pragma once
// The text in device memory and the choice of a batch from it, without the host.

#include <cstdint>

#include <rungs/gpu/queue.hpp>
#include "optimizer/optimizer.hpp"

namespace rungs::training::data {

struct BatchArgs {
  const std::uint8_t* text;  // [text_bytes] device
  std::int64_t text_bytes;   // more than context
  // Its step chooses the windows. Null: windows by number, for evaluation.
  const optimizer::StepState* state;
  std::int32_t* tokens;   // [batch, context]
  std::int32_t* targets;  // [batch, context] the byte after each token
  std::uint64_t seed;     // of random windows
  int first_sequence;     // of the step's sequences, this many belong to ranks below
  // Evaluation: sequence b is the window first_window + b·stride; windows do not overlap.
  std::int64_t first_window;
  std::int64_t window_stride;
  std::int64_t windows;  // how many there are; numbers beyond wrap around
  int batch;             // of this rank
  int context;
};

void choose_batch(const BatchArgs& args, const gpu::Queue& queue);

}  // namespace rungs::training::data
