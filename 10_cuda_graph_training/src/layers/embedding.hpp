#pragma once
// Token plus position embedding: x[n] = token_table[token[n]] + position_table[n mod context].

#include <cstdint>

#include <rungs/gpu/queue.hpp>

namespace rungs::training::layers {

inline constexpr int kVocabulary = 256;  // the byte values

struct EmbeddingForward {
  const std::int32_t* tokens;   // [rows] values 0 to kVocabulary - 1
  const float* token_table;     // [kVocabulary, width]
  const float* position_table;  // [context, width]
  float* x;                     // [rows, width]
  int rows;                     // a multiple of context
  int width;
  int context;
};

struct EmbeddingVjp {
  const std::int32_t* tokens;  // [rows]
  const float* dx;             // [rows, width]
  float* d_token_table;        // [kVocabulary, width], rows of absent tokens become 0
  float* d_position_table;     // [context, width]
  int rows;
  int width;
  int context;
};

void embedding_forward(const EmbeddingForward& args, const gpu::Queue& queue);
void embedding_vjp(const EmbeddingVjp& args, const gpu::Queue& queue);

}  // namespace rungs::training::layers
