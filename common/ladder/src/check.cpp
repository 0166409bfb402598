#include "check.hpp"

#include <rungs/core/error.hpp>

#include <cmath>
#include <limits>

namespace rungs::ladder::detail {
namespace {

// |got - expected| in units of the bound. Only 0 is good when the bound is 0; NaN is never good.
double in_bounds(double got, double expected, double bound) {
  if (got == expected) return 0;
  const double ratio = std::abs(got - expected) / bound;
  return std::isnan(ratio) ? std::numeric_limits<double>::infinity() : ratio;
}

void judge(Verdict& verdict, std::size_t element, double got, double expected, double bound,
           const char* whose, AnyProblem& problem) {
  RUNGS_ASSERT(bound >= 0, "the bound of ", problem.describe(element), " is ", bound);
  const double ratio = in_bounds(got, expected, bound);
  if (!(ratio <= verdict.worst)) verdict.worst = ratio;
  if (ratio <= 1 || !verdict.mismatch.empty()) return;
  verdict.mismatch = concat(problem.describe(element), ": got ", got, ", ", whose, " ", expected,
                            ", allowed difference ", bound);
}

}  // namespace

Verdict compare_with_reference(const std::vector<float>& output, const Reference& reference,
                               AnyProblem& problem) {
  const bool sampled = !reference.positions.empty();
  RUNGS_ASSERT(reference.values.size() == (sampled ? reference.positions.size() : output.size()),
               "the reference has ", reference.values.size(), " values for ",
               sampled ? reference.positions.size() : output.size(), " elements");
  Verdict verdict;
  for (std::size_t i = 0; i < reference.values.size(); ++i) {
    const std::size_t element = sampled ? reference.positions[i] : i;
    RUNGS_ASSERT(element < output.size(), "the reference samples element ", element, " of ",
                 output.size());
    judge(verdict, element, output[element], reference.values[i], problem.bound(element),
          "the oracle says", problem);
  }
  return verdict;
}

Verdict compare_with_naive(const std::vector<float>& output, const std::vector<float>& naive,
                           AnyProblem& problem) {
  RUNGS_ASSERT(output.size() == naive.size(), "outputs of ", output.size(), " and ", naive.size(),
               " elements from the same case");
  Verdict verdict;
  for (std::size_t i = 0; i < output.size(); ++i) {
    judge(verdict, i, output[i], naive[i], 2 * problem.bound(i), "the naive rung says", problem);
  }
  return verdict;
}

}  // namespace rungs::ladder::detail
