#pragma once
/// Order statistics of repetitions.

#include <rungs/config.hpp>

#include <vector>

namespace rungs::bench::detail {

/// The value below which `share` of the values lie, interpolated; NaN for no values.
double quantile(std::vector<double> values, double share);

}  // namespace rungs::bench::detail
