#pragma once
/// Element-wise judgement of an output, for build.cpp.

#include <rungs/ladder/build.hpp>

#include <functional>
#include <string>
#include <vector>

namespace rungs::ladder::detail {

/// What comparing one output came to.
struct Verdict {
  double worst = 0;  ///< largest |difference| ÷ bound; infinite when NaN or an infinity is wrong
  std::string mismatch;  ///< the first element outside its bound, empty when all lie within
};

/// Compares `output` with the oracle's answer.
Verdict compare_with_reference(const std::vector<float>& output, const Reference& reference,
                               AnyProblem& problem);

/// Compares every element with the naive rung's, which may lie on the other side of the bound.
Verdict compare_with_naive(const std::vector<float>& output, const std::vector<float>& naive,
                           AnyProblem& problem);

}  // namespace rungs::ladder::detail
