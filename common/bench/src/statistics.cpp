#include "statistics.hpp"

#include <rungs/config.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace rungs::bench::detail {

double quantile(std::vector<double> values, double share) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::sort(values.begin(), values.end());
  const double at = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(at));
  const std::size_t above = std::min(below + 1, values.size() - 1);
  const double weight = at - std::floor(at);
  return values[below] * (1 - weight) + values[above] * weight;
}

}  // namespace rungs::bench::detail
