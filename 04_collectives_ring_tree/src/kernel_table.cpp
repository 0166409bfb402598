#include <rungs/collectives/kernel_table.hpp>

#include <rungs/core/error.hpp>

#include "detail/entries.hpp"
#include "detail/reduces.hpp"

#include <algorithm>
#include <utility>

namespace rungs::collectives {
namespace {

// Below this a channel's cost of starting outweighs what it moves.
constexpr std::size_t kBytesPerChannel = RUNGS_GPU_CUDA ? 64 << 10 : 32 << 10;

std::string describe(const Question& question) {
  std::string text = concat(to_string(question.what), " of ", to_string(question.dtype));
  if (detail::reduces(question.what)) text += concat(" with ", to_string(question.op));
  return text;
}

class FixedTuner final : public Tuner {
 public:
  FixedTuner(std::string algorithm, ProtocolId protocol, int channels)
      : algorithm_(std::move(algorithm)),
        protocol_(protocol),
        channels_(channels) {}

  [[nodiscard]] Choice choose(const Question& question, KernelTable table,
                              int max_channels) const override {
    for (std::size_t i = 0; i < table.size(); ++i) {
      const KernelEntry& entry = table[i];
      if (!serves(entry, question) || !asked_for(entry) ||
          !entry.illegal(question.surroundings).empty())
        continue;
      const int channels = channels_ > 0 ? std::min(channels_, max_channels)
                                         : channels_for(question.size_bytes, max_channels);
      return {i, channels};
    }
    std::string reasons;
    for (const KernelEntry& entry : table) {
      if (serves(entry, question))
        reasons += concat("; ", name_of(entry), " ", why_not(entry, question));
    }
    if (reasons.empty()) reasons = "; the table has no kernel for it at all";
    RUNGS_THROW(kUnsupported, describe(question), ": no kernel may be used", reasons);
  }

 private:
  [[nodiscard]] bool asked_for(const KernelEntry& entry) const {
    return algorithm_.empty() || (entry.algorithm == algorithm_ && entry.protocol == protocol_);
  }
  /// Of an entry that may not be used.
  [[nodiscard]] std::string why_not(const KernelEntry& entry, const Question& question) const {
    if (!asked_for(entry))
      return concat("is not the ", algorithm_, "/", to_string(protocol_), " that was asked for");
    return concat("is not legal here: ", entry.illegal(question.surroundings));
  }

  std::string algorithm_;
  ProtocolId protocol_;
  int channels_;
};

}  // namespace

KernelTable kernel_table() {
  static const std::vector<KernelEntry> all = [] {
    const KernelTable ring = detail::ring_entries();
    const KernelTable root = detail::root_entries();
    std::vector<KernelEntry> table(ring.begin(), ring.end());
    table.insert(table.end(), root.begin(), root.end());
    return table;
  }();
  return all;
}

std::string name_of(const KernelEntry& entry) {
  return concat(entry.algorithm, "/", to_string(entry.protocol));
}

std::string Tuner::explain(const Question& question, KernelTable table, int max_channels) const {
  const Choice choice = choose(question, table, max_channels);
  return concat(name_of(table[choice.entry]), " with ", choice.channels, " channels");
}

bool serves(const KernelEntry& entry, const Question& question) noexcept {
  if (entry.what != question.what) return false;
  if (detail::reduces(entry.what)) return entry.dtype == question.dtype && entry.op == question.op;
  return entry.dtype == DType::kU8 || entry.dtype == question.dtype;
}

int channels_for(std::size_t size_bytes, int max_channels) noexcept {
  const std::size_t channels = (size_bytes + kBytesPerChannel - 1) / kBytesPerChannel;
  return static_cast<int>(
      std::clamp<std::size_t>(channels, 1, static_cast<std::size_t>(std::max(max_channels, 1))));
}

std::shared_ptr<const Tuner> fixed_tuner(std::string algorithm, ProtocolId protocol, int channels) {
  return std::make_shared<FixedTuner>(std::move(algorithm), protocol, channels);
}

}  // namespace rungs::collectives
