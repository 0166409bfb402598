#pragma once
/// @file compare.hpp
/// Comparisons that NaN cannot pass. Each returns a text, empty when all is well:
/// `EXPECT_EQ(first_mismatch(got, want, {.relative = 1e-6}), "")`.

#include <rungs/config.hpp>
#include <rungs/core/dtype.hpp>
#include <rungs/core/error.hpp>

#include <cmath>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <limits>
#include <string>
#include <type_traits>

namespace rungs::testing {

/// |got - want| <= absolute + relative · |want|.
struct Tolerance {
  double relative = 0;
  double absolute = 0;
};

namespace detail {

inline double value_of(bf16 value) { return to_float(value); }
template <class T>
requires std::is_arithmetic_v<T>
double value_of(T value) { return static_cast<double>(value); }

// |got - want|, with equal infinities at distance 0 and NaN infinitely far from everything, itself
// included.
inline double distance(double got, double want) {
  if (got == want) return 0;
  const double difference = std::abs(got - want);
  return std::isnan(difference) ? std::numeric_limits<double>::infinity() : difference;
}

template <class Got, class Want, class Bound>
std::string first_outside(const Got& got, const Want& want, Bound&& bound) {
  if (std::size(got) != std::size(want)) {
    return concat("sizes differ: got ", std::size(got), " elements, want ", std::size(want));
  }
  for (std::size_t i = 0; i < std::size(got); ++i) {
    const double g = value_of(got[i]);
    const double w = value_of(want[i]);
    const double allowed = bound(i, w);
    // Finite, because an infinite bound must not let NaN pass.
    if (const double d = distance(g, w); std::isfinite(d) && d <= allowed) continue;
    return concat("element ", i, ": got ", g, ", want ", w, ", allowed difference ", allowed);
  }
  return {};
}

}  // namespace detail

/// Names the first element outside one tolerance for all. `got` and `want`: vectors, arrays or
/// spans of numbers.
template <class Got, class Want>
std::string first_mismatch(const Got& got, const Want& want, Tolerance tolerance) {
  return detail::first_outside(got, want, [&](std::size_t, double w) {
    // An infinite expectation must be met exactly: relative · inf would allow anything.
    return std::isinf(w) ? 0.0 : tolerance.absolute + tolerance.relative * std::abs(w);
  });
}

/// Names the first element farther from `want` than its own entry of `bounds`.
template <class Got, class Want, class Bounds>
std::string first_outside_bounds(const Got& got, const Want& want, const Bounds& bounds) {
  if (std::size(bounds) != std::size(want)) {
    return concat("sizes differ: ", std::size(bounds), " bounds for ", std::size(want),
                  " elements");
  }
  return detail::first_outside(
      got, want, [&](std::size_t i, double) { return static_cast<double>(bounds[i]); });
}

/// Names the first element whose bits differ. NaN equals NaN of the same bits; 0 differs from -0.
template <class Got, class Want>
std::string first_bit_difference(const Got& got, const Want& want) {
  if (std::size(got) != std::size(want)) {
    return concat("sizes differ: got ", std::size(got), " elements, want ", std::size(want));
  }
  for (std::size_t i = 0; i < std::size(got); ++i) {
    const auto g = got[i];
    const auto w = want[i];
    static_assert(std::is_same_v<decltype(g), decltype(w)> &&
                  std::is_trivially_copyable_v<decltype(g)>);
    if (std::memcmp(&g, &w, sizeof(g)) == 0) continue;
    return concat("element ", i, ": bits differ, got ", detail::value_of(g), ", want ",
                  detail::value_of(w));
  }
  return {};
}

/// Largest |got - want|; infinite if there is a NaN. @throws Error kInvalidArgument if the sizes
/// differ
template <class Got, class Want>
double max_error(const Got& got, const Want& want) {
  RUNGS_REQUIRE(std::size(got) == std::size(want), "max_error: ", std::size(got), " and ",
                std::size(want), " elements");
  double worst = 0;
  for (std::size_t i = 0; i < std::size(got); ++i) {
    worst = std::fmax(worst, detail::distance(detail::value_of(got[i]), detail::value_of(want[i])));
  }
  return worst;
}

}  // namespace rungs::testing
