#include "data/batch.hpp"

#include <gtest/gtest.h>

#include <set>

#include "detail/philox.hpp"
#include "support.hpp"

namespace rungs::training {
namespace {

// Known answers published with the reference implementation (Random123, kat_vectors, philox4x32
// 10).
TEST(PhiloxNumbers, KnownAnswers) {
  const auto words = [](const Philox& p) { return std::vector<std::uint32_t>(p.word, p.word + 4); };
  EXPECT_EQ(words(philox(0, 0, 0)),
            (std::vector<std::uint32_t>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const std::uint64_t ones = ~std::uint64_t{0};
  EXPECT_EQ(words(philox(ones, ones, ones)),
            (std::vector<std::uint32_t>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(words(philox(0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e)),
            (std::vector<std::uint32_t>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(PhiloxNumbers, BelowCoversTheRangeAndNoMore) {
  EXPECT_EQ(below(10, 0, 0), 0u);
  EXPECT_EQ(below(10, 0xffffffffu, 0xffffffffu), 9u);
  EXPECT_EQ(below(1, 0xffffffffu, 0xffffffffu), 0u);
  EXPECT_EQ(below(4294967295u, 0xffffffffu, 0xffffffffu), 4294967294u);
}

constexpr int kBatch = 70, kContext = 12;

struct Drawn {
  std::vector<std::int32_t> tokens, targets;
};

Drawn draw(std::size_t text_bytes, std::uint64_t step, std::uint64_t seed, int first = 0,
           int batch = kBatch) {
  std::vector<std::uint8_t> text;
  for (std::size_t i = 0; i < text_bytes; ++i) text.push_back(static_cast<std::uint8_t>(i));
  const auto text_device = on_device(text);
  optimizer::StepState state{};
  state.step = step;
  const auto state_device = on_device(std::vector<optimizer::StepState>{state});
  auto tokens = poisoned<std::int32_t>(kBatch * kContext),
       targets = poisoned<std::int32_t>(kBatch * kContext);
  data::choose_batch({.text = text_device.data(),
                      .text_bytes = static_cast<std::int64_t>(text_bytes),
                      .state = state_device.data(),
                      .tokens = tokens.data(),
                      .targets = targets.data(),
                      .seed = seed,
                      .first_sequence = first,
                      .first_window = 0,
                      .window_stride = 0,
                      .windows = 1,
                      .batch = batch,
                      .context = kContext},
                     queue());
  return {tokens.download(), targets.download()};
}

TEST(Batch, TargetsAreTheNextBytesAndAllStartsOccur) {
  std::set<std::int32_t> starts;
  for (std::uint64_t step = 0; step < 8; ++step) {
    const Drawn drawn = draw(32, step, 1);
    for (std::size_t b = 0; b < kBatch; ++b) {
      const std::int32_t start = drawn.tokens[b * kContext];
      starts.insert(start);
      for (std::size_t t = 0; t < kContext; ++t) {
        ASSERT_EQ(drawn.tokens[b * kContext + t], start + static_cast<std::int32_t>(t));
        ASSERT_EQ(drawn.targets[b * kContext + t], start + static_cast<std::int32_t>(t) + 1);
      }
    }
  }
  // 560 draws of 20 starts: the chance to miss one is 20·0.95^560 < 1e-11.
  EXPECT_EQ(starts.size(), 20u);
  EXPECT_EQ(*starts.begin(), 0);
  EXPECT_EQ(*starts.rbegin(), 19);  // its last target is byte 31
}

TEST(Batch, DependsOnStepAndSeedAlone) {
  EXPECT_EQ(draw(200, 3, 1).tokens, draw(200, 3, 1).tokens);
  EXPECT_NE(draw(200, 3, 1).tokens, draw(200, 4, 1).tokens);
  EXPECT_NE(draw(200, 3, 1).tokens, draw(200, 3, 2).tokens);
}

TEST(Batch, RanksTakeTheSequencesThatOneWouldDraw) {
  const Drawn all = draw(200, 3, 1);
  constexpr int kMine = kBatch / 5;
  for (int rank = 0; rank < 5; ++rank) {
    const Drawn mine = draw(200, 3, 1, rank * kMine, kMine);
    const auto begin = static_cast<std::size_t>(rank * kMine * kContext);
    for (std::size_t i = 0; i < static_cast<std::size_t>(kMine * kContext); ++i) {
      ASSERT_EQ(mine.tokens[i], all.tokens[begin + i]) << "rank " << rank << ", token " << i;
      ASSERT_EQ(mine.targets[i], all.targets[begin + i]) << "rank " << rank << ", token " << i;
    }
  }
}

TEST(Batch, AShortestTextHasOneStart) {
  for (const std::int32_t token : draw(kContext + 1, 5, 1).tokens) EXPECT_LT(token, kContext);
}

}  // namespace
}  // namespace rungs::training
