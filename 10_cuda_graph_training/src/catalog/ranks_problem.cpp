#include "catalog/ranks_problem.hpp"

#include <rungs/bootstrap/group.hpp>
#include <rungs/core/error.hpp>
#include <rungs/gpu/graph.hpp>
#include <rungs/gpu/stream.hpp>
#include <rungs/ladder/rank_team.hpp>

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "catalog/step_problem.hpp"
#include "rank_links.hpp"
#include "step.hpp"

namespace rungs::training {
namespace {

// What distinguishes the rungs.
struct Way {
  Gradients gradients;
  Mode mode;
};

bootstrap::GroupOptions on_node(int node) {
  bootstrap::GroupOptions options;
  options.host_id = concat("node ", node);
  return options;
}

// One rank's ends of things.
struct Member {
  Member(const bootstrap::UniqueId& id, int rank, const RankStepArgs& args, const Way& way)
      : group(id, rank, kCatalogRanks, on_node(rank * kCatalogNodes / kCatalogRanks)),
        device(gpu::Device::open(rank % gpu::Device::count())),
        stream(device),
        links(group, device, {.gradients = way.gradients}, *args.model, *args.train),
        step(*args.model, *args.train, *args.corpus, device, stream, &links) {
    links.seal();
    if (way.mode == Mode::kEager) return;
    graph.emplace(gpu::Graph::capture(stream, [this] { step.enqueue(step.queue(stream)); }));
  }
  void run_step() {
    if (graph.has_value()) {
      graph->replay(stream);
    } else {
      step.enqueue(step.queue(stream));
    }
  }
  void begin_again() { step.load(step.initial(), step.queue(stream)); }

  bootstrap::Group group;
  gpu::Device device;
  gpu::Stream stream;
  RankLinks links;
  TrainingStep step;
  std::optional<gpu::Graph> graph;
};

class RankSteps final : public ladder::Prepared {
 public:
  RankSteps(const RankStepArgs& args, const Way& way) : args_(args), team_(kCatalogRanks) {
    bootstrap::RootOptions options;
    options.ranks = kCatalogRanks;
    options.interface_or_address = "127.0.0.1";
    const bootstrap::Root root(options);
    team_.run(
        [&](int rank) { member(rank) = std::make_unique<Member>(root.id(), rank, args, way); });
  }
  ~RankSteps() override {
    team_.run([&](int rank) { member(rank).reset(); });
  }
  RankSteps(const RankSteps&) = delete;
  RankSteps& operator=(const RankSteps&) = delete;

  void operator()(gpu::StreamHandle /*ranks have their own*/) override {
    team_.run([&](int rank) {
      Member& me = *member(rank);
      me.begin_again();
      me.group.barrier();
      for (int i = 0; i < args_.steps; ++i) {
        me.run_step();
        if (i > 0) continue;
        me.links.synchronize(me.stream);
        if (rank == 0) *args_.first_loss = me.step.report().loss;
      }
      me.links.synchronize(me.stream);
      args_.parameters[rank] = me.step.parameters(me.stream);
      me.group.barrier();
    });
  }

  // Without the way back to the initial weights and the download.
  std::optional<double> time_once() override {
    std::array<double, kCatalogRanks> seconds{};
    team_.run([&](int rank) {
      using Clock = std::chrono::steady_clock;
      Member& me = *member(rank);
      me.begin_again();
      me.group.barrier();
      const Clock::time_point start = Clock::now();
      for (int i = 0; i < args_.steps; ++i) me.run_step();
      me.links.synchronize(me.stream);
      const std::chrono::duration<double> took = Clock::now() - start;
      seconds[static_cast<std::size_t>(rank)] = took.count();
      me.group.barrier();
    });
    return *std::max_element(seconds.begin(), seconds.end());
  }

 private:
  std::unique_ptr<Member>& member(int rank) { return members_[static_cast<std::size_t>(rank)]; }

  RankStepArgs args_;
  std::array<std::unique_ptr<Member>, kCatalogRanks> members_;
  ladder::RankTeam team_;  // ends first
};

ladder::Support always(const RankStepArgs&, const ladder::Machine&) { return {}; }
template <Gradients G, Mode M>
std::unique_ptr<ladder::Prepared> prepare(const RankStepArgs& args, const ladder::Machine&) {
  return std::make_unique<RankSteps>(args, Way{G, M});
}

}  // namespace

const std::array<ladder::Rung<RankStepArgs>, 3> kRankStepLadder{{
    {"after_backward", "gradients summed over the ranks when the backward pass is done", &always,
     &prepare<Gradients::kAfterBackward, Mode::kEager>},
    {"overlapped", "in buckets on a second stream, while the backward pass goes on", &always,
     &prepare<Gradients::kOverlapped, Mode::kEager>},
    {"graph", "each rank's whole step captured once, its exchanges inside, and replayed", &always,
     &prepare<Gradients::kOverlapped, Mode::kGraph>},
}};

RankStepProblem::RankStepProblem(const RankStepShape& shape, std::uint64_t seed)
    : shape_(shape),
      corpus_(made_up_text(seed)) {
  train_.batch = shape.batch;
  train_.data_seed = seed;
}

RankStepArgs RankStepProblem::args() {
  return {.model = &shape_.model,
          .train = &train_,
          .corpus = &corpus_,
          .steps = shape_.steps,
          .first_loss = &first_loss_,
          .parameters = parameters_.data()};
}

void RankStepProblem::reset() {
  first_loss_ = std::numeric_limits<double>::quiet_NaN();
  for (int rank = 0; rank < kCatalogRanks; ++rank) {
    const ParameterLayout layout(shape_.model, rank, kCatalogRanks);
    parameters_[static_cast<std::size_t>(rank)].assign(static_cast<std::size_t>(layout.count()),
                                                       std::numeric_limits<float>::quiet_NaN());
  }
}

std::vector<float> RankStepProblem::output() {
  std::vector<float> result{static_cast<float>(first_loss_)};
  for (const std::vector<float>& of_rank : parameters_)
    result.insert(result.end(), of_rank.begin(), of_rank.end());
  return result;
}

ladder::Reference RankStepProblem::reference() {
  const std::vector<float> initial =
      ParameterLayout(shape_.model).initial_values(shape_.model.seed);
  return {.values = {training::first_loss(shape_.model, train_, corpus_, initial)},
          .positions = {0}};
}

double RankStepProblem::bound(std::size_t element) {
  return element > 0 ? 0 : first_loss_bound(shape_.model);
}

std::string RankStepProblem::describe(std::size_t element) {
  if (element == 0) return "loss of step 1";
  const auto of_rank = parameters_.front().size();
  return concat("parameter ", (element - 1) % of_rank, " of rank ", (element - 1) / of_rank);
}

}  // namespace rungs::training
