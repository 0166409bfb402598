#include <rungs/core/descriptor.hpp>
#include <rungs/core/random_bytes.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <array>
#include <set>
#include <utility>

namespace rungs {
namespace {

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }
int any_file() { return ::open("/dev/null", O_RDONLY | O_CLOEXEC); }

TEST(Descriptor, ClosesWhatItOwns) {
  const int fd = any_file();
  ASSERT_GE(fd, 0);
  {
    const Descriptor owner(fd);
    EXPECT_TRUE(owner);
    EXPECT_EQ(owner.get(), fd);
    EXPECT_TRUE(is_open(fd));
  }
  EXPECT_FALSE(is_open(fd));
}

TEST(Descriptor, MovesAndReleases) {
  Descriptor first(any_file());
  Descriptor second(any_file());
  const int kept = first.get();
  const int closed = second.get();
  second = std::move(first);
  EXPECT_FALSE(is_open(closed));
  EXPECT_EQ(second.get(), kept);
  EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): empty is the contract
  EXPECT_EQ(second.release(), kept);
  EXPECT_FALSE(second);
  EXPECT_TRUE(is_open(kept));
  EXPECT_EQ(Descriptor(kept).close(), 0);
  EXPECT_FALSE(is_open(kept));
  EXPECT_EQ(Descriptor().close(), 0);
}

TEST(RandomBytes, FillsAllOfItDifferently) {
  std::set<std::array<std::byte, 32>> seen;
  for (int i = 0; i < 8; ++i) {
    std::array<std::byte, 32> bytes{};
    fill_random(bytes);
    seen.insert(bytes);
  }
  EXPECT_EQ(seen.size(), 8u);
  fill_random({});
}

}  // namespace
}  // namespace rungs
