#include "catalog/bounds.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

namespace rungs::attention {
namespace {

constexpr double kUnit = 0x1p-24;        // half an ulp of f32, relative
constexpr double kUnitBf16 = 0x1p-8;     // half an ulp of bf16, relative: 8 significant bits
constexpr double kUnderflow = 0x1p-120;  // weights below the normal range may be flushed to zero
constexpr double kSecondOrder = 1 + 0x1p-8;  // products of two errors

/// Error of a value computed in fp32 within `error` and then rounded to bf16.
double rounded(double exact, double error) {
  if (exact == 0 && error == 0) return 0;
  return kSecondOrder * (error + kUnitBf16 * (std::abs(exact) + error)) + kUnderflow;
}

/// Everything about one query row that the bounds are made of.
struct Row {
  std::size_t visible = 0;
  std::vector<double> p;          // probabilities
  std::vector<double> o;          // output
  std::vector<double> magnitude;  // Σ_j P_j |v_jd|
  double lse = -std::numeric_limits<double>::infinity();
  double score = 0;      // a: largest |scale| Σ_d |q_d k_jd|
  double o_factor = 0;   // c: error of o_d in fp32, as a multiple of magnitude[d]
  double lse_error = 0;  // of the forward pass
  double p_error = 0;    // relative, of P recomputed from the log-sum-exp
};

class Rows {
 public:
  Rows(const testing::AttentionShape& shape, std::span<const double> q, std::span<const double> k,
       std::span<const double> v)
      : s_(shape),
        q_(q),
        k_(k),
        v_(v),
        scale_(shape.scale != 0 ? shape.scale
                                : 1 / std::sqrt(static_cast<double>(shape.head_dim))) {}

  [[nodiscard]] double scale() const { return std::abs(scale_); }
  [[nodiscard]] std::size_t query(std::size_t b, std::size_t i, std::size_t h) const {
    return ((b * s_.queries + i) * s_.heads + h) * s_.head_dim;
  }
  [[nodiscard]] std::size_t key(std::size_t b, std::size_t j, std::size_t h) const {
    return ((b * s_.keys + j) * s_.heads + h) * s_.head_dim;
  }

  [[nodiscard]] Row at(std::size_t b, std::size_t h, std::size_t i) const {
    Row row;
    row.visible = s_.keys;
    if (s_.causal) row.visible = i + s_.keys < s_.queries ? 0 : i + s_.keys - s_.queries + 1;
    row.o.assign(s_.head_dim, 0.0);
    row.magnitude.assign(s_.head_dim, 0.0);
    if (row.visible == 0) return row;
    weigh(row, b, h, i);

    const auto depth = static_cast<double>(s_.head_dim);
    const auto count = static_cast<double>(row.visible);
    const double rescales = std::ceil(count / 16);
    const double a = row.score;
    row.o_factor = kUnit * ((4 * depth + 28) * a + 2 * count + 12 * rescales + 20);
    row.lse_error = kUnit * ((depth + 12) * a + count + 6 * rescales + 12 +
                             4 * (std::abs(row.lse) + std::log(count)));
    row.p_error = row.lse_error + kUnit * ((depth + 8) * a + 4 * std::abs(row.lse) + 4);
    return row;
  }

 private:
  void weigh(Row& row, std::size_t b, std::size_t h, std::size_t i) const {
    row.p.resize(row.visible);
    const std::size_t q = query(b, i, h);
    for (std::size_t j = 0; j < row.visible; ++j) {
      const std::size_t k = key(b, j, h);
      double sum = 0;
      double magnitude = 0;
      for (std::size_t d = 0; d < s_.head_dim; ++d) {
        const double product = q_[q + d] * k_[k + d];
        sum += product;
        magnitude += std::abs(product);
      }
      row.p[j] = scale_ * sum;
      row.score = std::max(row.score, scale() * magnitude);
    }
    const double largest = *std::max_element(row.p.begin(), row.p.end());
    double total = 0;
    for (double& p : row.p) total += p = std::exp(p - largest);
    row.lse = largest + std::log(total);
    for (std::size_t j = 0; j < row.visible; ++j) {
      row.p[j] /= total;
      const std::size_t v = key(b, j, h);
      for (std::size_t d = 0; d < s_.head_dim; ++d) {
        row.o[d] += row.p[j] * v_[v + d];
        row.magnitude[d] += row.p[j] * std::abs(v_[v + d]);
      }
    }
  }

  testing::AttentionShape s_;
  std::span<const double> q_, k_, v_;
  double scale_;
};

template <class Body>
void for_each_row(const testing::AttentionShape& shape, Body&& body) {
  for (std::size_t b = 0; b < shape.batch; ++b) {
    for (std::size_t h = 0; h < shape.heads; ++h) {
      for (std::size_t i = 0; i < shape.queries; ++i) body(b, h, i);
    }
  }
}

/// fp32 errors of the three gradients before rounding to bf16, beside their exact values.
struct Gradients {
  std::vector<double> exact, error;
  explicit Gradients(std::size_t count) : exact(count, 0.0), error(count, 0.0) {}
  [[nodiscard]] std::vector<double> rounded_bounds() const {
    std::vector<double> result(exact.size());
    for (std::size_t e = 0; e < exact.size(); ++e) result[e] = rounded(exact[e], error[e]);
    return result;
  }
};

}  // namespace

ForwardBounds forward_bounds(const testing::AttentionShape& shape, std::span<const double> q,
                             std::span<const double> k, std::span<const double> v) {
  const Rows rows(shape, q, k, v);
  ForwardBounds result;
  result.o.assign(q.size(), 0.0);
  result.lse.assign(shape.batch * shape.heads * shape.queries, 0.0);
  for_each_row(shape, [&](std::size_t b, std::size_t h, std::size_t i) {
    const Row row = rows.at(b, h, i);
    result.lse[(b * shape.heads + h) * shape.queries + i] = row.lse_error;
    for (std::size_t d = 0; d < shape.head_dim; ++d) {
      result.o[rows.query(b, i, h) + d] = rounded(row.o[d], row.o_factor * row.magnitude[d]);
    }
  });
  return result;
}

BackwardBounds backward_bounds(const testing::AttentionShape& shape, std::span<const double> q,
                               std::span<const double> k, std::span<const double> v,
                               std::span<const double> d_o) {
  const Rows rows(shape, q, k, v);
  const std::size_t depth = shape.head_dim;
  const double dot_error = kUnit * static_cast<double>(depth + 1);
  const double query_sum =
      kUnit * static_cast<double>(shape.keys + 6);  // order of the sums is free
  const double key_sum = kUnit * static_cast<double>(shape.queries + 6);
  Gradients dq(q.size());
  Gradients dk(k.size());
  Gradients dv(v.size());
  for_each_row(shape, [&](std::size_t b, std::size_t h, std::size_t i) {
    const Row row = rows.at(b, h, i);
    const std::size_t query = rows.query(b, i, h);
    double delta = 0;
    double delta_error = 0;
    for (std::size_t d = 0; d < depth; ++d) {
      const double gradient = std::abs(d_o[query + d]);
      delta += d_o[query + d] * row.o[d];
      const double o_error = rounded(row.o[d], row.o_factor * row.magnitude[d]);
      delta_error += gradient * (o_error + dot_error * (std::abs(row.o[d]) + o_error));
    }
    for (std::size_t j = 0; j < row.visible; ++j) {
      const std::size_t key = rows.key(b, j, h);
      double dp = 0;
      double dp_magnitude = 0;
      for (std::size_t d = 0; d < depth; ++d) {
        const double product = d_o[query + d] * v[key + d];
        dp += product;
        dp_magnitude += std::abs(product);
      }
      const double p = row.p[j];
      const double ds = p * (dp - delta);
      const double ds_error = p * ((row.p_error + 3 * kUnit) * std::abs(dp - delta) +
                                   dot_error * dp_magnitude + delta_error);
      for (std::size_t d = 0; d < depth; ++d) {
        const double s = rows.scale();
        const double sign = shape.scale < 0 ? -1 : 1;
        dq.exact[query + d] += sign * s * ds * k[key + d];
        dk.exact[key + d] += sign * s * ds * q[query + d];
        dv.exact[key + d] += p * d_o[query + d];
        dq.error[query + d] += s * std::abs(k[key + d]) * (ds_error + query_sum * std::abs(ds));
        dk.error[key + d] += s * std::abs(q[query + d]) * (ds_error + key_sum * std::abs(ds));
        dv.error[key + d] += p * std::abs(d_o[query + d]) * (row.p_error + key_sum);
      }
    }
  });
  return {dq.rounded_bounds(), dk.rounded_bounds(), dv.rounded_bounds()};
}

}  // namespace rungs::attention
