#pragma once
/// @file moe_problem.hpp
/// The layer over kCatalogRanks ranks as the harness sees it.

#include <rungs/ladder/build.hpp>

#include <memory>
#include <string>
#include <vector>

#include "catalog/moe_case.hpp"
#include "catalog/rank_layer.hpp"
#include "catalog/reference_layer.hpp"

namespace rungs::moe {

/// Ranks are threads. Two fit on one real GPU, as two streams; several GPUs are used in turn.
inline constexpr int kCatalogRanks = RUNGS_GPU_CUDA ? 2 : 4;

/// What a run leaves, by rank; written by the rung, read by the problem.
struct MoeResults {
  std::vector<RankOutputs> ranks;
};

struct MoeArgs {
  std::shared_ptr<const MoeInputs> inputs;
  std::shared_ptr<MoeResults> results;
  bool with_vjp;
};

/// kCatalogRanks threads with a layer each.
std::unique_ptr<ladder::Prepared> prepare_moe(const MoeArgs& args, Exchange exchange);

class MoeProblem final : public ladder::Problem<MoeArgs> {
 public:
  MoeProblem(const MoeCase& spec, bool with_vjp, std::uint64_t seed);
  MoeArgs args() override { return args_; }
  void reset() override;
  std::vector<float> output() override;
  ladder::Reference reference() override;
  double bound(std::size_t element) override { return bounds_.at(element); }
  std::string describe(std::size_t element) override;

 private:
  MoeArgs args_;
  std::vector<double> bounds_;
};

}  // namespace rungs::moe
