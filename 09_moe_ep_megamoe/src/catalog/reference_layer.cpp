#include "catalog/reference_layer.hpp"

#include <rungs/testing/oracle.hpp>
#include <rungs/testing/random.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace rungs::moe {
namespace {

using Row = std::vector<double>;

constexpr double kBf16 = 1.0 / 256;       // relative error of one rounding
constexpr double kF32 = 1.0 / (1 << 24);  // relative error of one rounding
constexpr double kFunction = 16 * kF32;   // of expf and what is made of it
constexpr double kGeluSlope = 1.13;       // max |gelu'|
constexpr double kGeluCurvature = 0.85;   // max |gelu''|
constexpr double kSecondOrder = 1.01;     // products of errors

// Relative error of a sum of n products in fp32, in any order.
double sum_error(std::size_t n) { return static_cast<double>(n + 2) * kF32; }

struct Token {
  std::size_t rank = 0, index = 0;
  Row p;                            // softmax
  std::vector<std::size_t> chosen;  // experts
  std::vector<char> kept;           // by choice
  Row gate;
  double p_error = 0;  // relative
};

class Reference {
 public:
  Reference(const MoeInputs& inputs, int capacity, bool with_vjp)
      : in_(inputs),
        width_(static_cast<std::size_t>(inputs.spec.width)),
        hidden_(static_cast<std::size_t>(inputs.spec.hidden)),
        experts_(static_cast<std::size_t>(inputs.spec.experts)),
        top_k_(static_cast<std::size_t>(inputs.spec.top_k)),
        capacity_(capacity),
        with_vjp_(with_vjp),
        up_(testing::to_double(inputs.up)),
        down_(testing::to_double(inputs.down)) {}

  LayerReference run() {
    r_.d_up.resize(experts_ * hidden_ * width_);
    r_.d_down.resize(experts_ * width_ * hidden_);
    for (std::size_t rank = 0; rank < in_.x.size(); ++rank) {
      x_.push_back(testing::to_double(in_.x[rank]));
      d_.push_back(testing::to_double(in_.d_residual[rank]));
      r_.counts.emplace_back(experts_, 0);
      r_.dropped.emplace_back(experts_, 0);
      r_.out.emplace_back().resize(x_[rank].size());
      r_.dx.emplace_back().resize(x_[rank].size());
      r_.d_router.emplace_back().resize(experts_ * width_);
      for (std::size_t i = 0; i < x_[rank].size() / width_; ++i) tokens_.push_back(route(rank, i));
    }
    total_ = static_cast<double>(tokens_.size());
    balance();
    for (Token& token : tokens_) through(token);
    return std::move(r_);
  }

 private:
  Token route(std::size_t rank, std::size_t index) {
    Token token;
    token.rank = rank;
    token.index = index;
    const double* x = x_[rank].data() + index * width_;
    Row logits(experts_, 0.0);
    double magnitude = 0;
    for (std::size_t e = 0; e < experts_; ++e) {
      double sum = 0;
      for (std::size_t c = 0; c < width_; ++c) {
        const double term = x[c] * static_cast<double>(in_.router[e * width_ + c]);
        logits[e] += term;
        sum += std::abs(term);
      }
      magnitude = std::max(magnitude, sum);
    }
    token.p = testing::softmax(logits, experts_);
    // An error of a logit, and one of the largest that is taken off, come out as relative errors.
    token.p_error = 3 * sum_error(width_) * magnitude + sum_error(experts_) + kFunction;
    std::vector<std::size_t> order(experts_);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return logits[a] > logits[b]; });
    token.chosen.assign(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(top_k_));
    double chosen = 0;
    for (const std::size_t e : token.chosen) chosen += token.p[e];
    for (const std::size_t e : token.chosen) {
      token.gate.push_back(token.p[e] / chosen);
      const bool fits = r_.counts[rank][e] < capacity_;
      token.kept.push_back(fits ? 1 : 0);
      ++(fits ? r_.counts : r_.dropped)[rank][e];
    }
    return token;
  }

  void balance() {
    r_.balance.resize(experts_);
    shares_.assign(experts_, 0.0);
    if (tokens_.empty()) return;
    double error = sum_error(tokens_.size() + in_.x.size());
    Row mean(experts_, 0.0);
    for (const Token& token : tokens_) {
      error = std::max(error, token.p_error + sum_error(tokens_.size() + in_.x.size()));
      for (std::size_t e = 0; e < experts_; ++e) mean[e] += token.p[e] / total_;
      for (const std::size_t e : token.chosen)
        shares_[e] += 1.0 / (total_ * static_cast<double>(top_k_));
    }
    for (std::size_t e = 0; e < experts_; ++e) {
      r_.balance.value[e] = shares_[e] * mean[e];
      r_.balance.bound[e] = (error + 4 * kF32) * shares_[e] * mean[e];
    }
  }

  // One token through its experts and, with VJP, back.
  void through(Token& token) {
    const std::size_t at = token.index * width_;
    const double* d = d_[token.rank].data() + at;
    Judged& out = r_.out[token.rank];
    const double gate_error = 2 * token.p_error + 4 * kF32;
    Row d_gate(top_k_, 0.0), d_gate_bound(top_k_, 0.0);
    Row magnitude(width_);
    for (std::size_t c = 0; c < width_; ++c) {
      const double before = static_cast<double>(in_.residual[token.rank][at + c]);
      out.value[at + c] = before;
      magnitude[c] = std::abs(before);
    }
    for (std::size_t j = 0; j < top_k_; ++j) {
      if (token.kept[j] == 0) continue;
      const double g = token.gate[j];
      Row y(width_), y_bound(width_);
      expert(token, j, g, gate_error, y, y_bound);
      for (std::size_t c = 0; c < width_; ++c) {
        out.value[at + c] += g * y[c];
        out.bound[at + c] += kSecondOrder * g * (gate_error * std::abs(y[c]) + y_bound[c]);
        magnitude[c] += g * std::abs(y[c]);
        d_gate[j] += y[c] * d[c];
        d_gate_bound[j] +=
            kSecondOrder * (y_bound[c] + sum_error(width_) * std::abs(y[c])) * std::abs(d[c]);
      }
    }
    for (std::size_t c = 0; c < width_; ++c)
      out.bound[at + c] += sum_error(2 * top_k_) * magnitude[c];
    if (with_vjp_) router_vjp(token, d_gate, d_gate_bound, gate_error);
  }

  // y = down·gelu(up·x), and all gradients but the router's.
  void expert(const Token& token, std::size_t choice, double g, double gate_error, Row& y,
              Row& y_bound) {
    const std::size_t e = token.chosen[choice];
    const std::size_t at = token.index * width_;
    const double* x = x_[token.rank].data() + at;
    const double* up = up_.data() + e * hidden_ * width_;
    const double* down = down_.data() + e * width_ * hidden_;
    Row h(hidden_), h_bound(hidden_), a(hidden_), a_bound(hidden_);
    for (std::size_t i = 0; i < hidden_; ++i) {
      double sum = 0;
      for (std::size_t c = 0; c < width_; ++c) {
        h[i] += x[c] * up[i * width_ + c];
        sum += std::abs(x[c] * up[i * width_ + c]);
      }
      h_bound[i] = kSecondOrder * (kBf16 * std::abs(h[i]) + sum_error(width_) * sum);
      a[i] = testing::gelu_tanh(h[i]);
      a_bound[i] = kSecondOrder *
                   (kGeluSlope * h_bound[i] + kBf16 * std::abs(a[i]) + kFunction * std::abs(h[i]));
    }
    for (std::size_t c = 0; c < width_; ++c) {
      for (std::size_t i = 0; i < hidden_; ++i) {
        const double weight = down[c * hidden_ + i];
        y[c] += a[i] * weight;
        y_bound[c] +=
            kSecondOrder * (a_bound[i] + sum_error(hidden_) * std::abs(a[i])) * std::abs(weight);
      }
    }
    if (!with_vjp_) return;
    const double* d = d_[token.rank].data() + at;
    const double rows = sum_error(tokens_.size());
    Row d_out(width_), d_out_bound(width_), d_a(hidden_, 0.0), d_a_bound(hidden_, 0.0);
    for (std::size_t c = 0; c < width_; ++c) {
      d_out[c] = g * d[c];
      d_out_bound[c] = kSecondOrder * (gate_error + kBf16 + kF32) * std::abs(d_out[c]);
    }
    for (std::size_t c = 0; c < width_; ++c) {
      for (std::size_t i = 0; i < hidden_; ++i) {
        const std::size_t w = (e * width_ + c) * hidden_ + i;
        d_a[i] += d_out[c] * down_[w];
        d_a_bound[i] +=
            (d_out_bound[c] + sum_error(width_) * std::abs(d_out[c])) * std::abs(down_[w]);
        r_.d_down.value[w] += d_out[c] * a[i];
        r_.d_down.bound[w] +=
            kSecondOrder * (d_out_bound[c] * std::abs(a[i]) + std::abs(d_out[c]) * a_bound[i] +
                            rows * std::abs(d_out[c] * a[i]));
      }
    }
    Judged& dx = r_.dx[token.rank];
    for (std::size_t i = 0; i < hidden_; ++i) {
      const double bound = kSecondOrder * d_a_bound[i] + kBf16 * std::abs(d_a[i]);
      const double slope = testing::gelu_tanh_derivative(h[i]);
      const double slope_bound = kGeluCurvature * h_bound[i] + kFunction * (1 + std::abs(h[i]));
      const double d_h = d_a[i] * slope;
      const double d_h_bound =
          kSecondOrder * (bound * std::abs(slope) + std::abs(d_a[i]) * slope_bound +
                          bound * slope_bound + kBf16 * std::abs(d_h));
      for (std::size_t c = 0; c < width_; ++c) {
        const std::size_t w = (e * hidden_ + i) * width_ + c;
        dx.value[at + c] += d_h * up_[w];
        dx.bound[at + c] += kSecondOrder *
                            (d_h_bound + sum_error(hidden_ + experts_ + top_k_) * std::abs(d_h)) *
                            std::abs(up_[w]);
        r_.d_up.value[w] += d_h * x[c];
        r_.d_up.bound[w] += kSecondOrder * (d_h_bound + rows * std::abs(d_h)) * std::abs(x[c]);
      }
    }
  }

  void router_vjp(const Token& token, const Row& d_gate, const Row& d_gate_bound,
                  double gate_error) {
    // 1. Gradients of the probabilities: of the balance loss, and of the renormalised gates.
    Row d_p(experts_), d_p_bound(experts_);
    for (std::size_t e = 0; e < experts_; ++e) {
      d_p[e] = static_cast<double>(in_.spec.aux_weight) * static_cast<double>(experts_) *
               shares_[e] / total_;
      d_p_bound[e] = 6 * kF32 * d_p[e];
    }
    double chosen = 0, mean = 0, mean_bound = 0;
    for (std::size_t j = 0; j < top_k_; ++j) {
      chosen += token.p[token.chosen[j]];
      mean += d_gate[j] * token.gate[j];
      mean_bound += (d_gate_bound[j] + (gate_error + sum_error(top_k_)) * std::abs(d_gate[j])) *
                    token.gate[j];
    }
    for (std::size_t j = 0; j < top_k_; ++j) {
      const std::size_t e = token.chosen[j];
      const double terms = std::abs(d_gate[j]) + std::abs(mean);
      d_p[e] += (d_gate[j] - mean) / chosen;
      d_p_bound[e] += kSecondOrder *
                      (d_gate_bound[j] + mean_bound + (token.p_error + 4 * kF32) * terms) / chosen;
    }
    // 2. Through the softmax.
    double dot = 0, dot_bound = 0, magnitude = 0;
    for (std::size_t e = 0; e < experts_; ++e) {
      dot += token.p[e] * d_p[e];
      dot_bound += token.p[e] * d_p_bound[e];
      magnitude += token.p[e] * std::abs(d_p[e]);
    }
    const std::size_t at = token.index * width_;
    const double* x = x_[token.rank].data() + at;
    Judged& dx = r_.dx[token.rank];
    Judged& d_router = r_.d_router[token.rank];
    for (std::size_t e = 0; e < experts_; ++e) {
      const double d_z = token.p[e] * (d_p[e] - dot);
      const double bound =
          kSecondOrder * token.p[e] *
          (d_p_bound[e] + dot_bound +
           (2 * token.p_error + sum_error(experts_)) * (std::abs(d_p[e]) + magnitude));
      // 3. To the token and to the router's weights.
      for (std::size_t c = 0; c < width_; ++c) {
        const double weight = static_cast<double>(in_.router[e * width_ + c]);
        dx.value[at + c] += d_z * weight;
        dx.bound[at + c] +=
            (bound + sum_error(experts_ + top_k_) * std::abs(d_z)) * std::abs(weight);
        d_router.value[e * width_ + c] += d_z * x[c];
        d_router.bound[e * width_ + c] +=
            (bound + sum_error(tokens_.size()) * std::abs(d_z)) * std::abs(x[c]);
      }
    }
  }

  const MoeInputs& in_;
  std::size_t width_, hidden_, experts_, top_k_;
  std::int32_t capacity_;
  bool with_vjp_;
  std::vector<double> up_, down_;
  std::vector<std::vector<double>> x_, d_;
  std::vector<Token> tokens_;
  double total_ = 0;
  Row shares_;
  LayerReference r_;
};

}  // namespace

LayerReference reference_layer(const MoeInputs& inputs, int capacity, bool with_vjp) {
  return Reference(inputs, capacity, with_vjp).run();
}

}  // namespace rungs::moe
