/// Descriptions with bytes missing or wrong: an error that says where, or a system; nothing else.

#include "catalog_topology/machines.hpp"

#include <rungs/core/error.hpp>
#include <rungs/testing/random.hpp>
#include <rungs/topology/topology.hpp>

#include <gtest/gtest.h>

#include <string>

namespace rungs::topology {
namespace {

/// Whether the text was accepted. Rejected, it must be with a position; accepted, every later step
/// must work on it.
bool survives(const std::string& xml) {
  try {
    const System system = parse_xml(xml, "f");
    EXPECT_FALSE(system.ranks().empty());
    const Rings rings = rank_order(system);
    EXPECT_EQ(overload(system, rings), "");
    EXPECT_FALSE(to_svg(system, rings).empty());
    EXPECT_EQ(parse_xml(to_xml(system), "again"), system);
    return true;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << error.message();
    EXPECT_EQ(error.message().rfind("f:", 0), 0u) << error.message();
    return false;
  }
}

TEST(TopologyFuzz, CutOffAtEveryByte) {
  const std::string whole = describe(full_mesh(2, 80, 4));
  const std::size_t end = whole.find("</system>") + std::string("</system>").size();
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_EQ(survives(whole.substr(0, length)), length >= end) << "cut at byte " << length;
  }
}

TEST(TopologyFuzz, ChangedBytes) {
  const std::string whole = describe(full_mesh(3, 90, 2));
  testing::Random random(11);
  const std::string kBytes = "<>/=\"' 0123456789abcdefx:.&;!-?nvlinkgpu\n";
  int accepted = 0;
  for (int round = 0; round < 4000; ++round) {
    std::string text = whole;
    for (std::uint64_t change = 0; change <= random.below(3); ++change) {
      const std::size_t at = random.below(text.size());
      const char byte = random.below(8) == 0 ? static_cast<char>(random.below(256))
                                             : kBytes[random.below(kBytes.size())];
      if (random.below(3) == 0) {
        text.erase(at, 1 + random.below(9));
      } else {
        text[at] = byte;
      }
    }
    accepted += survives(text) ? 1 : 0;
  }
  // Digits in bus ids and counts may change without harm; most other changes are found.
  EXPECT_GT(accepted, 40);
  EXPECT_LT(accepted, 2000);
}

TEST(TopologyFuzz, PartsInAnotherOrder) {
  const std::string whole = describe(cube_mesh());
  testing::Random random(12);
  for (int round = 0; round < 1000; ++round) {
    const std::size_t a = random.below(whole.size());
    const std::size_t b = random.below(whole.size());
    const std::size_t length = random.below(300);
    std::string text = whole;
    text.insert(b, whole.substr(a, length));
    if (random.below(2) == 0) text.erase(std::min(a, text.size() - 1), length);
    (void)survives(text);
  }
}

}  // namespace
}  // namespace rungs::topology
