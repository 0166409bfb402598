#include "ranks_run.hpp"

#include "interrupt.hpp"

#include <fmt/format.h>
#include <rungs/core/error.hpp>
#include <rungs/ladder/rank_team.hpp>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>
#include <vector>

namespace rungs::cli {
namespace {

/// What a step has left that must be the same in both modes.
struct Bits {
  std::vector<training::StepResult> results;
  std::vector<float> parameters;
};

bool equal(const Bits& left, const Bits& right) {
  const auto same_result = [](const training::StepResult& a, const training::StepResult& b) {
    return a.loss == b.loss && a.aux_loss == b.aux_loss && a.grad_norm == b.grad_norm;
  };
  return left.results.size() == right.results.size() &&
         std::equal(left.results.begin(), left.results.end(), right.results.begin(), same_result) &&
         left.parameters.size() == right.parameters.size() &&
         std::memcmp(left.parameters.data(), right.parameters.data(),
                     left.parameters.size() * sizeof(float)) == 0;
}

bool on_all_ranks(bootstrap::Group& group, bool mine) {
  const std::vector<char> all = group.all_gather(static_cast<char>(mine));
  return std::all_of(all.begin(), all.end(), [](char yes) { return yes != 0; });
}

int signal_of_any(bootstrap::Group& group) {
  const std::vector<int> all = group.all_gather(InterruptGuard::signal());
  return *std::max_element(all.begin(), all.end());
}

}  // namespace

void as_threads(const RanksRun& run,
                const std::function<void(bootstrap::Group&, const gpu::Device&)>& body) {
  bootstrap::RootOptions root_options;
  root_options.ranks = run.ranks();
  root_options.interface_or_address = "127.0.0.1";
  const bootstrap::Root root(root_options);
  ladder::RankTeam(run.ranks()).run([&](int rank) {
    bootstrap::GroupOptions options;
    if (run.nodes > 1) options.host_id = fmt::format("pretend node {}", rank / run.ranks_per_node);
    bootstrap::Group group(root.id(), rank, run.ranks(), options);
    const gpu::Device device = gpu::Device::open(rank % gpu::Device::count());
    device.make_current();
    body(group, device);
  });
}

TrainingOutcome run_training_over_ranks(const training::ModelConfig& model,
                                        const training::TrainConfig& config,
                                        const training::Corpus& corpus, const TrainingPlan& plan,
                                        const RanksRun& run) {
  const InterruptGuard interrupt;
  TrainingOutcome outcome;
  as_threads(run, [&](bootstrap::Group& group, const gpu::Device& device) {
    training::Trainer trainer(model, config, corpus, device, group);
    const TrainingOutcome mine = run_training(trainer, config, plan, &group);
    if (group.rank() == 0) outcome = mine;
  });
  return outcome;
}

bool same_bits_over_ranks(const training::ModelConfig& model, const training::TrainConfig& config,
                          const training::Corpus& corpus, int steps, const RanksRun& run,
                          double (&seconds)[2], int& signal) {
  using Clock = std::chrono::steady_clock;
  const InterruptGuard interrupt;
  bool same = true;
  seconds[0] = seconds[1] = 0;
  signal = 0;
  as_threads(run, [&](bootstrap::Group& group, const gpu::Device& device) {
    const bool leads = group.rank() == 0;
    Bits bits[2];
    for (int which = 0; which < 2; ++which) {
      training::RanksOptions options;
      options.gradients =
          which == 0 ? training::Gradients::kAfterBackward : training::Gradients::kOverlapped;
      training::Trainer trainer(model, config, corpus, device, group, options);
      for (int i = 0; i < steps; ++i) {
        const int arrived = signal_of_any(group);
        if (leads) signal = arrived;
        if (arrived != 0) return;
        const Clock::time_point start = Clock::now();
        bits[which].results.push_back(
            trainer.step(which == 0 ? training::Mode::kEager : training::Mode::kGraph));
        // The first step pays for set-up: the capture in one mode, first launches in the other.
        if (leads && i > 0)
          seconds[which] += std::chrono::duration<double>(Clock::now() - start).count();
      }
      bits[which].parameters = trainer.parameters();
    }
    const bool everywhere = on_all_ranks(group, equal(bits[0], bits[1]));
    if (leads) same = everywhere;
  });
  return same;
}

}  // namespace rungs::cli
