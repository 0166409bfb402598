/// What a communicator refuses, and in which words; the table and the fixed tuner.

#include "case.hpp"

#include <rungs/core/error.hpp>
#include <rungs/testing/errors.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>

namespace rungs::collectives {
namespace {

using testing::error_of;

void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

/// Both ranks make the same bad calls; rank 0's texts are looked at. None of them leaves a trace: a
/// good collective ends the test.
class Contract : public ::testing::Test {
 protected:
  static void in_two(const std::function<void(Rank&)>& body) {
    WorldOptions options;
    options.area_bytes = std::size_t{1} << 16;
    EXPECT_EQ(in_threads(2, options,
                         [&](Rank& rank) {
                           if (rank.group.rank() == 0) body(rank);
                           run_case(rank, {.count = 100});
                         }),
              "");
  }
};

TEST_F(Contract, ArgumentsAreChecked) {
  RUNGS_NEEDS_RANKS(2);
  in_two([](Rank& rank) {
    Communicator& c = rank.communicator;
    std::byte* const a = rank.send.data();
    std::byte* const b = rank.recv.data();
    const gpu::StreamHandle s = rank.stream;
    EXPECT_EQ(error_of([&] { c.all_reduce(nullptr, b, 4, DType::kF32, Op::kSum, s); }),
              "InvalidArgument: all_reduce: send is null");
    EXPECT_EQ(error_of([&] { c.all_gather(a, nullptr, 4, DType::kF32, s); }),
              "InvalidArgument: all_gather: recv is null");
    const std::string misaligned =
        error_of([&] { c.all_reduce(a + 2, b, 4, DType::kF32, Op::kSum, s); });
    expect_contains(misaligned, "InvalidArgument: all_reduce: send = 0x");
    expect_contains(misaligned, "is not aligned to the 4 bytes of f32");
    EXPECT_EQ(error_of([&] { c.broadcast(a, b, 4, DType::kF32, 2, s); }),
              "InvalidArgument: broadcast: root = 2; ranks are 0 to 1");
    EXPECT_EQ(error_of([&] { c.all_gather(a, b, SIZE_MAX / 8, DType::kF32, s); }),
              concat("InvalidArgument: all_gather: count = ", SIZE_MAX / 8,
                     " of f32 for 2 ranks overflows"));
    EXPECT_EQ(error_of([&] { c.all_reduce(a, b, 4, DType::kF64, Op::kSum, s); }),
              "Unsupported: all_reduce: no kernel for f64 with sum; there are f32 with sum, max, "
              "avg; bf16 with sum, max, avg; i32 with sum, max, avg");
    expect_contains(error_of([&] { c.reduce_scatter(a, b, 4, DType::kF32, Op::kProd, s); }),
                    "Unsupported: reduce_scatter: no kernel for f32 with prod; there are f32");
    expect_contains(error_of([&] { c.all_gather(a, b, 4, static_cast<DType>(99), s); }),
                    "InvalidArgument: all_gather: dtype 99 is outside the enumeration");
    // Nothing is asked of pointers when there are no elements.
    EXPECT_EQ(error_of([&] { c.all_reduce(nullptr, nullptr, 0, DType::kF32, Op::kSum, s); }),
              "nothing");
  });
}

TEST_F(Contract, OverlapsAreRefusedExceptInPlace) {
  RUNGS_NEEDS_RANKS(2);
  in_two([](Rank& rank) {
    Communicator& c = rank.communicator;
    std::byte* const a = rank.send.data();
    const gpu::StreamHandle s = rank.stream;
    expect_contains(error_of([&] { c.all_reduce(a, a + 4, 4, DType::kF32, Op::kSum, s); }),
                    "overlap; allowed on rank 0: send == recv");
    expect_contains(error_of([&] { c.all_gather(a + 16, a, 4, DType::kF32, s); }),
                    "overlap; allowed on rank 0: send == recv + rank * count");
    expect_contains(error_of([&] { c.reduce_scatter(a, a + 16, 4, DType::kF32, Op::kSum, s); }),
                    "overlap; allowed on rank 0: recv == send + rank * count");
    expect_contains(error_of([&] { c.all_to_all(a, a, 4, DType::kF32, s); }),
                    "overlap; allowed on rank 0: never");
  });
}

TEST_F(Contract, MoversTakeEveryDtype) {
  RUNGS_NEEDS_RANKS(2);
  EXPECT_EQ(in_threads(2, {},
                       [](Rank& rank) {
                         const std::vector<double> mine{1.0 + rank.group.rank(), -3.5};
                         gpu::copy_async(rank.send.data(), mine.data(), 16, rank.stream);
                         rank.communicator.all_gather(rank.send.data(), rank.recv.data(), 2,
                                                      DType::kF64, rank.stream);
                         // Only then: a copy to pageable memory may hold CUDA's lock while it
                         // waits.
                         rank.communicator.synchronize(rank.stream);
                         std::vector<double> all(4);
                         gpu::copy_async(all.data(), rank.recv.data(), 32, rank.stream);
                         rank.stream.synchronize();
                         if (all != std::vector<double>{1, -3.5, 2, -3.5}) rank.note("wrong");
                       }),
            "");
}

TEST_F(Contract, TheDefaultStreamNeedsADeviceOfItsOwn) {
  RUNGS_NEEDS_DEVICE();
  WorldOptions options;
  options.share_device = true;
  EXPECT_EQ(in_threads(2, options,
                       [](Rank& rank) {
                         const std::string text = error_of([&] {
                           rank.communicator.all_reduce(rank.send.data(), rank.recv.data(), 4,
                                                        DType::kF32, Op::kSum, nullptr);
                         });
                         if (text.find("give each a gpu::Stream") == std::string::npos)
                           rank.note(text);
                       }),
            "");
}

TEST(Table, HasEveryCollectiveByBothAlgorithms) {
  const KernelTable table = kernel_table();
  EXPECT_EQ(table.size(), 2u * (2 * 9 + 3));
  EXPECT_EQ(table.front().algorithm, "ring");
  for (const KernelEntry& entry : table) {
    EXPECT_EQ(entry.protocol, ProtocolId::kSimple);
    EXPECT_EQ(entry.payload_bytes, entry.slot_bytes);
    EXPECT_EQ(entry.slot_bytes % 16, 0u);
    EXPECT_EQ(entry.illegal({}), "");
    EXPECT_NE(entry.illegal({.peer_mapped = false}), "");
  }
}

TEST(FixedTuner, ChoosesOrSaysWhyNot) {
  const Question question{Collective::kAllReduce, DType::kBf16, Op::kMax, 1 << 20, {}};
  const Choice choice = fixed_tuner("root")->choose(question, kernel_table(), 2);
  const KernelEntry& entry = kernel_table()[choice.entry];
  EXPECT_EQ(entry.algorithm, "root");
  EXPECT_EQ(entry.dtype, DType::kBf16);
  EXPECT_EQ(entry.op, Op::kMax);
  EXPECT_EQ(choice.channels, 2);
  EXPECT_EQ(kernel_table()[fixed_tuner("")->choose(question, kernel_table(), 1).entry].algorithm,
            "ring");
  const std::string text = error_of(
      [&] { static_cast<void>(fixed_tuner("tree")->choose(question, kernel_table(), 2)); });
  expect_contains(text, "Unsupported: all_reduce of bf16 with max: no kernel may be used");
  expect_contains(text, "ring/Simple is not the tree/Simple that was asked for");
  expect_contains(text, "root/Simple is not the tree/Simple");
  Question remote = question;
  remote.surroundings.peer_mapped = false;
  expect_contains(
      error_of([&] { static_cast<void>(fixed_tuner("ring")->choose(remote, kernel_table(), 2)); }),
      "ring/Simple is not legal here: needs peers' memory mapped");
}

TEST(Channels, GrowWithTheSize) {
  EXPECT_EQ(channels_for(0, 4), 1);
  EXPECT_EQ(channels_for(1, 4), 1);
  EXPECT_EQ(channels_for(std::size_t{1} << 30, 4), 4);
}

}  // namespace
}  // namespace rungs::collectives
