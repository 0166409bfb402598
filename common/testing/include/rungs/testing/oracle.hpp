#pragma once
/// @file oracle.hpp
/// What the operations mean, in plain double-precision loops. Oracles share no code with any rung
/// and take no short cut a rung takes: they are slow on purpose and easy to read. All arrays are
/// dense, row-major, host memory.

#include <rungs/config.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace rungs::testing {

/// How an operand of a product lies in memory.
enum class Layout {
  kPlain,       ///< [rows, columns] as the formula has it
  kTransposed,  ///< [columns, rows]
};

/// C[M, N] = A·B, A is [M, K] (transposed: [K, M]) and B is [K, N] (transposed: [N, K]).
/// With |A| and |B| (magnitudes()) it gives the sum that rounding bounds are made of.
std::vector<double> matmul(std::span<const double> a, std::span<const double> b, std::size_t m,
                           std::size_t n, std::size_t k, Layout a_layout = Layout::kPlain,
                           Layout b_layout = Layout::kPlain);
/// |x| of every element.
std::vector<double> magnitudes(std::span<const double> values);

/// Sizes of one attention call.
struct AttentionShape {
  std::size_t batch = 1;
  std::size_t queries = 1;
  std::size_t keys = 1;
  std::size_t heads = 1;
  std::size_t head_dim = 1;
  double scale = 0;     ///< 0: 1/sqrt(head_dim)
  bool causal = false;  ///< query i sees keys j <= i + keys - queries
};

struct AttentionForward {
  std::vector<double> o;    ///< [batch, queries, heads, head_dim]; 0 where every key is masked
  std::vector<double> lse;  ///< [batch, heads, queries]; -inf where every key is masked
};
/// q is [batch, queries, heads, head_dim], k and v are [batch, keys, heads, head_dim].
AttentionForward attention_forward(const AttentionShape& shape, std::span<const double> q,
                                   std::span<const double> k, std::span<const double> v);

struct AttentionBackward {
  std::vector<double> dq, dk, dv;  ///< shapes of q, k, v
};
/// Gradients of sum(o · d_o), from a forward pass of its own (the rung's o and lse are not used).
AttentionBackward attention_backward(const AttentionShape& shape, std::span<const double> q,
                                     std::span<const double> k, std::span<const double> v,
                                     std::span<const double> d_o);

/// Softmax of every row of [rows, columns].
std::vector<double> softmax(std::span<const double> x, std::size_t columns);

struct LayerNormForward {
  std::vector<double> y;     ///< [rows, columns]
  std::vector<double> mean;  ///< [rows]
  /// [rows], 1/sqrt(variance + epsilon); the variance divides by the number of columns
  std::vector<double> rstd;
};
LayerNormForward layer_norm_forward(std::span<const double> x, std::span<const double> weight,
                                    std::span<const double> bias, double epsilon);
struct LayerNormBackward {
  std::vector<double> dx;              ///< [rows, columns]
  std::vector<double> dweight, dbias;  ///< [columns]
};
LayerNormBackward layer_norm_backward(std::span<const double> x, std::span<const double> weight,
                                      std::span<const double> dy, double epsilon);

/// x·Φ(x) with the error function, and its derivative.
double gelu(double x);
double gelu_derivative(double x);
/// The tanh approximation of gelu, and its derivative.
double gelu_tanh(double x);
double gelu_tanh_derivative(double x);

struct CrossEntropy {
  double loss = 0;                 ///< mean over rows, nats
  std::vector<double> row_losses;  ///< [rows]
  std::vector<double> dlogits;     ///< [rows, classes]: gradient of the mean
};
/// @param targets one class a row
CrossEntropy cross_entropy(std::span<const double> logits, std::span<const std::int32_t> targets,
                           std::size_t classes);

/// One AdamW step (decoupled weight decay) in place. @param step counts from 1
/// @see Loshchilov, Hutter: Decoupled Weight Decay Regularization, ICLR 2019, algorithm 2
void adamw(std::span<double> parameters, std::span<double> first_moment,
           std::span<double> second_moment, std::span<const double> gradient, double learning_rate,
           double beta1, double beta2, double epsilon, double weight_decay, int step);

}  // namespace rungs::testing
