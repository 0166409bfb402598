/// Stage 08 as the harness, the CLI and the chapter's table see it.

#include <rungs/attention/attention.hpp>
#include <rungs/attention/catalog.hpp>
#include <rungs/ladder/build.hpp>

#include "catalog/attention_problem.hpp"

#include <memory>
#include <utility>
#include <vector>

namespace rungs::attention {
namespace {

enum class Size { kQuick, kTour, kGpu, kGpuTour };

struct CatalogCase {
  ProblemShape shape;
  Size size;
};

ProblemShape square(int batch, int heads, int length, int head_dim, bool causal) {
  ProblemShape shape;
  shape.batch = batch;
  shape.heads = heads;
  shape.queries = length;
  shape.keys = length;
  shape.head_dim = head_dim;
  shape.causal = causal;
  return shape;
}

std::vector<CatalogCase> catalog_cases() {
  std::vector<CatalogCase> cases;
  cases.reserve(16);
  // One layer of the training step (packed projections), then a ragged case with more keys than
  // queries.
  ProblemShape training = square(4, 4, 64, 32, true);
  training.packed = true;
  cases.push_back({training, Size::kQuick});
  ProblemShape ragged = square(1, 2, 113, 64, true);
  ragged.keys = 203;
  cases.push_back({ragged, Size::kQuick});
  cases.push_back({square(1, 2, 128, 64, false), Size::kTour});
  cases.push_back({square(1, 1, 128, 128, true), Size::kTour});
  // Large enough that times mean something on a GPU, small enough for the tour.
  ProblemShape shown = square(4, 16, 1024, 64, true);
  shown.replicated = true;
  cases.push_back({shown, Size::kGpuTour});
  // What FlashAttention's papers measure: 16,384 tokens, heads for a width of 2048.
  constexpr int kTokens = 16384;
  constexpr int kWidth = 2048;
  for (const int head_dim : {64, 128}) {
    for (const bool causal : {false, true}) {
      for (const int length : {1024, 4096}) {
        ProblemShape shape = square(kTokens / length, kWidth / head_dim, length, head_dim, causal);
        shape.replicated = true;
        cases.push_back({shape, Size::kGpu});
      }
    }
  }
  return cases;
}

/// @param flops_per_score multiply-adds counted as two, in units of head_dim
ladder::Case describe(const CatalogCase& entry, double flops_per_score, double query_tensors,
                      double key_tensors) {
  const ProblemShape& shape = entry.shape;
  ladder::Case result;
  result.name = to_string(shape);
  result.cost.flops = flops_per_score * shape.head_dim * visible_scores(shape);
  const double rows = static_cast<double>(shape.batch) * shape.heads;
  const double row_bytes = 2.0 * shape.head_dim;
  result.cost.bytes = rows * shape.queries * (query_tensors * row_bytes + 4) +
                      rows * shape.keys * key_tensors * row_bytes;
  result.in_quick = entry.size == Size::kQuick;
  result.in_tour = entry.size != Size::kGpu;
  result.gpu_only = entry.size == Size::kGpu || entry.size == Size::kGpuTour;
  return result;
}

template <class Args, class Problem>
ladder::OperationSpec<Args> spec_of(const char* name, double flops_per_score, double query_tensors,
                                    double key_tensors) {
  ladder::OperationSpec<Args> spec;
  spec.stage = "08_flash_attention";
  spec.name = name;
  const std::vector<CatalogCase> cases = catalog_cases();
  for (const CatalogCase& entry : cases) {
    spec.cases.push_back(describe(entry, flops_per_score, query_tensors, key_tensors));
  }
  spec.make_problem = [cases](std::size_t case_index, const ladder::Machine& machine,
                              std::uint64_t seed) {
    return std::make_unique<Problem>(cases.at(case_index).shape, *machine.device, seed);
  };
  return spec;
}

ladder::Operation forward() {
  auto spec = spec_of<ForwardArgs, ForwardProblem>("attention_forward", 4, 2, 2);  // q, o; k, v
  spec.oracle = "softmax and both products in double, every element of o and lse";
  spec.error_bound =
      "2^-8 |o| + c sum(P |v|) with c = 2^-24 ((4 D + 28) a + 2.75 n + 20), a the largest scale "
      "|q|.|k|, n keys";
  return ladder::make_operation(kForwardLadder, std::move(spec));
}

ladder::Operation backward() {
  // q, o, dO, dq; k, v, dk, dv
  auto spec = spec_of<BackwardArgs, BackwardProblem>("attention_backward", 10, 4, 4);
  spec.oracle =
      "gradients in double from a forward pass of its own, every element of dq, dk and dv";
  spec.error_bound =
      "2^-8 |g| + the propagated errors of P, dP and delta (chapter, How wrong it may be)";
  return ladder::make_operation(kBackwardLadder, std::move(spec));
}

}  // namespace

std::vector<ladder::Operation> operations() { return {forward(), backward()}; }

}  // namespace rungs::attention
