// Switching stacks by hand, without an executor. Built with Boost.Context, which x86-64 does not
// use otherwise; the executor's tests in this program run on it, too.

#include "context.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace rungs::emulator::testing {
namespace {

constexpr std::size_t kStackBytes = std::size_t{64} << 10;
constexpr int kFibers = 3;
constexpr int kRounds = 1000;

// What the fibers of a test share with it; their entry takes no argument.
struct Ring {
  Context test = nullptr;
  std::array<Context, kFibers> fibers{};
  int running = 0;
  std::vector<int> order;
  std::array<double, kFibers> sums{};
};
Ring* ring = nullptr;

// Keeps a counter and a sum in registers or on its own stack from one turn to the next.
void take_turns() {
  const int self = ring->running;
  double sum = 0;
  for (int round = 0;; ++round) {
    sum += self + 0.5 * round;
    ring->order.push_back(self);
    ring->sums[self] = sum;
    switch_context(&ring->fibers[self], ring->test);
  }
}

TEST(Context, FibersTakeTurnsAndKeepWhatTheyHold) {
  Ring shared;
  ring = &shared;
  std::vector<std::unique_ptr<std::byte[]>> stacks;
  for (Context& fiber : shared.fibers) {
    stacks.push_back(std::make_unique<std::byte[]>(kStackBytes + 16));
    auto top = reinterpret_cast<std::uintptr_t>(stacks.back().get()) + kStackBytes + 16;
    top = top / 16 * 16;
    fiber = make_context(reinterpret_cast<void*>(top), kStackBytes, &take_turns);
  }
  std::vector<int> expected;
  for (int round = 0; round < kRounds; ++round) {
    for (int fiber = 0; fiber < kFibers; ++fiber) {
      shared.running = fiber;
      switch_context(&shared.test, shared.fibers[fiber]);
      expected.push_back(fiber);
    }
  }
  EXPECT_EQ(shared.order, expected);
  // Sums of halves: exact.
  for (int fiber = 0; fiber < kFibers; ++fiber) {
    EXPECT_EQ(shared.sums[fiber], kRounds * fiber + 0.25 * kRounds * (kRounds - 1)) << fiber;
  }
}

}  // namespace
}  // namespace rungs::emulator::testing
