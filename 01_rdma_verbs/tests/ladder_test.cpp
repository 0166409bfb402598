// Every rung of both ladders on every case, then what the catalog's sizes do not show: odd sizes, a
// lossy wire, what each rung asks of the HCA, calls that make no sense.

#include "catalog/transfer_problem.hpp"

#include <gtest/gtest.h>
#include <rungs/core/error.hpp>
#include <rungs/testing/ladder_test.hpp>
#include <rungs/verbs/catalog.hpp>
#include <rungs/verbs/ladder.hpp>

#include <memory>
#include <string>
#include <vector>

namespace rungs::verbs {
namespace {

RUNGS_LADDER_TEST(VerbsLadder, operations());

template <class Args>
constexpr const auto& ladder_of() {
  if constexpr (std::is_same_v<Args, WriteArgs>) {
    return kWriteLadder;
  } else {
    return kSendLadder;
  }
}

// Empty, or the first byte that is not what it should be.
template <class Args>
std::string first_difference(TransferProblem<Args>& problem) {
  const std::vector<float> got = problem.output();
  const std::vector<double> expected = problem.reference().values;
  if (got.size() != expected.size()) return "sizes differ";
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (!(static_cast<double>(got[i]) == expected[i])) return problem.describe(i);
  }
  return {};
}

template <class Args>
class Both : public ::testing::Test {};
using ArgsTypes = ::testing::Types<WriteArgs, SendArgs>;
TYPED_TEST_SUITE(Both, ArgsTypes);

// Counts around a list of 32 and a queue of 64; sizes around nothing, a word and the MTU of 4096.
TYPED_TEST(Both, OddCountsAndSizes) {
  for (const std::uint32_t messages : {1u, 31u, 32u, 33u, 65u, 97u}) {
    for (const std::uint32_t bytes : {1u, 4095u, 4097u}) {
      TransferProblem<TypeParam> problem({messages, bytes, Wire::kSharedMemory, 64}, bytes);
      const TypeParam args = problem.args();
      for (const auto& rung : ladder_of<TypeParam>()) {
        SCOPED_TRACE(concat(rung.name, ", ", messages, " x ", bytes));
        problem.reset();
        (*rung.prepare(args, {}))(nullptr);
        EXPECT_EQ(first_difference(problem), "");
      }
    }
  }
}

// A queue pair that a run has left can serve the next one: nothing is under way, no slot is taken.
TYPED_TEST(Both, RunsFollowEachOther) {
  TransferProblem<TypeParam> problem({200, 64, Wire::kSharedMemory, 64}, 3);
  const TypeParam args = problem.args();
  for (int round = 0; round < 6; ++round) {
    for (const auto& rung : ladder_of<TypeParam>()) {
      problem.reset();
      (*rung.prepare(args, {}))(nullptr);
      ASSERT_EQ(first_difference(problem), "") << rung.name << ", round " << round;
    }
  }
}

WireCounters difference(const WireCounters& after, const WireCounters& before) {
  WireCounters result;
  result.doorbells = after.doorbells - before.doorbells;
  result.wqes = after.wqes - before.wqes;
  result.cqes = after.cqes - before.cqes;
  return result;
}

// The chapter's table: what a rung asks of the HCA for 512 messages.
TYPED_TEST(Both, AskOfTheHcaWhatTheCostModelSays) {
  constexpr std::uint64_t kMessages = 512;
  constexpr std::uint64_t kReceives = std::is_same_v<TypeParam, SendArgs> ? kMessages : 0;
  TransferProblem<TypeParam> problem({kMessages, 8, Wire::kSharedMemory, 128}, 4);
  const TypeParam args = problem.args();
  std::vector<WireCounters> counts;
  for (const auto& rung : ladder_of<TypeParam>()) {
    const WireCounters before = problem.counters();
    (*rung.prepare(args, {}))(nullptr);
    const WireCounters count = difference(problem.counters(), before);
    counts.push_back(count);
    this->RecordProperty(std::string(rung.name) + "_doorbells", std::to_string(count.doorbells));
    this->RecordProperty(std::string(rung.name) + "_cqes", std::to_string(count.cqes));
    EXPECT_EQ(count.wqes, kMessages) << rung.name;
  }
  EXPECT_EQ(counts[0].doorbells, kMessages);
  EXPECT_EQ(counts[0].cqes, kMessages + kReceives);
  // The HCA may find two rings of the bell at once.
  EXPECT_LE(counts[1].doorbells, kMessages / kListLength);
  EXPECT_GE(counts[1].doorbells, 1u);
  EXPECT_EQ(counts[1].cqes, kMessages + kReceives);
  EXPECT_LE(counts[2].doorbells, kMessages / kListLength);
  EXPECT_EQ(counts[2].cqes, kMessages / kListLength + kReceives);
}

// The send queue is full of unsignalled requests when the run ends with one more: the last must be
// signalled, whatever its place in the list.
TEST(WriteLadder, TheLastWriteIsAlwaysCovered) {
  for (std::uint32_t messages = 60; messages < 70; ++messages) {
    TransferProblem<WriteArgs> problem({messages, 8, Wire::kSharedMemory, 64}, messages);
    problem.reset();
    (*kWriteLadder[2].prepare(problem.args(), {}))(nullptr);
    EXPECT_EQ(first_difference(problem), "") << messages;
  }
}

TYPED_TEST(Both, ShortQueuesHaveAReason) {
  TransferProblem<TypeParam> problem({4, 8, Wire::kSharedMemory, 32}, 5);
  const TypeParam args = problem.args();
  const auto& ladder = ladder_of<TypeParam>();
  EXPECT_TRUE(ladder[0].supports(args, {}).ok);
  for (std::size_t rung = 1; rung < ladder.size(); ++rung) {
    const ladder::Support support = ladder[rung].supports(args, {});
    EXPECT_FALSE(support.ok);
    EXPECT_NE(support.reason.find("64"), std::string_view::npos) << support.reason;
  }
}

template <class Args>
ErrorCode code_of(const Args& args) {
  try {
    ladder_of<Args>()[0].prepare(args, {});
  } catch (const Error& error) {
    return error.code();
  }
  return ErrorCode::kInternal;
}

TYPED_TEST(Both, CallsThatMakeNoSenseAreRefused) {
  TransferProblem<TypeParam> problem({4, 8, Wire::kSharedMemory, 64}, 6);
  const TypeParam good = problem.args();
  TypeParam args = good;
  args.messages = 0;
  EXPECT_EQ(code_of(args), ErrorCode::kInvalidArgument);
  EXPECT_FALSE(ladder_of<TypeParam>()[0].supports(args, {}).ok);
  args = good;
  args.message_bytes = 0;
  EXPECT_EQ(code_of(args), ErrorCode::kInvalidArgument);
  args = good;
  args.messages = 5;
  EXPECT_EQ(code_of(args), ErrorCode::kInvalidArgument) << "longer than the region";
  args = good;
  args.source = nullptr;
  EXPECT_EQ(code_of(args), ErrorCode::kInvalidArgument);
  args = good;
  args.send_cq = nullptr;
  EXPECT_EQ(code_of(args), ErrorCode::kInvalidArgument);
}

// A write that the peer refuses ends the run with what happened, in every rung.
TEST(WriteLadder, AWrongKeyIsAnError) {
  for (const auto& rung : kWriteLadder) {
    TransferProblem<WriteArgs> problem({100, 8, Wire::kSharedMemory, 64}, 7);
    WriteArgs args = problem.args();
    args.rkey ^= 0x5a5a;
    problem.reset();
    try {
      (*rung.prepare(args, {}))(nullptr);
      ADD_FAILURE() << rung.name << " wrote with a wrong key";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kVerbs);
      EXPECT_NE(error.message().find(to_string(Status::kRemoteAccess)), std::string::npos)
          << rung.name << ": " << error.message();
    }
  }
}

}  // namespace
}  // namespace rungs::verbs
