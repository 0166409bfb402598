#include "detail/overlap.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <vector>

namespace rungs::attention::detail {
namespace {

/// The bytes of a view, listed one by one.
std::multiset<std::int64_t> bytes_of(const Footprint& view) {
  std::multiset<std::int64_t> bytes;
  std::vector<std::int64_t> index(view.extents.size(), 0);
  while (true) {
    auto address = static_cast<std::int64_t>(view.begin);
    for (std::size_t i = 0; i < index.size(); ++i) address += index[i] * view.strides[i];
    for (std::int64_t byte = 0; byte < view.element_bytes; ++byte) bytes.insert(address + byte);
    std::size_t i = 0;
    while (i < index.size() && ++index[i] == view.extents[i]) index[i++] = 0;
    if (i == index.size()) return bytes;
  }
}

bool really_overlap(const Footprint& a, const Footprint& b) {
  const std::multiset<std::int64_t> of_a = bytes_of(a);
  for (const std::int64_t byte : bytes_of(b)) {
    if (of_a.count(byte) > 0) return true;
  }
  return false;
}

/// Every distance between two slices of one tensor, small enough to list all bytes.
TEST(Overlap, ExactForSlicesOfOnePackedTensor) {
  const Footprint a{1000, 2, {2, 3, 2, 4}, {150, 48, 8, 2}};
  ASSERT_FALSE(may_overlap_itself(a));
  for (std::uintptr_t begin = 600; begin < 1400; ++begin) {
    Footprint b = a;
    b.begin = begin;
    b.extents = {2, 2, 2, 4};
    EXPECT_EQ(may_overlap(a, b), really_overlap(a, b)) << begin;
    EXPECT_EQ(may_overlap(b, a), really_overlap(a, b)) << begin;
  }
}

TEST(Overlap, OtherStridesAreJudgedByTheirRanges) {
  const Footprint a{1000, 2, {4, 4}, {16, 2}};
  EXPECT_TRUE(may_overlap(a, {1008, 4, {2}, {4}}));
  EXPECT_FALSE(may_overlap(a, {1000 + 3 * 16 + 8, 4, {2}, {4}}));
  EXPECT_FALSE(may_overlap(a, {992, 4, {2}, {4}}));
}

TEST(Overlap, FindsViewsThatMeetThemselves) {
  EXPECT_FALSE(may_overlap_itself({0, 2, {3, 4}, {8, 2}}));
  EXPECT_FALSE(may_overlap_itself({0, 2, {4, 3}, {2, 8}}));
  EXPECT_TRUE(may_overlap_itself({0, 2, {3, 4}, {6, 2}}));
  EXPECT_TRUE(may_overlap_itself({0, 2, {3, 4}, {2, 2}}));
  EXPECT_FALSE(may_overlap_itself({0, 2, {1, 4}, {0, 2}}));
}

}  // namespace
}  // namespace rungs::attention::detail
