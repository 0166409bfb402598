#pragma once
/// @file low_precision.hpp
/// The formulas with every intermediate tensor rounded to bf16, as a framework without a fused
/// kernel computes them: the yardstick of FlashAttention's own tests.

#include <rungs/config.hpp>
#include <rungs/core/dtype.hpp>
#include <rungs/core/error.hpp>
#include <rungs/testing/oracle.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace rungs::attention::low_precision {

inline double narrow(double value) { return to_float(to_bf16(static_cast<float>(value))); }

/// Index arithmetic of one head, and its P from scores and probabilities rounded to bf16.
struct Head {
  const testing::AttentionShape& s;
  std::size_t b, h;
  double scale = 1 / std::sqrt(static_cast<double>(s.head_dim));

  std::size_t query(std::size_t i, std::size_t d) const {
    return ((b * s.queries + i) * s.heads + h) * s.head_dim + d;
  }
  std::size_t key(std::size_t j, std::size_t d) const {
    return ((b * s.keys + j) * s.heads + h) * s.head_dim + d;
  }
  bool sees(std::size_t i, std::size_t j) const { return !s.causal || j + s.queries <= i + s.keys; }

  std::vector<double> probabilities(std::span<const double> q, std::span<const double> k) const {
    std::vector<double> p(s.queries * s.keys, 0.0);
    for (std::size_t i = 0; i < s.queries; ++i) {
      double sum = 0;
      for (std::size_t j = 0; j < s.keys; ++j) {
        if (!sees(i, j)) continue;
        double score = 0;
        for (std::size_t d = 0; d < s.head_dim; ++d)
          score += narrow(q[query(i, d)] * scale) * k[key(j, d)];
        sum += p[i * s.keys + j] = std::exp(narrow(score));
      }
      for (std::size_t j = 0; j < s.keys && sum > 0; ++j)
        p[i * s.keys + j] = narrow(p[i * s.keys + j] / sum);
    }
    return p;
  }
};

template <class Body>
void for_each_head(const testing::AttentionShape& s, Body&& body) {
  for (std::size_t b = 0; b < s.batch; ++b) {
    for (std::size_t h = 0; h < s.heads; ++h) body(Head{s, b, h});
  }
}

/// o [B, Tq, H, D].
inline std::vector<double> forward(const testing::AttentionShape& s, std::span<const double> q,
                                   std::span<const double> k, std::span<const double> v) {
  std::vector<double> o(q.size());
  for_each_head(s, [&](const Head& head) {
    const std::vector<double> p = head.probabilities(q, k);
    for (std::size_t i = 0; i < s.queries; ++i) {
      for (std::size_t d = 0; d < s.head_dim; ++d) {
        double sum = 0;
        for (std::size_t j = 0; j < s.keys; ++j) sum += p[i * s.keys + j] * v[head.key(j, d)];
        o[head.query(i, d)] = narrow(sum);
      }
    }
  });
  return o;
}

/// dq, dk, dv, one after the other.
inline std::vector<double> backward(const testing::AttentionShape& s, std::span<const double> q,
                                    std::span<const double> k, std::span<const double> v,
                                    std::span<const double> d_o) {
  std::vector<double> dq(q.size());
  std::vector<double> dk(k.size());
  std::vector<double> dv(v.size());
  for_each_head(s, [&](const Head& head) {
    const std::vector<double> p = head.probabilities(q, k);
    std::vector<double> ds(p.size());
    for (std::size_t i = 0; i < s.queries; ++i) {
      double row_sum = 0;
      for (std::size_t j = 0; j < s.keys; ++j) {
        double dp = 0;
        for (std::size_t d = 0; d < s.head_dim; ++d)
          dp += d_o[head.query(i, d)] * v[head.key(j, d)];
        ds[i * s.keys + j] = narrow(dp);
        row_sum += p[i * s.keys + j] * narrow(dp);
      }
      for (std::size_t j = 0; j < s.keys; ++j) {
        double& value = ds[i * s.keys + j];
        value = narrow(p[i * s.keys + j] * (value - row_sum));
      }
    }
    for (std::size_t d = 0; d < s.head_dim; ++d) {
      for (std::size_t i = 0; i < s.queries; ++i) {
        double sum = 0;
        for (std::size_t j = 0; j < s.keys; ++j) sum += ds[i * s.keys + j] * k[head.key(j, d)];
        dq[head.query(i, d)] = narrow(narrow(sum) * head.scale);
      }
      for (std::size_t j = 0; j < s.keys; ++j) {
        double dk_sum = 0;
        double dv_sum = 0;
        for (std::size_t i = 0; i < s.queries; ++i) {
          dk_sum += ds[i * s.keys + j] * narrow(q[head.query(i, d)] * head.scale);
          dv_sum += p[i * s.keys + j] * d_o[head.query(i, d)];
        }
        dk[head.key(j, d)] = narrow(dk_sum);
        dv[head.key(j, d)] = narrow(dv_sum);
      }
    }
  });
  dq.insert(dq.end(), dk.begin(), dk.end());
  dq.insert(dq.end(), dv.begin(), dv.end());
  return dq;
}

/// Empty if max|got - exact| <= factor * max|low - exact| + 2 * max|bf16(bf16(exact + 0.3) - 0.3) -
/// exact| over the first `count` elements; otherwise the figures.
inline std::string worse_than(const std::vector<float>& got, const std::vector<double>& low,
                              const std::vector<double>& exact, std::size_t count, double factor) {
  double ours = 0;
  double theirs = 0;
  double rounding = 0;
  for (std::size_t e = 0; e < count; ++e) {
    const double error = std::abs(got[e] - exact[e]);
    if (!(error <= ours)) ours = error;  // NaN stays
    theirs = std::max(theirs, std::abs(low[e] - exact[e]));
    rounding = std::max(rounding, std::abs(narrow(narrow(exact[e] + 0.3) - 0.3) - exact[e]));
  }
  const double allowed = factor * theirs + 2 * rounding;
  if (ours <= allowed) return {};
  return concat("largest error ", ours, ", low precision ", theirs, ", allowed ", allowed);
}

}  // namespace rungs::attention::low_precision
