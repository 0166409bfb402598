#pragma once
// What a rank among several has beside what one alone has: the symmetric heap that the experts'
// tokens travel through, and the sum of gradients over all ranks.

#include <rungs/bootstrap/group.hpp>
#include <rungs/symmetric/all_reduce.hpp>
#include <rungs/symmetric/context.hpp>
#include <rungs/training/trainer.hpp>

#include <cstdint>

#include "model/model.hpp"
#include "rank_checkpoint.hpp"

namespace rungs::training {

/// Floats behind the gradients that carry a step's sums (optimizer::RankSums).
std::int64_t shares_behind(int ranks);

/// Collective. @throws Error kInvalidArgument on every rank, naming the first field in which a rank
///         differs from rank 0, and both values
void require_agreement(bootstrap::Group& group, const Fields& fields, const RanksOptions& options);

class RankLinks {
 public:
  /// Collective. @param group must outlive this, and nobody else uses it meanwhile
  RankLinks(bootstrap::Group& group, const gpu::Device& device, const RanksOptions& options,
            const ModelConfig& model, const TrainConfig& train);

  /// Collective: after the last allocation from the heap.
  void seal() { context_.seal(); }
  [[nodiscard]] RankShare share() { return {group_.rank(), group_.size(), &context_}; }
  [[nodiscard]] symmetric::AllReduce& all_reduce() noexcept { return all_reduce_; }
  [[nodiscard]] Gradients gradients() const noexcept { return gradients_; }
  [[nodiscard]] bootstrap::Group& group() noexcept { return group_; }
  [[nodiscard]] RankCheckpoints& checkpoints() noexcept { return checkpoints_; }
  [[nodiscard]] const symmetric::Context& context() const noexcept { return context_; }

  /// Waits for the stream. @throws Error kPeerLost or kTimeout: what a kernel or the group reports
  void synchronize(gpu::StreamHandle stream) const;
  void abort(const std::string& reason) noexcept { context_.abort(reason); }

 private:
  bootstrap::Group& group_;
  Gradients gradients_;
  RankCheckpoints checkpoints_;
  mutable symmetric::Context context_;
  symmetric::AllReduce all_reduce_;
};

}  // namespace rungs::training
