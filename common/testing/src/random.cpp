#include <rungs/testing/random.hpp>

#include <cmath>
#include <numbers>

namespace rungs::testing {
namespace {

template <class T, class Make>
std::vector<T> generate(std::size_t count, Make&& make) {
  std::vector<T> values(count);
  for (T& value : values) value = make();
  return values;
}

template <class To, class From, class Convert>
std::vector<To> convert(std::span<const From> values, Convert&& one) {
  std::vector<To> result(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) result[i] = one(values[i]);
  return result;
}

}  // namespace

std::uint64_t Random::next() noexcept {
  std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

double Random::uniform(double low, double high) noexcept {
  return low + (high - low) * (static_cast<double>(next() >> 11) * 0x1p-53);
}

double Random::normal() noexcept {
  if (has_spare_) {
    has_spare_ = false;
    return spare_;
  }
  // Box-Muller gives two values at a time; 1 - u is in (0, 1], so the logarithm is finite.
  const double radius = std::sqrt(-2 * std::log(1 - uniform()));
  const double angle = 2 * std::numbers::pi * uniform();
  spare_ = radius * std::sin(angle);
  has_spare_ = true;
  return radius * std::cos(angle);
}

std::vector<float> normal_f32(std::size_t count, std::uint64_t seed, double deviation) {
  Random random(seed);
  return generate<float>(count, [&] { return static_cast<float>(deviation * random.normal()); });
}

std::vector<bf16> normal_bf16(std::size_t count, std::uint64_t seed, double deviation) {
  Random random(seed);
  return generate<bf16>(
      count, [&] { return rungs::to_bf16(static_cast<float>(deviation * random.normal())); });
}

std::vector<float> uniform_f32(std::size_t count, std::uint64_t seed, double low, double high) {
  Random random(seed);
  return generate<float>(count, [&] { return static_cast<float>(random.uniform(low, high)); });
}

std::vector<bf16> uniform_bf16(std::size_t count, std::uint64_t seed, double low, double high) {
  Random random(seed);
  return generate<bf16>(
      count, [&] { return rungs::to_bf16(static_cast<float>(random.uniform(low, high))); });
}

std::vector<std::int32_t> integers(std::size_t count, std::uint64_t seed, std::int32_t low,
                                   std::int32_t high) {
  Random random(seed);
  const std::uint64_t range = static_cast<std::uint64_t>(std::int64_t{high} - low) + 1;
  return generate<std::int32_t>(count, [&] {
    return static_cast<std::int32_t>(low + static_cast<std::int64_t>(random.below(range)));
  });
}

std::vector<bf16> to_bf16(std::span<const float> values) {
  return convert<bf16>(values, [](float value) { return rungs::to_bf16(value); });
}

std::vector<float> to_float(std::span<const bf16> values) {
  return convert<float>(values, [](bf16 value) { return rungs::to_float(value); });
}

std::vector<double> to_double(std::span<const bf16> values) {
  return convert<double>(values, [](bf16 value) { return double{rungs::to_float(value)}; });
}

std::vector<double> to_double(std::span<const float> values) {
  return convert<double>(values, [](float value) { return double{value}; });
}

}  // namespace rungs::testing
