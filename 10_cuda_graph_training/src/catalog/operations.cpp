// Stage 10 as the harness, the CLI and the chapter's table see it.

#include <rungs/ladder/build.hpp>
#include <rungs/training/catalog.hpp>

#include <array>
#include <memory>
#include <string>
#include <utility>

#include "catalog/ranks_problem.hpp"
#include "catalog/step_problem.hpp"

namespace rungs::training {
namespace {

// FLOPs of a step (README.md, "Cost model"): forward, and twice that for the VJPs.
double step_flops(const ModelConfig& m, double tokens) {
  const double d = m.width;
  const double projections = 2 * 4 * d * d;
  const double attention = 2 * 2 * d * m.context;
  const double experts = 2 * 2 * d * m.hidden * m.top_k;
  const double head = 2 * d * 256;
  return 3 * tokens * (m.layers * (projections + attention + experts) + head);
}

ladder::Case describe(const ModelConfig& model, int batch, int steps) {
  const auto parameters = static_cast<double>(parameter_count(model));
  ladder::Case result;
  result.name = std::to_string(batch) + "x" + std::to_string(model.context) + " tokens, " +
                std::to_string(steps) + " steps";
  result.cost.flops = steps * step_flops(model, 1.0 * batch * model.context);
  // Weights as bf16 twice, gradients written and read twice, AdamW 16 read and 14 written.
  result.cost.bytes = steps * parameters * (2 * 2 + 3 * 4 + 16 + 14);
  return result;
}

ladder::Operation training_step() {
  static constexpr StepShape kShapes[] = {{.batch = 4, .steps = 4}, {.batch = 16, .steps = 8}};
  ladder::OperationSpec<StepArgs> spec;
  spec.stage = "10_cuda_graph_training";
  spec.name = "training_step";
  spec.oracle =
      "loss of step 1 from the model in double; parameters after the last step equal the eager "
      "rung's";
  spec.error_bound = "sqrt(12 layers + 2) 2^-8 of the loss; 0 of the parameters";
  for (const StepShape& shape : kShapes) {
    ladder::Case& added = spec.cases.emplace_back(describe({}, shape.batch, shape.steps));
    added.gpu_only = shape.batch > 4;
    added.in_tour = added.in_quick = !added.gpu_only;
  }
  spec.make_problem = [](std::size_t case_index, const ladder::Machine& machine,
                         std::uint64_t seed) {
    return std::make_unique<StepProblem>(kShapes[case_index], *machine.device, seed);
  };
  return ladder::make_operation(kStepLadder, std::move(spec));
}

// Small enough for --quick, and what the tour trains, with half of its sequences.
const std::array<RankStepShape, 2>& rank_shapes() {
  static const std::array<RankStepShape, 2> shapes{{
      {.model = {.layers = 2, .width = 64, .heads = 2, .hidden = 64, .context = 16},
       .batch = 4,
       .steps = 4},
      {.model = {}, .batch = 4, .steps = 2},
  }};
  return shapes;
}

// What a step sends over all links: gradients of dense parameters twice, and each token's rows to
// its experts and back, forward as bf16 and f32 and the same in the VJP, but for those that stay.
double step_wire_bytes(const ModelConfig& m, int batch) {
  const double d = m.width;
  const double dense =
      m.layers * (4.0 * d * d + m.experts * d + 4 * d) + (256 + 2) * d + (256.0 + m.context) * d;
  const double rows = 1.0 * batch * m.context * m.top_k * m.layers;
  const double away = 1.0 - 1.0 / kCatalogRanks;
  return 2.0 * (kCatalogRanks - 1) * dense * 4 + away * rows * d * 2 * (2 + 4);
}

ladder::Operation training_step_ranks() {
  ladder::OperationSpec<RankStepArgs> spec;
  spec.stage = "10_cuda_graph_training";
  spec.name = "training_step_ranks";
  spec.ranks = kCatalogRanks;
  spec.oracle =
      "loss of step 1 from the model in double; every rank's parameters after the last step equal "
      "the naive rung's";
  spec.error_bound = "sqrt(12 layers + 2) 2^-8 of the loss; 0 of the parameters";
  for (const RankStepShape& shape : rank_shapes()) {
    ladder::Case& added = spec.cases.emplace_back(describe(shape.model, shape.batch, shape.steps));
    added.name += ", d " + std::to_string(shape.model.width);
    added.cost.wire_bytes = shape.steps * step_wire_bytes(shape.model, shape.batch);
    added.in_tour = true;
    added.in_quick = shape.model.width == 64;
  }
  spec.make_problem = [](std::size_t case_index, const ladder::Machine&, std::uint64_t seed) {
    return std::make_unique<RankStepProblem>(rank_shapes()[case_index], seed);
  };
  return ladder::make_operation(kRankStepLadder, std::move(spec));
}

}  // namespace

std::vector<ladder::Operation> operations() { return {training_step(), training_step_ranks()}; }

}  // namespace rungs::training
