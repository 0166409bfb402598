#include "catalog/gemm_problem.hpp"

#include <rungs/core/error.hpp>
#include <rungs/testing/random.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

namespace rungs::gemm {
namespace {

constexpr double kUnitF32 = 0x1p-24;    // half an ulp of f32, relative
constexpr double kUnitBf16 = 0x1p-8;    // half an ulp of bf16 (8 significant bits), relative
constexpr double kFullOracle = 0x1p28;  // multiply-adds
constexpr std::size_t kSamples = 4096;
constexpr int kTileDepth = 64;  // Args::valid_depth: a tile is read whole

const float kNaN = std::numeric_limits<float>::quiet_NaN();

/// `count` values. Above a million they repeat with a prime period, so that no two rows are alike
/// and a large problem is made in no time.
std::vector<bf16> values(std::size_t count, bool integers, std::uint64_t seed) {
  constexpr std::size_t kPeriod = 1048573;
  const std::size_t drawn = std::min(count, kPeriod);
  std::vector<bf16> result;
  if (integers) {
    for (const std::int32_t value : testing::integers(drawn, seed, -8, 8)) {
      result.push_back(to_bf16(static_cast<float>(value)));
    }
  } else {
    result = testing::normal_bf16(drawn, seed);
  }
  result.resize(count);
  for (std::size_t i = drawn; i < count; ++i) result[i] = result[i - kPeriod];
  return result;
}

std::int64_t round_up(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace

std::string to_string(const GemmShape& shape) {
  std::string text = concat(shape.m, "x", shape.n, "x", shape.k);
  if (shape.a_m_major) text += ", A^T";
  if (shape.b_n_major) text += ", B^T";
  if (shape.beta != 0) text += concat(", beta ", shape.beta);
  if (shape.c_dtype == DType::kBf16) text += ", bf16";
  if (shape.dense) text += ", dense";
  if (shape.c_pad != 0) text += concat(", pitch N+", shape.c_pad);
  if (shape.valid_rows) text += concat(", rows ", *shape.valid_rows);
  if (shape.valid_depth) text += concat(", depth ", *shape.valid_depth);
  if (shape.integers) text += ", integers";
  return text;
}

GemmProblem::GemmProblem(const GemmShape& shape, const gpu::Device& device, std::uint64_t seed)
    : shape_(shape),
      device_(device) {
  a_ = make_operand(shape.m, shape.a_m_major, live_rows(), 3 * seed);
  b_ = make_operand(shape.n, shape.b_n_major, shape.n, 3 * seed + 1);
  c_pitch_ = shape.n + shape.c_pad;
  const std::size_t c_count = static_cast<std::size_t>(shape.m) * static_cast<std::size_t>(shape.n);
  const auto c_elements = static_cast<std::size_t>(shape.m * c_pitch_);
  if (shape.beta != 0) old_c_ = testing::to_float(values(c_count, shape.integers, 3 * seed + 2));
  if (shape.c_dtype == DType::kBf16) {
    c_bf16_.emplace(device_, c_elements);
  } else {
    c_f32_.emplace(device_, c_elements);
  }
  if (shape.valid_rows) {
    valid_rows_ = gpu::Buffer<std::int32_t>(device_, 1);
    set_valid_rows(*shape.valid_rows);
  }
  if (shape.valid_depth) {
    valid_depth_ = gpu::Buffer<std::int32_t>(device_, 1);
    set_valid_depth(*shape.valid_depth);
  }
}

GemmProblem::Operand GemmProblem::make_operand(int extent, bool mn_major, int live_extent,
                                               std::uint64_t seed) const {
  const auto rows = static_cast<std::size_t>(extent);
  const auto depth = static_cast<std::size_t>(shape_.k);
  Operand operand;
  operand.host = values(rows * depth, shape_.integers, seed);
  // The caller of valid_depth keeps the rest of the last tile at zero; what lies beyond must not
  // matter.
  const auto summed = static_cast<std::size_t>(live_depth());
  const std::size_t zeroed =
      std::min(depth, static_cast<std::size_t>(round_up(live_depth(), kTileDepth)));
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t k = summed; k < depth; ++k)
      operand.host[row * depth + k] = to_bf16(k < zeroed ? 0.0f : kNaN);
    if (row >= static_cast<std::size_t>(live_extent)) {
      for (std::size_t k = 0; k < depth; ++k) operand.host[row * depth + k] = to_bf16(kNaN);
    }
    double squares = 0;
    for (std::size_t k = 0; k < summed; ++k) {
      const double value = to_float(operand.host[row * depth + k]);
      squares += value * value;
    }
    operand.norms.push_back(std::sqrt(squares));
  }

  const std::size_t lines = mn_major ? depth : rows;
  const std::size_t line = mn_major ? rows : depth;
  const auto length = static_cast<std::int64_t>(line);
  operand.pitch = shape_.dense ? length : round_up(length, 8) + shape_.ab_pad;
  std::vector<bf16> laid_out(lines * static_cast<std::size_t>(operand.pitch), to_bf16(kNaN));
  for (std::size_t i = 0; i < lines; ++i) {
    for (std::size_t j = 0; j < line; ++j) {
      laid_out[i * static_cast<std::size_t>(operand.pitch) + j] =
          mn_major ? operand.host[j * depth + i] : operand.host[i * depth + j];
    }
  }
  operand.device = gpu::Buffer<bf16>(device_, laid_out.size());
  operand.device.upload(laid_out);
  return operand;
}

int GemmProblem::live_rows() const {
  return std::clamp(shape_.valid_rows.value_or(shape_.m), 0, shape_.m);
}
int GemmProblem::live_depth() const {
  return std::clamp(shape_.valid_depth.value_or(shape_.k), 0, shape_.k);
}

Args GemmProblem::args() {
  Args args;
  const auto view = [&](const Operand& operand, int extent, bool mn_major) {
    ConstTensor<2> tensor{
        operand.device.data(), DType::kBf16, {extent, shape_.k}, {operand.pitch, 1}};
    if (mn_major) tensor.strides = {1, operand.pitch};
    return tensor;
  };
  args.a = view(a_, shape_.m, shape_.a_m_major);
  args.b = view(b_, shape_.n, shape_.b_n_major);
  void* const c =
      c_bf16_ ? static_cast<void*>(c_bf16_->data()) : static_cast<void*>(c_f32_->data());
  args.c = {c, shape_.c_dtype, {shape_.m, shape_.n}, {c_pitch_, 1}};
  args.beta = shape_.beta;
  args.valid_rows = valid_rows_.data();
  args.valid_depth = valid_depth_.data();
  return args;
}

void GemmProblem::reset() {
  if (c_bf16_) c_bf16_->poison();
  if (c_f32_) c_f32_->poison();
  if (shape_.beta == 0) return;
  // Old contents go into C itself only: padding stays poisoned.
  std::vector<float> all = download_c();
  for (std::size_t row = 0; row < static_cast<std::size_t>(shape_.m); ++row) {
    const auto* const from = old_c_.data() + row * static_cast<std::size_t>(shape_.n);
    std::copy(from, from + shape_.n, all.data() + row * static_cast<std::size_t>(c_pitch_));
  }
  if (c_f32_) c_f32_->upload(all);
  if (c_bf16_) {
    std::vector<bf16> narrow = testing::to_bf16(all);
    const bf16 poison{0xffff};
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (std::isnan(all[i])) narrow[i] = poison;
    }
    c_bf16_->upload(narrow);
  }
}

std::vector<float> GemmProblem::download_c() const {
  return c_bf16_ ? testing::to_float(c_bf16_->download()) : c_f32_->download();
}

std::vector<float> GemmProblem::output() {
  const std::vector<float> all = download_c();
  std::vector<float> dense;
  dense.reserve(static_cast<std::size_t>(shape_.m) * static_cast<std::size_t>(shape_.n));
  for (std::size_t row = 0; row < static_cast<std::size_t>(shape_.m); ++row) {
    const auto* const line = all.data() + row * static_cast<std::size_t>(c_pitch_);
    dense.insert(dense.end(), line, line + shape_.n);
  }
  return dense;
}

double GemmProblem::exact(std::size_t row, std::size_t col) const {
  const auto depth = static_cast<std::size_t>(shape_.k);
  double sum = 0;
  for (std::size_t k = 0; k < static_cast<std::size_t>(live_depth()); ++k) {
    sum += static_cast<double>(to_float(a_.host[row * depth + k])) *
           to_float(b_.host[col * depth + k]);
  }
  if (shape_.beta == 0) return sum;
  return sum +
         static_cast<double>(shape_.beta) * old_c_[row * static_cast<std::size_t>(shape_.n) + col];
}

ladder::Reference GemmProblem::reference() {
  ladder::Reference reference;
  const auto n = static_cast<std::size_t>(shape_.n);
  const std::size_t count = static_cast<std::size_t>(live_rows()) * n;
  if (static_cast<double>(count) * shape_.k > kFullOracle) {
    testing::Random random(7);
    for (std::size_t i = 0; i < kSamples; ++i) reference.positions.push_back(random.below(count));
    for (const std::size_t i : reference.positions) reference.values.push_back(exact(i / n, i % n));
    return reference;
  }
  // Rows past valid_rows are nobody's: the caller looks at them with stray_write().
  for (std::size_t i = 0; i < count; ++i) {
    if (live_rows() < shape_.m) reference.positions.push_back(i);
    reference.values.push_back(exact(i / n, i % n));
  }
  exact_ = reference.values;
  return reference;
}

double GemmProblem::bound(std::size_t element) {
  const std::size_t row = element / static_cast<std::size_t>(shape_.n);
  const std::size_t col = element % static_cast<std::size_t>(shape_.n);
  // Sum of |a_k b_k| by Cauchy and Schwarz; the chapter derives the rest ("How wrong it may be").
  const double sum = a_.norms[row] * b_.norms[col];
  const double old =
      shape_.beta == 0 ? 0 : std::abs(static_cast<double>(shape_.beta) * old_c_[element]);
  double bound = kUnitF32 * (4.0 * live_depth() * sum + 2.0 * (sum + old));
  if (shape_.integers) bound = 0;
  if (shape_.c_dtype == DType::kBf16) {
    const double value = element < exact_.size() ? std::abs(exact_[element]) : sum + old;
    bound += kUnitBf16 * (value + bound);
  }
  return bound;
}

std::string GemmProblem::describe(std::size_t element) {
  const auto n = static_cast<std::size_t>(shape_.n);
  return concat("c[", element / n, ", ", element % n, "] of ", to_string(shape_));
}

std::string GemmProblem::stray_write() {
  std::string guard = c_bf16_ ? c_bf16_->overwritten() : c_f32_->overwritten();
  if (!guard.empty()) return guard;
  const std::vector<float> all = download_c();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto row = static_cast<int>(i / static_cast<std::size_t>(c_pitch_));
    const auto col = static_cast<int>(i % static_cast<std::size_t>(c_pitch_));
    const bool outside = col >= shape_.n;
    const bool dead = row >= live_rows();
    if (!outside && !dead) continue;
    const bool untouched = (dead && !outside && shape_.beta != 0)
                               ? all[i] == old_c_[static_cast<std::size_t>(row) * shape_.n + col]
                               : std::isnan(all[i]);
    if (!untouched)
      return concat("c[", row, ", ", col, "] of ", to_string(shape_), " was written: ", all[i]);
  }
  return {};
}

void GemmProblem::set_valid_rows(int rows) {
  shape_.valid_rows = rows;
  const std::int32_t count = rows;
  valid_rows_.upload(std::span<const std::int32_t>(&count, 1));
}

void GemmProblem::set_valid_depth(int depth) {
  shape_.valid_depth = depth;
  const std::int32_t count = depth;
  valid_depth_.upload(std::span<const std::int32_t>(&count, 1));
}

}  // namespace rungs::gemm
