#pragma once
/// @file random.hpp
/// Test data from fixed seeds: the same bits on every machine and with every standard library.

#include <rungs/config.hpp>
#include <rungs/core/dtype.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace rungs::testing {

/// A small generator (SplitMix64). std::normal_distribution may differ between libraries; this does
/// not.
/// @see Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, OOPSLA 2014
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() noexcept;
  /// In [low, high).
  double uniform(double low = 0, double high = 1) noexcept;
  /// Mean 0, variance 1.
  double normal() noexcept;
  /// In [0, limit); limit at least 1.
  std::uint64_t below(std::uint64_t limit) noexcept { return next() % limit; }

 private:
  std::uint64_t state_;
  double spare_ = 0;
  bool has_spare_ = false;
};

/// `count` normal values of the given standard deviation.
std::vector<float> normal_f32(std::size_t count, std::uint64_t seed, double deviation = 1);
std::vector<bf16> normal_bf16(std::size_t count, std::uint64_t seed, double deviation = 1);
/// `count` values uniform in [low, high).
std::vector<float> uniform_f32(std::size_t count, std::uint64_t seed, double low = -1,
                               double high = 1);
std::vector<bf16> uniform_bf16(std::size_t count, std::uint64_t seed, double low = -1,
                               double high = 1);
/// `count` integers in [low, high].
std::vector<std::int32_t> integers(std::size_t count, std::uint64_t seed, std::int32_t low,
                                   std::int32_t high);

/// Conversions: to bf16 rounding to nearest even, the others exact.
std::vector<bf16> to_bf16(std::span<const float> values);
std::vector<float> to_float(std::span<const bf16> values);
std::vector<double> to_double(std::span<const bf16> values);
std::vector<double> to_double(std::span<const float> values);

}  // namespace rungs::testing
