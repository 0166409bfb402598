#include "world.hpp"

#include <rungs/core/error.hpp>
#include <rungs/testing/compare.hpp>

#include <gtest/gtest.h>

namespace rungs::moe {
namespace {

// One tensor of one rank; `first` is where the rank's part of `want` begins.
std::string judge_part(const char* name, std::size_t rank, const std::vector<float>& got,
                       const Judged& want, std::size_t first) {
  const auto begin = static_cast<std::ptrdiff_t>(first);
  const auto end = static_cast<std::ptrdiff_t>(first + got.size());
  if (end > static_cast<std::ptrdiff_t>(want.value.size()))
    return concat("rank ", rank, "'s ", name, " has ", got.size(), " elements");
  const std::vector<double> value(want.value.begin() + begin, want.value.begin() + end);
  const std::vector<double> bound(want.bound.begin() + begin, want.bound.begin() + end);
  const std::string wrong = testing::first_outside_bounds(got, value, bound);
  return wrong.empty() ? "" : concat("rank ", rank, "'s ", name, ": ", wrong, "\n");
}

}  // namespace

std::string in_ranks(const MoeInputs& inputs, const RankOptions& options,
                     const std::function<void(int rank, RankLayer&)>& body, int ranks_a_host) {
  bootstrap::RootOptions root_options;
  root_options.ranks = inputs.spec.ranks();
  root_options.interface_or_address = "127.0.0.1";
  const bootstrap::Root root(root_options);
  return testing::failures(testing::run_threads(inputs.spec.ranks(), [&](int rank) {
    RankOptions mine = options;
    if (ranks_a_host > 0) mine.host_id = "host" + std::to_string(rank / ranks_a_host);
    RankLayer layer(inputs, root.id(), rank, mine);
    body(rank, layer);
  }));
}

std::vector<RankOutputs> run_layer(const MoeInputs& inputs, const RankOptions& options,
                                   int ranks_a_host) {
  std::vector<RankOutputs> all(static_cast<std::size_t>(inputs.spec.ranks()));
  EXPECT_EQ(in_ranks(
                inputs, options,
                [&](int rank, RankLayer& layer) {
                  layer.forward();
                  layer.vjp();
                  layer.synchronize();
                  layer.barrier();
                  all[static_cast<std::size_t>(rank)] = layer.outputs();
                  layer.barrier();
                },
                ranks_a_host),
            "");
  return all;
}

std::string judge(const std::vector<RankOutputs>& got, const LayerReference& want) {
  std::string wrong;
  for (std::size_t rank = 0; rank < got.size(); ++rank) {
    const RankOutputs& r = got[rank];
    wrong += judge_part("residual", rank, r.out, want.out[rank], 0);
    wrong += judge_part("balance", rank, r.balance, want.balance, 0);
    wrong += judge_part("dx", rank, r.dx, want.dx[rank], 0);
    wrong += judge_part("d_router", rank, r.d_router, want.d_router[rank], 0);
    wrong += judge_part("d_up", rank, r.d_up, want.d_up, rank * r.d_up.size());
    wrong += judge_part("d_down", rank, r.d_down, want.d_down, rank * r.d_down.size());
    if (r.counts != want.counts[rank]) wrong += concat("rank ", rank, "'s counts differ\n");
    if (r.dropped != want.dropped[rank]) wrong += concat("rank ", rank, "'s drops differ\n");
  }
  return wrong;
}

MoeInputs on_one_rank(const MoeInputs& inputs) {
  MoeInputs one = inputs;
  const auto join = [](auto& by_rank) {
    for (std::size_t rank = 1; rank < by_rank.size(); ++rank)
      by_rank[0].insert(by_rank[0].end(), by_rank[rank].begin(), by_rank[rank].end());
    by_rank.resize(1);
  };
  join(one.x);
  join(one.residual);
  join(one.d_residual);
  int tokens = 0;
  for (const int of_rank : inputs.spec.tokens) tokens += of_rank;
  one.spec.tokens = {tokens};
  return one;
}

std::vector<float> joined(const std::vector<RankOutputs>& ranks,
                          std::vector<float> RankOutputs::*tensor) {
  std::vector<float> all;
  for (const RankOutputs& rank : ranks)
    all.insert(all.end(), (rank.*tensor).begin(), (rank.*tensor).end());
  return all;
}

}  // namespace rungs::moe
