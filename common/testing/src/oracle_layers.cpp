#include <rungs/core/error.hpp>
#include <rungs/testing/oracle.hpp>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace rungs::testing {
namespace {

struct Moments {
  double mean;
  double rstd;
};

Moments moments(std::span<const double> row, double epsilon) {
  double sum = 0;
  for (const double value : row) sum += value;
  const double mean = sum / static_cast<double>(row.size());
  double squares = 0;
  for (const double value : row) squares += (value - mean) * (value - mean);
  return {mean, 1 / std::sqrt(squares / static_cast<double>(row.size()) + epsilon)};
}

std::size_t rows_of(std::size_t elements, std::size_t columns, const char* what) {
  RUNGS_REQUIRE(columns > 0 && elements % columns == 0, "oracle ", what, ": ", elements,
                " elements are no whole rows of ", columns);
  return elements / columns;
}

}  // namespace

std::vector<double> softmax(std::span<const double> x, std::size_t columns) {
  const std::size_t rows = rows_of(x.size(), columns, "softmax");
  std::vector<double> y(x.begin(), x.end());
  for (std::size_t r = 0; r < rows; ++r) {
    const std::span<double> row = std::span(y).subspan(r * columns, columns);
    const double largest = *std::max_element(row.begin(), row.end());
    double sum = 0;
    for (double& value : row) sum += value = std::exp(value - largest);
    for (double& value : row) value /= sum;
  }
  return y;
}

LayerNormForward layer_norm_forward(std::span<const double> x, std::span<const double> weight,
                                    std::span<const double> bias, double epsilon) {
  const std::size_t columns = weight.size();
  const std::size_t rows = rows_of(x.size(), columns, "layer norm");
  RUNGS_REQUIRE(bias.size() == columns, "oracle layer norm: bias has ", bias.size(),
                " elements, weight ", columns);
  LayerNormForward result;
  result.y.resize(x.size());
  for (std::size_t r = 0; r < rows; ++r) {
    const Moments m = moments(x.subspan(r * columns, columns), epsilon);
    result.mean.push_back(m.mean);
    result.rstd.push_back(m.rstd);
    for (std::size_t c = 0; c < columns; ++c) {
      result.y[r * columns + c] = (x[r * columns + c] - m.mean) * m.rstd * weight[c] + bias[c];
    }
  }
  return result;
}

// With n = (x - mean)·rstd and g = dy ∘ weight: dx = rstd·(g - mean(g) - n·mean(g ∘ n)).
LayerNormBackward layer_norm_backward(std::span<const double> x, std::span<const double> weight,
                                      std::span<const double> dy, double epsilon) {
  const std::size_t columns = weight.size();
  const std::size_t rows = rows_of(x.size(), columns, "layer norm");
  RUNGS_REQUIRE(dy.size() == x.size(), "oracle layer norm: dy has ", dy.size(), " elements, x ",
                x.size());
  LayerNormBackward result;
  result.dx.resize(x.size());
  result.dweight.assign(columns, 0.0);
  result.dbias.assign(columns, 0.0);
  for (std::size_t r = 0; r < rows; ++r) {
    const std::size_t at = r * columns;
    const Moments m = moments(x.subspan(at, columns), epsilon);
    double mean_g = 0;
    double mean_gn = 0;
    for (std::size_t c = 0; c < columns; ++c) {
      const double n = (x[at + c] - m.mean) * m.rstd;
      const double g = dy[at + c] * weight[c];
      mean_g += g / static_cast<double>(columns);
      mean_gn += g * n / static_cast<double>(columns);
      result.dweight[c] += dy[at + c] * n;
      result.dbias[c] += dy[at + c];
    }
    for (std::size_t c = 0; c < columns; ++c) {
      const double n = (x[at + c] - m.mean) * m.rstd;
      result.dx[at + c] = m.rstd * (dy[at + c] * weight[c] - mean_g - n * mean_gn);
    }
  }
  return result;
}

double gelu(double x) { return 0.5 * x * (1 + std::erf(x / std::numbers::sqrt2)); }

double gelu_derivative(double x) {
  const double density = std::exp(-0.5 * x * x) / std::sqrt(2 * std::numbers::pi);
  return 0.5 * (1 + std::erf(x / std::numbers::sqrt2)) + x * density;
}

double gelu_tanh(double x) {
  const double inner = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
  return 0.5 * x * (1 + std::tanh(inner));
}

double gelu_tanh_derivative(double x) {
  const double slope = std::sqrt(2 / std::numbers::pi);
  const double t = std::tanh(slope * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * slope * (1 + 3 * 0.044715 * x * x);
}

CrossEntropy cross_entropy(std::span<const double> logits, std::span<const std::int32_t> targets,
                           std::size_t classes) {
  const std::size_t rows = rows_of(logits.size(), classes, "cross entropy");
  RUNGS_REQUIRE(targets.size() == rows, "oracle cross entropy: ", targets.size(), " targets for ",
                rows, " rows");
  CrossEntropy result;
  result.dlogits.resize(logits.size());
  for (std::size_t r = 0; r < rows; ++r) {
    RUNGS_REQUIRE(targets[r] >= 0 && static_cast<std::size_t>(targets[r]) < classes,
                  "oracle cross entropy: target ", targets[r], " of row ", r, " is not below ",
                  classes);
    const std::span<const double> row = logits.subspan(r * classes, classes);
    const double largest = *std::max_element(row.begin(), row.end());
    double sum = 0;
    for (const double value : row) sum += std::exp(value - largest);
    const auto target = static_cast<std::size_t>(targets[r]);
    result.row_losses.push_back(largest + std::log(sum) - row[target]);
    result.loss += result.row_losses.back() / static_cast<double>(rows);
    for (std::size_t c = 0; c < classes; ++c) {
      const double p = std::exp(row[c] - largest) / sum;
      result.dlogits[r * classes + c] = (p - (c == target ? 1 : 0)) / static_cast<double>(rows);
    }
  }
  return result;
}

void adamw(std::span<double> parameters, std::span<double> first_moment,
           std::span<double> second_moment, std::span<const double> gradient, double learning_rate,
           double beta1, double beta2, double epsilon, double weight_decay, int step) {
  RUNGS_REQUIRE(step >= 1, "oracle adamw: step counts from 1, got ", step);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    first_moment[i] = beta1 * first_moment[i] + (1 - beta1) * gradient[i];
    second_moment[i] = beta2 * second_moment[i] + (1 - beta2) * gradient[i] * gradient[i];
    const double m = first_moment[i] / (1 - std::pow(beta1, step));
    const double v = second_moment[i] / (1 - std::pow(beta2, step));
    parameters[i] -= learning_rate * (m / (std::sqrt(v) + epsilon) + weight_decay * parameters[i]);
  }
}

}  // namespace rungs::testing
