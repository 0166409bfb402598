#include "catalog/reference_model.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace rungs::training::reference {
namespace {

using Row = std::vector<double>;
using Rows = std::vector<Row>;

Row normed(const Row& x, const std::vector<double>& gain, const std::vector<double>& bias) {
  double mean = 0;
  for (const double value : x) mean += value / static_cast<double>(x.size());
  double variance = 0;
  for (const double value : x)
    variance += (value - mean) * (value - mean) / static_cast<double>(x.size());
  Row y(x.size());
  for (std::size_t c = 0; c < x.size(); ++c)
    y[c] = (x[c] - mean) / std::sqrt(variance + 1e-5) * gain[c] + bias[c];
  return y;
}

// rows [first, first + out) of a matrix with x.size() columns, times x.
Row times(const std::vector<double>& matrix, std::size_t first, std::size_t out, const Row& x) {
  Row y(out, 0.0);
  for (std::size_t o = 0; o < out; ++o)
    for (std::size_t c = 0; c < x.size(); ++c) y[o] += matrix[(first + o) * x.size() + c] * x[c];
  return y;
}

void softmax(Row& z) {
  double largest = z[0];
  for (const double value : z) largest = std::fmax(largest, value);
  double sum = 0;
  for (double& value : z) sum += value = std::exp(value - largest);
  for (double& value : z) value /= sum;
}

double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
}

void add_attention(Rows& x, const Rows& qkv, std::size_t context, std::size_t heads,
                   const std::vector<double>& projection) {
  const std::size_t width = x[0].size();
  const std::size_t dim = width / heads;
  for (std::size_t n = 0; n < x.size(); ++n) {
    const std::size_t start = n / context * context;  // of this token's sequence
    Row attended(width, 0.0);
    for (std::size_t head = 0; head < heads; ++head) {
      Row scores;
      for (std::size_t m = start; m <= n; ++m) {
        double dot = 0;
        for (std::size_t c = 0; c < dim; ++c)
          dot += qkv[n][head * dim + c] * qkv[m][width + head * dim + c];
        scores.push_back(dot / std::sqrt(static_cast<double>(dim)));
      }
      softmax(scores);
      for (std::size_t m = start; m <= n; ++m)
        for (std::size_t c = 0; c < dim; ++c)
          attended[head * dim + c] += scores[m - start] * qkv[m][2 * width + head * dim + c];
    }
    const Row out = times(projection, 0, width, attended);
    for (std::size_t c = 0; c < width; ++c) x[n][c] += out[c];
  }
}

// The top_k most probable experts, the most probable first.
std::vector<std::size_t> most_probable(const Row& p, std::size_t top_k) {
  std::vector<std::size_t> order;
  for (std::size_t e = 0; e < p.size(); ++e) order.push_back(e);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return p[a] > p[b]; });
  order.resize(top_k);
  return order;
}

}  // namespace

Result run(const ModelConfig& model, const Weights& weights, const Input& input) {
  const auto width = static_cast<std::size_t>(model.width),
             context = static_cast<std::size_t>(model.context),
             heads = static_cast<std::size_t>(model.heads),
             experts = static_cast<std::size_t>(model.experts),
             top_k = static_cast<std::size_t>(model.top_k),
             hidden = static_cast<std::size_t>(model.hidden),
             layers = static_cast<std::size_t>(model.layers), tokens = input.tokens.size();
  Result result;
  Rows x(tokens, Row(width));
  for (std::size_t n = 0; n < tokens; ++n)
    for (std::size_t c = 0; c < width; ++c)
      x[n][c] =
          weights.at("embedding.token")[static_cast<std::size_t>(input.tokens[n]) * width + c] +
          weights.at("embedding.position")[n % context * width + c];

  for (std::size_t l = 0; l < layers; ++l) {
    const std::string layer = "layer" + std::to_string(l) + ".";
    const auto get = [&](const char* name) -> const std::vector<double>& {
      return weights.at(layer + name);
    };
    Rows qkv;
    for (const Row& row : x)
      qkv.push_back(times(get("attention.qkv"), 0, 3 * width,
                          normed(row, get("norm1.gain"), get("norm1.bias"))));
    add_attention(x, qkv, context, heads, get("attention.projection"));

    Row share(experts, 0.0), mean(experts, 0.0);
    auto& all = result.probabilities.emplace_back();
    for (std::size_t n = 0; n < tokens; ++n) {
      const Row y = normed(x[n], get("norm2.gain"), get("norm2.bias"));
      Row p = times(get("router"), 0, experts, y);
      softmax(p);
      all.insert(all.end(), p.begin(), p.end());
      std::vector<std::size_t> choice = most_probable(p, top_k);
      if (!input.expert.empty()) {
        const auto given = input.expert[l].begin() + static_cast<std::ptrdiff_t>(n * top_k);
        choice.assign(given, given + static_cast<std::ptrdiff_t>(top_k));
      }
      double chosen = 0;
      for (const std::size_t e : choice) chosen += p[e];
      for (std::size_t e = 0; e < experts; ++e) mean[e] += p[e] / static_cast<double>(tokens);
      for (const std::size_t e : choice) {
        share[e] += 1.0 / static_cast<double>(tokens * top_k);
        Row middle = times(get("experts.up"), e * hidden, hidden, y);
        for (double& value : middle) value = gelu(value);
        const Row out = times(get("experts.down"), e * width, width, middle);
        for (std::size_t c = 0; c < width; ++c) x[n][c] += p[e] / chosen * out[c];
      }
    }
    for (std::size_t e = 0; e < experts; ++e)
      result.balance += static_cast<double>(experts) * share[e] * mean[e];
  }
  for (std::size_t n = 0; n < tokens; ++n) {
    Row p = times(weights.at("head"), 0, 256,
                  normed(x[n], weights.at("final_norm.gain"), weights.at("final_norm.bias")));
    softmax(p);
    result.cross_entropy -=
        std::log(p[static_cast<std::size_t>(input.targets[n])]) / static_cast<double>(tokens);
  }
  return result;
}

}  // namespace rungs::training::reference
