#pragma once
/// @file attention_problem.hpp
/// One attention call with its inputs, oracle and bounds: what the harness and the tests run both
/// ladders on.

#include <rungs/attention/attention.hpp>
#include <rungs/core/dtype.hpp>
#include <rungs/gpu/buffer.hpp>
#include <rungs/ladder/build.hpp>
#include <rungs/testing/oracle.hpp>
#include <rungs/testing/poison.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace rungs::attention {

/// What the harness or a test asks for.
struct ProblemShape {
  int batch = 1;
  int queries = 1;
  int keys = 1;
  int heads = 1;
  int head_dim = 32;
  bool causal = false;
  float scale = 0;
  /// q, k and v are slices of one [B, T, 3, H, D] tensor, dq, dk and dv of another; needs queries
  /// == keys.
  bool packed = false;
  int pad = 0;  ///< elements between the end of a token and the next
  int offset =
      0;  ///< elements by which every tensor starts late: 1 takes away the 16-byte alignment
  /// All heads hold one head's values, each with its elements rotated by another distance, which
  /// leaves scores alone: the oracle computes one head and still says what every element of every
  /// head must be. For large cases.
  bool replicated = false;
};

/// "B4 H4 T64 D32 causal", or "Tq113 Tk203" when the two differ.
std::string to_string(const ProblemShape& shape);
/// Scores that the mask leaves: what FLOPs are counted by.
double visible_scores(const ProblemShape& shape);

/// bf16 tensors [B, T, H, D] that lie side by side in each token of one guarded device buffer.
class TokenBuffer {
 public:
  TokenBuffer(const ProblemShape& shape, int sequence, int slots, const gpu::Device& device);
  [[nodiscard]] Tensor<4> view(int slot) const;
  /// `dense`: one vector a slot, in the order of the view's indices. Everything between them stays
  /// poison.
  void upload(const std::vector<std::vector<bf16>>& dense) const;
  [[nodiscard]] std::vector<bf16> download(int slot) const;
  void poison() const { buffer_.poison(); }
  /// Empty, or which element outside the views was written.
  [[nodiscard]] std::string stray_write() const;

 private:
  /// Where a token's part of a slot begins.
  [[nodiscard]] std::size_t position(int slot, std::size_t token) const;
  std::size_t tokens_, elements_, pitch_, offset_;  // elements: of one token in one slot
  int slots_;
  std::array<std::int64_t, 4> extents_;
  testing::GuardedBuffer<bf16> buffer_;
};

/// Inputs of both passes on host and device, from a seed.
class Inputs {
 public:
  Inputs(const ProblemShape& shape, const gpu::Device& device, std::uint64_t seed);
  [[nodiscard]] ConstTensor<4> q() const;
  [[nodiscard]] ConstTensor<4> k() const;
  [[nodiscard]] ConstTensor<4> v() const;

  /// What the oracle works on: all heads, or the one that is replicated.
  [[nodiscard]] const testing::AttentionShape& oracle_shape() const { return oracle_shape_; }
  [[nodiscard]] std::span<const double> exact_q() const { return exact_q_; }
  [[nodiscard]] std::span<const double> exact_k() const { return exact_k_; }
  [[nodiscard]] std::span<const double> exact_v() const { return exact_v_; }

  /// Which of two rotations a tensor has: q and k together, so that scores stay; v, o and their
  /// gradients together.
  enum class Side { kScores, kValues };
  /// An oracle-sized [.., sequence, .., D] tensor as the device sees it: repeated over all heads,
  /// each turned.
  template <class T>
  [[nodiscard]] std::vector<T> expand(const std::vector<T>& base, int sequence, Side side) const {
    if (!shape_.replicated) return base;
    const std::size_t depth = oracle_shape_.head_dim;
    std::vector<T> result;
    result.reserve(elements(sequence));
    for (std::size_t b = 0; b < static_cast<std::size_t>(shape_.batch); ++b) {
      for (std::size_t token = 0; token < static_cast<std::size_t>(sequence); ++token) {
        const auto row = base.begin() + static_cast<std::ptrdiff_t>(token * depth);
        for (std::size_t h = 0; h < static_cast<std::size_t>(shape_.heads); ++h) {
          const auto first = row + static_cast<std::ptrdiff_t>(turn(b, h, side));
          result.insert(result.end(), first, row + static_cast<std::ptrdiff_t>(depth));
          result.insert(result.end(), row, first);
        }
      }
    }
    return result;
  }
  [[nodiscard]] std::size_t elements(int sequence) const;
  [[nodiscard]] std::size_t oracle_elements(int sequence) const;

 private:
  [[nodiscard]] std::size_t turn(std::size_t batch, std::size_t head, Side side) const;
  ProblemShape shape_;
  testing::AttentionShape oracle_shape_;
  std::vector<double> exact_q_, exact_k_, exact_v_;
  std::vector<TokenBuffer> buffers_;  // one packed, or q, k and v
};

/// Output: o [B, Tq, H, D], then lse [B, H, Tq].
class ForwardProblem final : public ladder::Problem<ForwardArgs> {
 public:
  ForwardProblem(const ProblemShape& shape, const gpu::Device& device, std::uint64_t seed);
  ForwardArgs args() override;
  void reset() override;
  std::vector<float> output() override;
  ladder::Reference reference() override;
  double bound(std::size_t element) override { return bounds_.at(element); }
  std::string describe(std::size_t element) override;
  [[nodiscard]] std::string stray_write() const;
  [[nodiscard]] const Inputs& inputs() const { return inputs_; }

 private:
  ProblemShape shape_;
  Inputs inputs_;
  TokenBuffer o_;
  testing::GuardedBuffer<float> lse_;
  std::vector<double> bounds_;
};

/// Output: dq [B, Tq, H, D], then dk and dv [B, Tk, H, D].
class BackwardProblem final : public ladder::Problem<BackwardArgs> {
 public:
  /// o and lse come from the oracle, rounded; with `replicated` from a ForwardPlan, whose errors
  /// the bound covers.
  BackwardProblem(const ProblemShape& shape, const gpu::Device& device, std::uint64_t seed);
  BackwardArgs args() override;
  void reset() override;
  std::vector<float> output() override;
  ladder::Reference reference() override;
  double bound(std::size_t element) override { return bounds_.at(element); }
  std::string describe(std::size_t element) override;
  [[nodiscard]] std::string stray_write() const;
  [[nodiscard]] const Inputs& inputs() const { return inputs_; }
  [[nodiscard]] std::span<const double> exact_d_o() const { return exact_d_o_; }

 private:
  ProblemShape shape_;
  gpu::Device device_;
  Inputs inputs_;
  TokenBuffer o_, d_o_;
  gpu::Buffer<float> lse_;
  std::vector<TokenBuffer> gradients_;  // one packed, or dq, dk and dv
  std::vector<double> exact_d_o_;
  std::vector<double> bounds_;
};

}  // namespace rungs::attention
