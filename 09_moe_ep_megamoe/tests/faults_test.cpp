/// A layer that cannot end: every rank gets an error that names the peer.

#include <rungs/core/error.hpp>
#include <rungs/testing/errors.hpp>

#include <gtest/gtest.h>

#include <unistd.h>
#include <chrono>
#include <csignal>
#include <optional>
#include <stdexcept>
#include <thread>

#include "support.hpp"
#include "world.hpp"

namespace rungs::moe {
namespace {

using testing::error_of;
using testing::has;

MoeInputs some_inputs(int ranks) {
  MoeCase spec;
  spec.tokens.assign(static_cast<std::size_t>(ranks), 20);
  spec.experts = 2 * ranks;
  return make_inputs(spec, 7);
}

// Throws with `text` unless it has all parts: what a rank reports as its failure.
void expect_has(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts)
    if (!has(text, part)) throw std::runtime_error(concat("no '", part, "' in: ", text));
}

class Absent : public ::testing::TestWithParam<bool> {};

TEST_P(Absent, RankIsNamedWhenItNeverCalls) {
  RUNGS_NEEDS_DEVICE();
  const bool network = GetParam();
  EXPECT_EQ(in_ranks(
                some_inputs(2), {.exchange = Exchange::kCounted, .timeout_seconds = 1},
                [](int rank, RankLayer& layer) {
                  if (rank == 1) {
                    while (!layer.async_error())
                      std::this_thread::sleep_for(std::chrono::milliseconds(1));
                    return;
                  }
                  layer.forward();
                  layer.vjp();  // what follows a wait that gave up does not wait again
                  expect_has(error_of([&] { layer.synchronize(); }), {"Timeout", "rank 1"});
                },
                network ? 1 : 0),
            "");
}

INSTANTIATE_TEST_SUITE_P(, Absent, ::testing::Bool(), [](const auto& instance) {
  return instance.param ? "OverTheNetwork" : "Mapped";
});

TEST(Faults, AKilledRankIsNamed) {
  if (RUNGS_GPU_CUDA != 0)
    return testing::skip(testing::Lack::kEmulator, "processes take turns on a GPU");
  const MoeInputs inputs = some_inputs(3);
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const auto outcomes = testing::run_processes(3, [&](int rank) {
    // Rank 0 runs the rendezvous: the parent must not have threads, whose locks a child would
    // inherit under a sanitizer.
    std::optional<bootstrap::Root> root;
    bootstrap::UniqueId id;
    const auto size = static_cast<ssize_t>(sizeof(id));
    if (rank == 0) {
      id = root.emplace(bootstrap::RootOptions{.ranks = 3, .interface_or_address = "127.0.0.1"})
               .id();
      for (int other = 1; other < 3; ++other)
        RUNGS_REQUIRE(::write(ends[1], &id, sizeof(id)) == size, "the id cannot be told");
    } else {
      RUNGS_REQUIRE(::read(ends[0], &id, sizeof(id)) == size, "rank 0 told no id");
    }
    RankLayer layer(inputs, id, rank, {.exchange = Exchange::kCounted});
    layer.forward();
    layer.vjp();
    layer.synchronize();
    // The others are in their second pass when it dies. (A barrier would not do: one rank may leave
    // it, and die, while another is still inside.)
    if (rank == 1) {
      static_cast<void>(layer.group().receive(0, 7));
      static_cast<void>(layer.group().receive(2, 7));
      std::raise(SIGKILL);
    }
    layer.forward();
    layer.group().send(1, 7, {});
    expect_has(error_of([&] { layer.synchronize(); }), {"PeerLost", "rank 1"});
  });
  ::close(ends[0]);
  ::close(ends[1]);
  EXPECT_EQ(outcomes[0].text, "");
  EXPECT_TRUE(has(outcomes[1].text, "killed by signal 9")) << outcomes[1].text;
  EXPECT_EQ(outcomes[2].text, "");
}

}  // namespace
}  // namespace rungs::moe
