#include "catalog/all_gather_problem.hpp"

#include <rungs/core/error.hpp>
#include <rungs/ladder/rank_team.hpp>
#include <rungs/testing/random.hpp>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cmath>
#include <limits>
#include <optional>
#include <type_traits>

namespace rungs::bootstrap {
namespace {

using Clock = std::chrono::steady_clock;

// The group stands before the first call, so that a timing sees the exchange alone.
class PreparedAllGather final : public ladder::Prepared {
 public:
  PreparedAllGather(const AllGatherArgs& args, AllGather form)
      : args_(args),
        team_(args.ranks),
        groups_(static_cast<std::size_t>(args.ranks)) {
    RootOptions root_options;
    root_options.ranks = args.ranks;
    root_options.interface_or_address = "127.0.0.1";
    const Root root(root_options);
    GroupOptions options;
    options.all_gather = form;
    team_.run([&](int rank) {
      groups_[static_cast<std::size_t>(rank)].emplace(root.id(), rank, args_.ranks, options);
    });
  }
  void operator()(gpu::StreamHandle /*stream*/) override {
    team_.run([&](int rank) { gather(rank); });
  }
  // A small exchange is shorter than waking the threads: many in a row, after a common start.
  std::optional<double> time_once() override {
    const int runs = args_.block * sizeof(float) > 4096 ? 4 : 50;
    std::barrier start(args_.ranks);
    std::vector<double> seconds(groups_.size());
    team_.run([&](int rank) {
      start.arrive_and_wait();
      const Clock::time_point begin = Clock::now();
      for (int i = 0; i < runs; ++i) gather(rank);
      seconds[static_cast<std::size_t>(rank)] =
          std::chrono::duration<double>(Clock::now() - begin).count();
    });
    return *std::max_element(seconds.begin(), seconds.end()) / runs;
  }

 private:
  void gather(int rank) {
    const auto index = static_cast<std::size_t>(rank);
    const std::size_t all = args_.block * groups_.size();
    groups_[index]->all_gather(
        std::as_bytes(args_.blocks.subspan(index * args_.block, args_.block)),
        std::as_writable_bytes(args_.results.subspan(index * all, all)));
  }

  AllGatherArgs args_;
  ladder::RankTeam team_;
  std::vector<std::optional<Group>> groups_;
};

template <AllGather Form>
std::unique_ptr<ladder::Prepared> prepare(const AllGatherArgs& args, const ladder::Machine&) {
  return std::make_unique<PreparedAllGather>(args, Form);
}

ladder::Support always(const AllGatherArgs&, const ladder::Machine&) { return {}; }

}  // namespace

const std::array<ladder::Rung<AllGatherArgs>, 3> kAllGatherLadder{{
    {"star", "all blocks to rank 0, and from there all to everybody", always,
     prepare<AllGather::kStar>},
    {"ring", "every rank passes a block to the next: no rank sends more than another", always,
     prepare<AllGather::kRing>},
    {"both_ways", "a block to the right and one to the left at once: half the steps", always,
     prepare<AllGather::kBothWays>},
}};

AllGatherProblem::AllGatherProblem(int ranks, std::size_t block_bytes, std::uint64_t seed)
    : ranks_(ranks),
      block_(block_bytes / sizeof(float)) {
  const auto count = static_cast<std::size_t>(ranks);
  blocks_ = testing::uniform_f32(count * block_, seed);
  results_.resize(count * count * block_);
}

AllGatherArgs AllGatherProblem::args() { return {ranks_, block_, blocks_, results_}; }

void AllGatherProblem::reset() {
  std::fill(results_.begin(), results_.end(), std::numeric_limits<float>::quiet_NaN());
}

ladder::Reference AllGatherProblem::reference() {
  ladder::Reference reference;
  reference.values.reserve(results_.size());
  for (int rank = 0; rank < ranks_; ++rank)
    reference.values.insert(reference.values.end(), blocks_.begin(), blocks_.end());
  return reference;
}

std::string AllGatherProblem::describe(std::size_t element) {
  const std::size_t of_rank = blocks_.size();
  return concat("result of rank ", element / of_rank, ", block of rank ",
                element % of_rank / block_, ", element ", element % block_);
}

}  // namespace rungs::bootstrap
