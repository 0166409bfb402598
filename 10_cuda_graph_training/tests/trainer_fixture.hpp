#pragma once
// A model small enough for a test, and a text with something to learn.

#include <rungs/training/trainer.hpp>

#include <string>

#include "support.hpp"

namespace rungs::training {

inline ModelConfig tiny_model() {
  return {.layers = 2,
          .width = 64,
          .heads = 2,
          .experts = 4,
          .top_k = 2,
          .hidden = 64,
          .context = 16,
          .seed = 1};
}
inline TrainConfig tiny_training() {
  return {.batch = 3,
          .steps = 40,
          .warmup_steps = 4,
          .lr = 3e-3f,
          .weight_decay = 0.1f,
          .clip = 1.0f,
          .aux_weight = 0.01f,
          .data_seed = 1};
}
/// Words of a small vocabulary in random order.
inline Corpus small_corpus(std::uint64_t seed = 1) {
  static const char* const kWords[] = {"it ",          "is ",           "a ",    "truth ",
                                       "universally ", "acknowledged ", "that ", "man "};
  testing::Random random(seed);
  std::string text;
  while (text.size() < 4000) text += kWords[random.below(8)];
  Corpus corpus;
  corpus.name = "words";
  corpus.train.assign(text.begin(), text.begin() + 3600);
  corpus.held_out.assign(text.begin() + 3600, text.begin() + 4000);
  corpus.unigram_entropy = 3;
  corpus.bigram_entropy = 2;
  return corpus;
}
inline Trainer tiny_trainer() { return {tiny_model(), tiny_training(), small_corpus(), device()}; }

}  // namespace rungs::training
