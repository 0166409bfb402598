#include "rank_links.hpp"

#include <rungs/core/error.hpp>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "config.hpp"
#include "gradient_sums.hpp"
#include "optimizer/optimizer.hpp"

namespace rungs::training {
namespace {

// The context's own words, and what every allocation is rounded up by.
constexpr std::size_t kHeapReserve = std::size_t{1} << 16;

std::size_t largest_bucket(const ModelConfig& model, int rank, int ranks) {
  return largest(gradient_buckets(ParameterLayout(model, rank, ranks), shares_behind(ranks)));
}

symmetric::ContextOptions context_options(const RanksOptions& options, const ModelConfig& model,
                                          const TrainConfig& train, bootstrap::Group& group,
                                          const Ranks& ranks) {
  const int nodes = 1 + *std::max_element(ranks.nodes.begin(), ranks.nodes.end());
  const moe::Shape shape{.width = model.width,
                         .hidden = model.hidden,
                         .experts = model.experts,
                         .top_k = model.top_k,
                         .max_tokens = train.batch / group.size() * model.context};
  symmetric::ContextOptions result;
  result.heap_bytes =
      symmetric::AllReduce::heap_bytes(largest_bucket(model, group.rank(), group.size()),
                                       group.size(), nodes) +
      static_cast<std::size_t>(model.layers) * moe::Layer::heap_bytes(shape, group.size()) +
      kHeapReserve;
  result.network = options.network;
  result.timeout_seconds = options.timeout_seconds;
  return result;
}

}  // namespace

void require_agreement(bootstrap::Group& group, const Fields& fields, const RanksOptions& options) {
  Fields mine = fields;
  mine.emplace_back("RanksOptions.gradients",
                    options.gradients == Gradients::kOverlapped ? "kOverlapped" : "kAfterBackward");
  // Values have a fixed room, and no field is longer.
  struct Terms {
    char value[32][48];
  };
  Terms terms{};
  RUNGS_ASSERT(mine.size() <= std::size(terms.value), mine.size(), " fields");
  for (std::size_t i = 0; i < mine.size(); ++i)
    mine[i].second.copy(terms.value[i], sizeof(terms.value[i]) - 1);
  const std::vector<Terms> all = group.all_gather(terms);
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    for (std::size_t i = 0; i < mine.size(); ++i) {
      const char* const first = all.front().value[i];
      const char* const theirs = all[rank].value[i];
      RUNGS_REQUIRE(std::strcmp(first, theirs) == 0, "ranks disagree on ", mine[i].first,
                    ": rank 0 has ", first, ", rank ", rank, " has ", theirs,
                    "; give every rank the same");
    }
  }
}

std::int64_t shares_behind(int ranks) {
  return static_cast<std::int64_t>(ranks) * optimizer::kShareFloats;
}

RankLinks::RankLinks(bootstrap::Group& group, const gpu::Device& device,
                     const RanksOptions& options, const ModelConfig& model,
                     const TrainConfig& train)
    : group_(group),
      gradients_(options.gradients),
      checkpoints_(group),
      context_(group, device, context_options(options, model, train, group, checkpoints_.ranks())),
      all_reduce_(context_, largest_bucket(model, group.rank(), group.size())) {}

void RankLinks::synchronize(gpu::StreamHandle stream) const {
  context_.synchronize(stream);
  all_reduce_.check();
}

}  // namespace rungs::training
