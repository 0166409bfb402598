/// Which protocol a call gets, and how it can be forced.

#include <rungs/core/error.hpp>
#include <rungs/protocols/kernel_table.hpp>
#include <rungs/testing/scoped_env.hpp>

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

namespace rungs::protocols {
namespace {

using collectives::Choice;
using collectives::Collective;
using collectives::KernelEntry;
using collectives::ProtocolId;
using collectives::Question;

Question question(std::size_t size_bytes, Collective what = Collective::kAllReduce, int ranks = 4) {
  Question q{};
  q.what = what;
  q.dtype = DType::kF32;
  q.op = collectives::Op::kSum;
  q.size_bytes = size_bytes;
  q.surroundings.ranks = ranks;
  return q;
}

KernelEntry chosen(const Question& q) {
  return kernel_table()[tuner()->choose(q, kernel_table(), 4).entry];
}

std::string error_of(const Question& q) {
  try {
    (void)tuner()->choose(q, kernel_table(), 4);
    return "nothing";
  } catch (const Error& error) {
    return concat(to_string(error.code()), ": ", error.message());
  }
}

TEST(Tuner, TakesLlForSmallAndSimpleForLargeAndChangesOnce) {
  for (const int ranks : {2, 4, 8}) {
    for (const Collective what :
         {Collective::kAllReduce, Collective::kAllGather, Collective::kReduceScatter,
          Collective::kBroadcast, Collective::kAllToAll}) {
      EXPECT_EQ(chosen(question(64, what, ranks)).protocol, ProtocolId::kLl);
      EXPECT_EQ(chosen(question(std::size_t{64} << 20, what, ranks)).protocol, ProtocolId::kSimple);
      int changes = 0;
      ProtocolId before = ProtocolId::kLl;
      for (std::size_t size = 1; size <= std::size_t{1} << 30; size *= 2) {
        const KernelEntry entry = chosen(question(size, what, ranks));
        EXPECT_EQ(entry.what, what);
        EXPECT_EQ(entry.algorithm, "ring") << size;
        if (entry.protocol != before) ++changes;
        before = entry.protocol;
      }
      EXPECT_EQ(changes, 1) << to_string(what) << " over " << ranks << " ranks";
    }
  }
}

TEST(Tuner, LlIsGivenUpEarlierWhereRanksShareAGpu) {
  const auto last_ll = [](bool same_device) {
    std::size_t last = 0;
    for (std::size_t size = 1; size <= std::size_t{1} << 30; size *= 2) {
      Question q = question(size, Collective::kAllReduce, 2);
      q.surroundings.same_device = same_device;
      if (chosen(q).protocol == ProtocolId::kLl) last = size;
    }
    return last;
  };
  if (RUNGS_GPU_CUDA != 0) {
    EXPECT_GE(last_ll(true), 4u << 10);
    EXPECT_LT(last_ll(true), 64u << 10);
    EXPECT_LT(last_ll(true), last_ll(false));
  } else {
    EXPECT_EQ(last_ll(true), last_ll(false)) << "the emulator knows no such difference";
  }
}

TEST(Tuner, TellsWhatItComparedAndUsesMoreChannelsForMore) {
  const Choice small = tuner()->choose(question(64), kernel_table(), 4);
  EXPECT_EQ(small.channels, 1);
  const std::string reason = tuner()->explain(question(64), kernel_table(), 4);
  for (const char* part : {"ring/LL", "ring/Simple", "root/Simple", "64 bytes"})
    EXPECT_NE(reason.find(part), std::string::npos) << reason;
  EXPECT_EQ(tuner()->choose(question(std::size_t{1} << 30), kernel_table(), 4).channels, 4);
}

TEST(Tuner, CanBeForced) {
  {
    const testing::ScopedEnv proto("RUNGS_PROTO", "LL");
    EXPECT_EQ(chosen(question(std::size_t{64} << 20)).protocol, ProtocolId::kLl);
  }
  {
    const testing::ScopedEnv proto("RUNGS_PROTO", "Simple");
    EXPECT_EQ(chosen(question(8)).protocol, ProtocolId::kSimple);
  }
  const testing::ScopedEnv algorithm("RUNGS_ALGO", "root");
  EXPECT_EQ(chosen(question(8)).algorithm, "root");
  const testing::ScopedEnv proto("RUNGS_PROTO", "LL");
  const std::string text = error_of(question(8));
  for (const char* part :
       {"Unsupported", "root/Simple", "RUNGS_PROTO=LL", "ring/LL", "RUNGS_ALGO=root"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(Tuner, RefusesUnknownWords) {
  {
    const testing::ScopedEnv proto("RUNGS_PROTO", "ll");
    EXPECT_NE(error_of(question(8)).find("it must be Simple or LL"), std::string::npos);
  }
  const testing::ScopedEnv algorithm("RUNGS_ALGO", "tree");
  EXPECT_NE(error_of(question(8)).find("it must be root or ring"), std::string::npos);
}

TEST(Tuner, SaysWhyNothingIsLegal) {
  Question q = question(8);
  q.surroundings.peer_mapped = false;
  const std::string text = error_of(q);
  EXPECT_NE(text.find("LL writes its lines into the peer's memory"), std::string::npos) << text;
  q.dtype = DType::kF64;
  EXPECT_NE(error_of(q).find("f64"), std::string::npos);
}

}  // namespace
}  // namespace rungs::protocols
