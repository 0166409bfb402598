#pragma once
/// @file overlap.hpp
/// Whether strided views share memory. Slices of one packed tensor lie between each other's
/// elements without sharing any, so comparing address ranges is not enough.

#include <rungs/config.hpp>

#include <cstdint>
#include <vector>

namespace rungs::attention::detail {

/// A view as overlap questions see it: where element 0 lies and how far apart the others are, in
/// bytes.
struct Footprint {
  std::uintptr_t begin = 0;
  std::int64_t element_bytes = 0;
  std::vector<std::int64_t> extents;
  std::vector<std::int64_t> strides;  ///< >= 1 for extents above 1
};

/// Whether two different elements of the view may share bytes: true if a stride is smaller than
/// what the shorter strides span.
bool may_overlap_itself(const Footprint& view);

/// Whether an element of `a` may share bytes with one of `b`. Exact when both have the same strides
/// and neither overlaps itself (slices of one packed tensor); otherwise true if the address ranges
/// meet.
bool may_overlap(const Footprint& a, const Footprint& b);

}  // namespace rungs::attention::detail
