/// A line counts only when both of its flags are this step's: flags that come round again, lines
/// that have arrived by half.

#include "one_way.hpp"

#include <rungs/core/error.hpp>
#include <rungs/testing/gpu_test.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

namespace rungs::protocols {
namespace {

constexpr std::uint64_t kRound = std::uint64_t{1} << 32;  // steps until a flag comes again
constexpr std::uint64_t kHalf = kRound / 2;
constexpr auto kSlots = static_cast<unsigned>(collectives::kSlots);

std::uint32_t flag(std::uint64_t step) { return static_cast<std::uint32_t>(step + 1); }

void expect_nothing_taken(OneWay& link, std::size_t count) {
  const OneWay::Alone alone = link.receive_alone(count);
  EXPECT_EQ(alone.taken, 0u) << "at step " << link.step() << " nobody had sent";
  EXPECT_TRUE(alone.gave_up);
  EXPECT_EQ(alone.awaited, collectives::Awaited::kData);
  EXPECT_EQ(alone.expected, link.step() + 1);
}

struct Wrap {
  const char* name;
  std::uint64_t at;   // where the flags' top bit changes
  std::size_t count;  // of the messages there
};
void PrintTo(const Wrap& wrap, std::ostream* out) { *out << wrap.name; }

class FlagWrap : public ::testing::TestWithParam<Wrap> {};

// A long message leaves its flags in lines that short ones do not touch. 2^32 steps later they
// would be this step's again.
TEST_P(FlagWrap, NoLineOutlivesIt) {
  RUNGS_NEEDS_DEVICE();
  const auto& [name, at, count] = GetParam();
  OneWay link;
  link.go_to(at - 24);
  const std::uint64_t begin = link.step();
  ASSERT_EQ(link.move(OneWay::kMost, kSlots), "");
  ASSERT_EQ(link.move(count, 24), "");
  for (unsigned i = 0; i < kSlots; ++i) {
    link.go_to(begin + kRound + i);
    expect_nothing_taken(link, OneWay::kMost);
  }
  link.go_to(begin + kRound);
  EXPECT_EQ(link.move(OneWay::kMost, 2 * kSlots), "");
}

INSTANTIATE_TEST_SUITE_P(, FlagWrap,
                         ::testing::Values(Wrap{"half_a_round", kHalf, 3},
                                           Wrap{"a_round", kRound, 3},
                                           Wrap{"three_halves", 3 * kHalf, 1},
                                           Wrap{"empty_messages", kHalf, 0},
                                           Wrap{"long_messages", kRound, OneWay::kMost}),
                         [](const auto& tested) { return std::string(tested.param.name); });

// Slots begin as zeros, and zero is a flag, too: that of step 2^32 - 1.
TEST(Flags, ALineThatWasNeverWrittenIsNotStep4294967295) {
  RUNGS_NEEDS_DEVICE();
  OneWay link;
  link.go_to(kRound - 20);
  ASSERT_EQ(link.move(3, 19), "");
  ASSERT_EQ(flag(link.step()), 0u);
  expect_nothing_taken(link, OneWay::kMost);
  EXPECT_EQ(link.move(OneWay::kMost, 2), "");
}

TEST(Flags, AFreshLinkHoldsNothing) {
  RUNGS_NEEDS_DEVICE();
  OneWay link;
  expect_nothing_taken(link, OneWay::kMost);
  EXPECT_EQ(link.move(OneWay::kMost - 1, 11), "");
}

// The hardware promises 8 bytes, not 16: of a line either half may be there first.
TEST(Flags, HalfALineIsNone) {
  RUNGS_NEEDS_DEVICE();
  for (const bool upper : {false, true}) {
    OneWay link;
    ASSERT_EQ(link.move(OneWay::kMost, kSlots + 3), "");
    const std::uint32_t fresh = flag(link.step());
    const std::uint32_t stale = flag(link.step() - kSlots);
    const OneWay::Line line{7, upper ? stale : fresh, 7, upper ? fresh : stale};
    link.set_lines(link.step(), std::vector<OneWay::Line>(OneWay::kLines, line));
    expect_nothing_taken(link, OneWay::kMost);
  }
}

TEST(Flags, AWholeLineIsTaken) {
  RUNGS_NEEDS_DEVICE();
  OneWay link;
  ASSERT_EQ(link.move(1, 5), "");
  const std::uint32_t fresh = flag(link.step());
  link.set_lines(link.step(),
                 std::vector<OneWay::Line>(OneWay::kLines, OneWay::Line{7, fresh, 7, fresh}));
  const OneWay::Alone alone = link.receive_alone(OneWay::kMost - 1);
  EXPECT_FALSE(alone.gave_up);
  EXPECT_EQ(alone.taken, OneWay::kMost - 1);
}

}  // namespace
}  // namespace rungs::protocols
