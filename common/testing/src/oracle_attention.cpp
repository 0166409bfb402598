#include <rungs/core/error.hpp>
#include <rungs/testing/oracle.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace rungs::testing {
namespace {

// Offsets into [batch, sequence, heads, head_dim] and what the shape implies.
struct Indexing {
  const AttentionShape& s;
  double scale;

  explicit Indexing(const AttentionShape& shape)
      : s(shape),
        scale(shape.scale != 0 ? shape.scale : 1 / std::sqrt(static_cast<double>(shape.head_dim))) {
  }

  std::size_t query(std::size_t b, std::size_t i, std::size_t h) const {
    return ((b * s.queries + i) * s.heads + h) * s.head_dim;
  }
  std::size_t key(std::size_t b, std::size_t j, std::size_t h) const {
    return ((b * s.keys + j) * s.heads + h) * s.head_dim;
  }
  // Keys that query i sees are 0 .. visible(i) - 1.
  std::size_t visible(std::size_t i) const {
    if (!s.causal) return s.keys;
    return i + s.keys < s.queries ? 0 : std::min(s.keys, i + s.keys - s.queries + 1);
  }
};

void require_sizes(const AttentionShape& s, std::span<const double> q, std::span<const double> k,
                   std::span<const double> v) {
  const std::size_t per_token = s.batch * s.heads * s.head_dim;
  RUNGS_REQUIRE(q.size() == per_token * s.queries, "oracle attention: q has ", q.size(),
                " elements");
  RUNGS_REQUIRE(k.size() == per_token * s.keys, "oracle attention: k has ", k.size(), " elements");
  RUNGS_REQUIRE(v.size() == per_token * s.keys, "oracle attention: v has ", v.size(), " elements");
}

double dot(std::span<const double> x, std::size_t x_at, std::span<const double> y, std::size_t y_at,
           std::size_t count) {
  double sum = 0;
  for (std::size_t d = 0; d < count; ++d) sum += x[x_at + d] * y[y_at + d];
  return sum;
}

// Probabilities of one query row over its visible keys, and the row's log-sum-exp.
double probabilities(const Indexing& at, std::span<const double> q, std::span<const double> k,
                     std::size_t b, std::size_t h, std::size_t i, std::vector<double>& p) {
  const std::size_t visible = at.visible(i);
  p.assign(visible, 0.0);
  if (visible == 0) return -std::numeric_limits<double>::infinity();
  for (std::size_t j = 0; j < visible; ++j) {
    p[j] = at.scale * dot(q, at.query(b, i, h), k, at.key(b, j, h), at.s.head_dim);
  }
  const double largest = *std::max_element(p.begin(), p.end());
  double sum = 0;
  for (double& value : p) sum += value = std::exp(value - largest);
  for (double& value : p) value /= sum;
  return largest + std::log(sum);
}

template <class Body>
void for_each_row(const AttentionShape& s, Body&& body) {
  for (std::size_t b = 0; b < s.batch; ++b) {
    for (std::size_t h = 0; h < s.heads; ++h) {
      for (std::size_t i = 0; i < s.queries; ++i) body(b, h, i);
    }
  }
}

}  // namespace

AttentionForward attention_forward(const AttentionShape& shape, std::span<const double> q,
                                   std::span<const double> k, std::span<const double> v) {
  require_sizes(shape, q, k, v);
  const Indexing at(shape);
  AttentionForward result;
  result.o.assign(q.size(), 0.0);
  result.lse.assign(shape.batch * shape.heads * shape.queries, 0.0);
  std::vector<double> p;
  for_each_row(shape, [&](std::size_t b, std::size_t h, std::size_t i) {
    result.lse[(b * shape.heads + h) * shape.queries + i] = probabilities(at, q, k, b, h, i, p);
    for (std::size_t j = 0; j < p.size(); ++j) {
      for (std::size_t d = 0; d < shape.head_dim; ++d) {
        result.o[at.query(b, i, h) + d] += p[j] * v[at.key(b, j, h) + d];
      }
    }
  });
  return result;
}

// With S = scale·Q·Kᵀ, P = softmax(S), O = P·V:
//   dV = Pᵀ·dO,  dP = dO·Vᵀ,  dS = P ∘ (dP - rowsum(P ∘ dP)),  dQ = scale·dS·K,  dK = scale·dSᵀ·Q.
AttentionBackward attention_backward(const AttentionShape& shape, std::span<const double> q,
                                     std::span<const double> k, std::span<const double> v,
                                     std::span<const double> d_o) {
  require_sizes(shape, q, k, v);
  RUNGS_REQUIRE(d_o.size() == q.size(), "oracle attention: dO has ", d_o.size(), " elements");
  const Indexing at(shape);
  const std::size_t depth = shape.head_dim;
  AttentionBackward result;
  result.dq.assign(q.size(), 0.0);
  result.dk.assign(k.size(), 0.0);
  result.dv.assign(v.size(), 0.0);
  std::vector<double> p;
  std::vector<double> dp;
  for_each_row(shape, [&](std::size_t b, std::size_t h, std::size_t i) {
    probabilities(at, q, k, b, h, i, p);
    const std::size_t query = at.query(b, i, h);
    dp.assign(p.size(), 0.0);
    double row_sum = 0;
    for (std::size_t j = 0; j < p.size(); ++j) {
      dp[j] = dot(d_o, query, v, at.key(b, j, h), depth);
      row_sum += p[j] * dp[j];
    }
    for (std::size_t j = 0; j < p.size(); ++j) {
      const std::size_t key = at.key(b, j, h);
      const double ds = p[j] * (dp[j] - row_sum);
      for (std::size_t d = 0; d < depth; ++d) {
        result.dv[key + d] += p[j] * d_o[query + d];
        result.dq[query + d] += at.scale * ds * k[key + d];
        result.dk[key + d] += at.scale * ds * q[query + d];
      }
    }
  });
  return result;
}

}  // namespace rungs::testing
