#include <rungs/core/error.hpp>
#include <rungs/testing/oracle.hpp>

#include <cmath>

namespace rungs::testing {

std::vector<double> matmul(std::span<const double> a, std::span<const double> b, std::size_t m,
                           std::size_t n, std::size_t k, Layout a_layout, Layout b_layout) {
  RUNGS_REQUIRE(a.size() == m * k, "oracle matmul: A has ", a.size(), " elements, M·K is ", m * k);
  RUNGS_REQUIRE(b.size() == k * n, "oracle matmul: B has ", b.size(), " elements, K·N is ", k * n);
  const bool at = a_layout == Layout::kTransposed;
  const bool bt = b_layout == Layout::kTransposed;
  std::vector<double> c(m * n, 0.0);
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      double sum = 0;
      for (std::size_t l = 0; l < k; ++l) {
        sum += (at ? a[l * m + i] : a[i * k + l]) * (bt ? b[j * k + l] : b[l * n + j]);
      }
      c[i * n + j] = sum;
    }
  }
  return c;
}

std::vector<double> magnitudes(std::span<const double> values) {
  std::vector<double> result(values.begin(), values.end());
  for (double& value : result) value = std::abs(value);
  return result;
}

}  // namespace rungs::testing
