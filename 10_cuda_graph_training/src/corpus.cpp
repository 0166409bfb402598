#include <rungs/core/error.hpp>
#include <rungs/core/file.hpp>
#include <rungs/training/trainer.hpp>

#include <array>
#include <cmath>

#include "config.hpp"

namespace rungs::training {
namespace {

// -Σ p·log p over counts with the given sum, in nats.
template <class Counts>
double entropy_of(const Counts& counts, double total) {
  double entropy = 0;
  for (const std::uint64_t count : counts) {
    if (count > 0)
      entropy -= static_cast<double>(count) / total * std::log(static_cast<double>(count) / total);
  }
  return entropy;
}

// H(X).
double unigram_entropy_of(const std::vector<std::uint8_t>& text) {
  std::array<std::uint64_t, 256> counts{};
  for (const std::uint8_t byte : text) ++counts[byte];
  return entropy_of(counts, static_cast<double>(text.size()));
}

// H(next | byte) = H(byte, next) - H(byte), over the text's size - 1 pairs.
double bigram_entropy_of(const std::vector<std::uint8_t>& text) {
  std::vector<std::uint64_t> pairs(std::size_t{256} * 256, 0);
  std::array<std::uint64_t, 256> firsts{};
  for (std::size_t i = 0; i + 1 < text.size(); ++i) {
    ++pairs[std::size_t{text[i]} * 256 + text[i + 1]];
    ++firsts[text[i]];
  }
  const auto total = static_cast<double>(text.size() - 1);
  return entropy_of(pairs, total) - entropy_of(firsts, total);
}

std::string last_part(const std::string& path) {
  const std::size_t slash = path.find_last_of('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

}  // namespace

Corpus Corpus::load(const std::string& path, int context) {
  RUNGS_REQUIRE(context >= 1, "model.context must be at least 1, got ", context);
  const std::vector<std::uint8_t> text = file::read_bytes(path);
  // The held-out part is the smaller: a tenth, rounded down.
  const std::size_t least = (static_cast<std::size_t>(context) + 1) * 10;
  RUNGS_REQUIRE(!text.empty(), path, ": the file is empty; training text needs at least ", least,
                " bytes");
  RUNGS_REQUIRE(text.size() >= least, path, ": the text has ", text.size(), " bytes; at least ",
                least, " are needed, so that its last tenth holds one sequence of ", context,
                " bytes and its target");
  Corpus corpus;
  corpus.name = last_part(path);
  const auto cut = text.begin() + static_cast<std::ptrdiff_t>(text.size() - text.size() / 10);
  corpus.train.assign(text.begin(), cut);
  corpus.held_out.assign(cut, text.end());
  corpus.unigram_entropy = unigram_entropy_of(text);
  corpus.bigram_entropy = bigram_entropy_of(text);
  return corpus;
}

}  // namespace rungs::training
