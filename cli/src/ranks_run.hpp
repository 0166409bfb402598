#pragma once
/// @file ranks_run.hpp
/// Training by several ranks: as threads of this program, or this program as one rank of many.

#include "training_run.hpp"

#include <rungs/bootstrap/group.hpp>
#include <rungs/gpu/device.hpp>
#include <rungs/training/trainer.hpp>

#include <functional>

namespace rungs::cli {

/// Ranks as threads of this process, equally many on each pretend node. Those of one node reach
/// each other's memory, others talk through an HCA.
struct RanksRun {
  int nodes = 2;
  int ranks_per_node = 2;
  [[nodiscard]] int ranks() const noexcept { return nodes * ranks_per_node; }
};

/// Calls body(group, device) in a thread a rank; devices go round those there are.
/// @throws the first rank's error, naming the rank
void as_threads(const RanksRun& run,
                const std::function<void(bootstrap::Group&, const gpu::Device&)>& body);

/// run_training() on every rank; what rank 0 says. SIGINT and SIGTERM stop all after the same step.
TrainingOutcome run_training_over_ranks(const training::ModelConfig& model,
                                        const training::TrainConfig& config,
                                        const training::Corpus& corpus, const TrainingPlan& plan,
                                        const RanksRun& run);

/// Trains twice for `steps` steps, launched kernel by kernel with gradients summed after the
/// backward pass, and replayed from a graph with them summed in buckets on the way: whether losses,
/// norms and every rank's parameters have the same bits.
/// @param seconds of the steps but the first: launched, replayed
/// @param signal what ended it early, or 0; then the answer says nothing
bool same_bits_over_ranks(const training::ModelConfig& model, const training::TrainConfig& config,
                          const training::Corpus& corpus, int steps, const RanksRun& run,
                          double (&seconds)[2], int& signal);

}  // namespace rungs::cli
