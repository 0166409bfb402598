// Which kernel a call gets: the one that a model of its time finds fastest.
//
//     time = start + steps * hop + user bytes of a rank / (channels * bandwidth of one)
//
// The constants belong to a machine, not to a run: nothing is measured here, so all ranks answer
// alike.

#include <rungs/protocols/kernel_table.hpp>

#include <rungs/core/env.hpp>
#include <rungs/core/error.hpp>
#include <rungs/core/suggest.hpp>

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rungs::protocols {
namespace {

using collectives::Choice;
using collectives::Collective;
using collectives::KernelEntry;
using collectives::KernelTable;
using collectives::ProtocolId;
using collectives::Question;

/// What one protocol costs on this machine.
struct Constants {
  double start_us;          ///< of a launch until the first step
  double hop_us;            ///< of a step: from the sender's store to the receiver's use of it
  double channel_gb_per_s;  ///< payload that one channel (one block) moves
};

// Two GPUs: H200 over NVLink. The hops are half of a flag's round trip between them, 0.66 us, for
// LL, and NCCL's own constant for Simple over NVLink; starts are NCCL's for a ring; a channel of LL
// is NCCL's 112 GB/s over 16 (8 MiB, LL forced), one of Simple half of what a block pushes. Our
// kernels have not been timed for it yet.
// One GPU for all ranks: fitted to docs/results/h200/protocols.json, two ranks as two streams.
// Emulated: fitted to all-reduces of 8 B to 4 MiB by two ranks on one channel, the least of 40
// means of four in a row, on a busy machine of two cores: 8 B 50 us (Simple), 24 us (LL); 4 MiB 2.8
// ms and 54 ms.
Constants constants_of(ProtocolId protocol, [[maybe_unused]] bool same_device) {
  const bool ll = protocol == ProtocolId::kLl;
#if RUNGS_GPU_CUDA
  if (same_device) return ll ? Constants{6.8, 0.7, 7.5} : Constants{7.3, 1.0, 25};
  return ll ? Constants{6.6, 0.7, 7} : Constants{8.4, 3.4, 20};
#else
  return ll ? Constants{10, 7, 0.08} : Constants{10, 20, 1.5};
#endif
}

/// Dependent steps, and the share of the asked size that passes through one rank's link.
struct Shape {
  double steps;
  double share;
};

Shape shape_of(const KernelEntry& entry, int ranks) {
  const double n = ranks;
  if (entry.algorithm == "root") {
    // One peer after the other, in and out, through one rank.
    const double ways =
        entry.what == Collective::kAllReduce || entry.what == Collective::kAllGather ? 2 : 1;
    const double share =
        entry.what == Collective::kAllReduce || entry.what == Collective::kBroadcast ? n - 1
                                                                                     : (n - 1) / n;
    return {ways * (n - 1), ways * share};
  }
  switch (entry.what) {
    case Collective::kAllReduce:
      return {2 * (n - 1), 2 * (n - 1) / n};
    case Collective::kBroadcast:
      return {n - 1, 1};
    default:
      return {n - 1, (n - 1) / n};
  }
}

double modelled_us(const KernelEntry& entry, const Question& question, int channels) {
  const Constants constants = constants_of(entry.protocol, question.surroundings.same_device);
  const Shape shape = shape_of(entry, question.surroundings.ranks);
  const double bytes = static_cast<double>(question.size_bytes) * shape.share;
  return constants.start_us + shape.steps * constants.hop_us +
         bytes / (constants.channel_gb_per_s * 1e3 * channels);
}

/// What the environment forces; empty: nothing.
struct Forced {
  std::string algorithm;
  std::optional<ProtocolId> protocol;
};

/// "a or b", "a, b or c"
std::string one_of(const std::vector<std::string_view>& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i)
    text += concat(i == 0 ? "" : i + 1 == words.size() ? " or " : ", ", words[i]);
  return text;
}

template <class T>
void add_new(std::vector<T>& all, const T& value) {
  if (std::find(all.begin(), all.end(), value) == all.end()) all.push_back(value);
}

Forced read_forced(std::span<const KernelModel> above) {
  std::vector<std::string_view> algorithms{"root", "ring"};
  std::vector<ProtocolId> protocols{ProtocolId::kSimple, ProtocolId::kLl};
  for (const KernelModel& model : above) {
    add_new(algorithms, model.algorithm);
    add_new(protocols, model.protocol);
  }
  Forced forced;
  forced.algorithm = env::string("RUNGS_ALGO", "");
  RUNGS_REQUIRE(forced.algorithm.empty() || std::find(algorithms.begin(), algorithms.end(),
                                                      forced.algorithm) != algorithms.end(),
                "environment variable RUNGS_ALGO is '", forced.algorithm, "': it must be ",
                one_of(algorithms));
  const std::string protocol = env::string("RUNGS_PROTO", "");
  std::vector<std::string_view> names;
  for (const ProtocolId known : protocols) {
    names.emplace_back(to_string(known));
    if (protocol == names.back()) forced.protocol = known;
  }
  RUNGS_REQUIRE(protocol.empty() || forced.protocol.has_value(),
                "environment variable RUNGS_PROTO is '", protocol, "': it must be ", one_of(names));
  return forced;
}

/// What of it counts for one question.
struct Restriction {
  std::string_view algorithm = {};
  std::optional<ProtocolId> protocol = {};
};

class ModelTuner final : public collectives::Tuner {
 public:
  ModelTuner(Forced forced, std::span<const KernelModel> above)
      : forced_(std::move(forced)),
        above_(above.begin(), above.end()) {}

  [[nodiscard]] Choice choose(const Question& question, KernelTable table,
                              int max_channels) const override {
    const int channels = collectives::channels_for(question.size_bytes, max_channels);
    const Restriction restriction = restriction_on(question, table);
    std::optional<std::size_t> best;
    double best_us = 0;
    for (std::size_t i = 0; i < table.size(); ++i) {
      if (!serves(table[i], question) || !allowed(table[i], question, restriction)) continue;
      const double us = time_us(table[i], question, channels);
      if (best && best_us <= us) continue;
      best = i;
      best_us = us;
    }
    if (!best) {
      RUNGS_THROW(kUnsupported, to_string(question.what), " of ", to_string(question.dtype),
                  ": no kernel may be used", others(question, table, channels, nullptr));
    }
    return {*best, channels};
  }

  [[nodiscard]] std::string explain(const Question& question, KernelTable table,
                                    int max_channels) const override {
    const Choice choice = choose(question, table, max_channels);
    const KernelEntry& best = table[choice.entry];
    return concat(name_of(best), " with ", choice.channels,
                  " channels: ", std::round(time_us(best, question, choice.channels)),
                  " us by the model for ", question.size_bytes, " bytes",
                  others(question, table, choice.channels, &best));
  }

 private:
  [[nodiscard]] double time_us(const KernelEntry& entry, const Question& question,
                               int channels) const {
    for (const KernelModel& model : above_) {
      if (model.algorithm == entry.algorithm && model.protocol == entry.protocol)
        return model.time_us(question, channels);
    }
    return modelled_us(entry, question, channels);
  }

  /// Does not count for a collective that the table does not have it for.
  [[nodiscard]] Restriction restriction_on(const Question& question, KernelTable table) const {
    Restriction restriction;
    for (const KernelEntry& entry : table) {
      if (!serves(entry, question)) continue;
      if (entry.algorithm == forced_.algorithm) restriction.algorithm = entry.algorithm;
      if (entry.protocol == forced_.protocol) restriction.protocol = entry.protocol;
    }
    return restriction;
  }

  [[nodiscard]] static bool allowed(const KernelEntry& entry, const Question& question,
                                    const Restriction& restriction) {
    return (restriction.algorithm.empty() || entry.algorithm == restriction.algorithm) &&
           (!restriction.protocol || entry.protocol == *restriction.protocol) &&
           entry.illegal(question.surroundings).empty();
  }

  /// What speaks against an entry that is not allowed.
  [[nodiscard]] static std::string why_not(const KernelEntry& entry, const Question& question,
                                           const Restriction& restriction) {
    if (!restriction.algorithm.empty() && entry.algorithm != restriction.algorithm) {
      return concat("is not the algorithm that RUNGS_ALGO=", restriction.algorithm, " asks for");
    }
    if (restriction.protocol && entry.protocol != *restriction.protocol) {
      return concat("is not the protocol that RUNGS_PROTO=", to_string(*restriction.protocol),
                    " asks for");
    }
    return concat("is not legal here: ", entry.illegal(question.surroundings));
  }

  /// Every other entry that serves the question, each after a semicolon, with its time or reason.
  [[nodiscard]] std::string others(const Question& question, KernelTable table, int channels,
                                   const KernelEntry* best) const {
    const Restriction restriction = restriction_on(question, table);
    std::string text;
    for (const KernelEntry& entry : table) {
      if (!serves(entry, question) || &entry == best) continue;
      text += concat("; ", name_of(entry), " ");
      text += allowed(entry, question, restriction)
                  ? concat(std::round(time_us(entry, question, channels)), " us")
                  : why_not(entry, question, restriction);
    }
    return text.empty() ? "; the table has no other kernel for it" : text;
  }

  Forced forced_;
  std::vector<KernelModel> above_;
};

}  // namespace

std::shared_ptr<const collectives::Tuner> tuner(std::span<const KernelModel> above) {
  return std::make_shared<ModelTuner>(read_forced(above), above);
}

}  // namespace rungs::protocols
