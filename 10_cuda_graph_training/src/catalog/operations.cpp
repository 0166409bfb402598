// Stage 10 as the harness, the CLI and the chapter's table see it.

#include <rungs/ladder/build.hpp>
#include <rungs/training/catalog.hpp>

#include <memory>
#include <string>
#include <utility>

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

ladder::Case describe(const StepShape& shape, bool gpu_only) {
  const ModelConfig model;
  const double parameters = 1255680;
  ladder::Case result;
  result.name = std::to_string(shape.batch) + "x" + std::to_string(model.context) + " tokens, " +
                std::to_string(shape.steps) + " steps";
  result.cost.flops = shape.steps * step_flops(model, 1.0 * shape.batch * model.context);
  // Weights as bf16 twice, gradients written and read twice, AdamW 16 read and 14 written.
  result.cost.bytes = shape.steps * parameters * (2 * 2 + 3 * 4 + 16 + 14);
  result.in_tour = !gpu_only;
  result.in_quick = !gpu_only;
  result.gpu_only = gpu_only;
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
  for (const StepShape& shape : kShapes) spec.cases.push_back(describe(shape, shape.batch > 4));
  spec.make_problem = [](std::size_t case_index, const ladder::Machine& machine,
                         std::uint64_t seed) {
    return std::make_unique<StepProblem>(kShapes[case_index], *machine.device, seed);
  };
  return ladder::make_operation(kStepLadder, std::move(spec));
}

}  // namespace

std::vector<ladder::Operation> operations() { return {training_step()}; }

}  // namespace rungs::training
