#pragma once
/// @file thread_set.hpp
/// A set of threads of a block as a bit map: waking a whole barrier is an `or` of a few words.

#include <rungs/config.hpp>

#include <bit>
#include <cstdint>

namespace rungs::emulator {

struct ThreadSet {
  static constexpr unsigned kWords = 16;  // 1024 threads
  std::uint64_t words[kWords] = {};

  void set(unsigned i) { words[i / 64] |= std::uint64_t{1} << (i % 64); }
  void reset(unsigned i) { words[i / 64] &= ~(std::uint64_t{1} << (i % 64)); }
  [[nodiscard]] bool test(unsigned i) const { return (words[i / 64] >> (i % 64) & 1) != 0; }
  [[nodiscard]] bool any(unsigned word_count) const {
    std::uint64_t all = 0;
    for (unsigned w = 0; w < word_count; w++) all |= words[w];
    return all != 0;
  }
  [[nodiscard]] unsigned count() const {
    unsigned sum = 0;
    for (const std::uint64_t word : words) sum += static_cast<unsigned>(std::popcount(word));
    return sum;
  }
  void clear() {
    for (std::uint64_t& word : words) word = 0;
  }
  /// Makes it {0 ... count - 1}.
  void fill(unsigned count) {
    for (unsigned w = 0; w < kWords; w++) {
      const unsigned begin = w * 64;
      words[w] = count >= begin + 64 ? ~std::uint64_t{0}
                 : count > begin     ? (std::uint64_t{1} << (count - begin)) - 1
                                     : 0;
    }
  }
  /// Moves all members of `from` here.
  void take(ThreadSet& from, unsigned word_count) {
    for (unsigned w = 0; w < word_count; w++) {
      words[w] |= from.words[w];
      from.words[w] = 0;
    }
  }
  /// The first member from `from` on, else the first of all; -1 if empty.
  [[nodiscard]] int next(unsigned from, unsigned word_count) const {
    unsigned w = from / 64;
    if (w < word_count) {
      const std::uint64_t rest = words[w] >> (from % 64);
      if (rest != 0) return static_cast<int>(from + static_cast<unsigned>(std::countr_zero(rest)));
      for (w++; w < word_count; w++) {
        if (words[w] != 0)
          return static_cast<int>(w * 64 + static_cast<unsigned>(std::countr_zero(words[w])));
      }
    }
    for (w = 0; w < word_count; w++) {
      if (words[w] != 0)
        return static_cast<int>(w * 64 + static_cast<unsigned>(std::countr_zero(words[w])));
    }
    return -1;
  }
};

}  // namespace rungs::emulator
