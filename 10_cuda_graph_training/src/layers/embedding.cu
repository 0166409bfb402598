// Embedding and its VJP.
//
// What:   a gather; its VJP is a scatter-add over tokens that repeat.
// New:    the scatter without atomics: the owner of a table row looks for its token, so every sum
//         runs in the order of the tokens and has the same bits on every run.
// Cost:   forward 12·rows·width bytes; VJP 4·rows·width twice, and kVocabulary·rows comparisons:
//         cheap for the few hundred rows of a step here, a sort by token is the next rung for more.

#include "layers/embedding.hpp"

#include <rungs/gpu/lanes_device.hpp>

namespace rungs::training::layers {
namespace {

RUNGS_KERNEL(gpu::kRowThreads) embedding_forward_kernel(EmbeddingForward a) {
  for (int row = gpu::first_index(); row < a.rows; row += gpu::index_step()) {
    const float* token = a.token_table + static_cast<std::int64_t>(a.tokens[row]) * a.width;
    const float* position = a.position_table + static_cast<std::int64_t>(row % a.context) * a.width;
    float* x = a.x + static_cast<std::int64_t>(row) * a.width;
    for (int c = 0; c < a.width; ++c) x[c] = token[c] + position[c];
  }
}

// Work item i < kVocabulary is a row of the token table, the others are rows of the position table.
RUNGS_KERNEL(gpu::kRowThreads) embedding_vjp_kernel(EmbeddingVjp a) {
  for (int item = gpu::first_index(); item < kVocabulary + a.context; item += gpu::index_step()) {
    const bool is_token = item < kVocabulary;
    const int position = item - kVocabulary;
    float* out = is_token ? a.d_token_table + static_cast<std::int64_t>(item) * a.width
                          : a.d_position_table + static_cast<std::int64_t>(position) * a.width;
    for (int c = 0; c < a.width; ++c) out[c] = 0.0f;
    const int start = is_token ? 0 : position;
    const int step = is_token ? 1 : a.context;
    for (int row = start; row < a.rows; row += step) {
      if (is_token && a.tokens[row] != item) continue;
      const float* dx = a.dx + static_cast<std::int64_t>(row) * a.width;
      for (int c = 0; c < a.width; ++c) out[c] += dx[c];
    }
  }
}

}  // namespace

void embedding_forward(const EmbeddingForward& args, const gpu::Queue& queue) {
  gpu::launch("embedding_forward", gpu::row_grid(queue, args.rows), queue.stream,
              embedding_forward_kernel, args);
}

void embedding_vjp(const EmbeddingVjp& args, const gpu::Queue& queue) {
  gpu::launch("embedding_vjp", gpu::row_grid(queue, kVocabulary + args.context), queue.stream,
              embedding_vjp_kernel, args);
}

}  // namespace rungs::training::layers
