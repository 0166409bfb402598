// RDMA write, read and atomics over every wire, whole and through a bad network.

#include "fixture.hpp"

#include <ostream>

namespace rungs::verbs {
namespace {

constexpr std::uint16_t kMtu = 1024;

struct Path {
  std::string name;
  SoftOptions a;
  SoftOptions b;
  friend void PrintTo(const Path& path, std::ostream* out) { *out << path.name; }
};

std::vector<Path> paths() {
  std::vector<Path> result;
  for (const Wire wire : {Wire::kSharedMemory, Wire::kUdp}) {
    SoftOptions clean;
    clean.wire = wire;
    clean.mtu_bytes = kMtu;
    result.push_back({name_of(wire), clean, clean});
    SoftOptions bad = clean;
    bad.loss = 0.03;
    bad.duplicate = 0.05;
    bad.reorder = 0.05;
    SoftOptions bad_too = bad;
    bad_too.seed = 2;
    result.push_back({name_of(wire) + "_lossy_duplicating_reordering", bad, bad_too});
  }
  return result;
}

class OneSided : public ::testing::TestWithParam<Path> {
 protected:
  OneSided() {
    EndOptions of_a;
    of_a.device = GetParam().a;
    of_a.qp.ack_timeout_seconds = GetParam().a.loss > 0 ? kLossy : kPatient;
    EndOptions of_b = of_a;
    of_b.device = GetParam().b;
    pair_.emplace(of_a, of_b);
  }
  End& a() { return pair_->a; }
  End& b() { return pair_->b; }

  // Sizes at the packet boundaries, of up to 1 MiB (a bad network: 100 packets).
  static std::vector<std::size_t> sizes() {
    const std::size_t largest = GetParam().a.loss > 0 ? 100 * kMtu : 1 << 20;
    return {0, 1, 8, kMtu - 1, kMtu, kMtu + 1, 2 * kMtu, 5 * kMtu + 17, largest};
  }
  static constexpr std::size_t kRoom = (1 << 20) + 128;
  static constexpr std::size_t kAt = 37;  // nothing is aligned

  // `size` bytes of `memory` from `offset` on, in three unequal pieces.
  static std::vector<Segment> pieces(const Memory& memory, std::size_t offset, std::size_t size) {
    const std::size_t first = size / 3;
    const std::size_t second = size / 2;
    return {memory.segment(offset, first), memory.segment(offset + first, second),
            memory.segment(offset + first + second, size - first - second)};
  }

  std::optional<Pair> pair_;
};

// `into` as it must look after `size` bytes of `from` arrived at `at`.
std::vector<std::byte> expected(std::vector<std::byte> into, const std::vector<std::byte>& from,
                                std::size_t from_at, std::size_t at, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) into[at + i] = from[from_at + i];
  return into;
}

TEST_P(OneSided, WritesEverySize) {
  Memory from(a().pd, kRoom);
  Memory to(b().pd, kRoom);
  from.fill(1);
  for (const std::size_t size : sizes()) {
    to.poison();
    const std::vector<std::byte> want = expected(to.bytes(), from.bytes(), 5, kAt, size);
    const std::vector<Segment> segments = pieces(from, 5, size);
    ASSERT_EQ(a().send(request(size, Opcode::kRdmaWrite, segments, to, kAt)).posted, 1u);
    const Completion done = a().done();
    EXPECT_EQ(done.id, size);
    EXPECT_EQ(done.opcode, Opcode::kRdmaWrite);
    EXPECT_FALSE(done.receive);
    EXPECT_TRUE(to.bytes() == want) << size << " bytes";
  }
  EXPECT_EQ(b().poll_count(), 0u) << "a write completes nothing at its target";
}

TEST_P(OneSided, WritesWithImmediateCompleteAReceive) {
  Memory from(a().pd, kRoom);
  Memory to(b().pd, kRoom);
  from.fill(2);
  for (const std::size_t size : sizes()) {
    to.poison();
    const std::vector<std::byte> want = expected(to.bytes(), from.bytes(), 0, kAt, size);
    ASSERT_EQ(b().receive(77, std::span<const Segment>()).posted, 1u);
    const Segment segment = from.segment(0, size);
    SendRequest write = request(1, Opcode::kRdmaWriteWithImm, {&segment, 1}, to, kAt);
    write.immediate = 0xdeadbeef;
    ASSERT_EQ(a().send(write).posted, 1u);
    EXPECT_EQ(a().done().opcode, Opcode::kRdmaWriteWithImm);
    const Completion arrived = b().done();
    EXPECT_EQ(arrived.id, 77u);
    EXPECT_TRUE(arrived.receive);
    EXPECT_EQ(arrived.opcode, Opcode::kRdmaWriteWithImm);
    EXPECT_EQ(arrived.immediate, 0xdeadbeefu);
    EXPECT_EQ(arrived.size_bytes, size);
    EXPECT_TRUE(to.bytes() == want) << size << " bytes";
  }
}

TEST_P(OneSided, ReadsEverySize) {
  Memory into(a().pd, kRoom);
  Memory from(b().pd, kRoom);
  from.fill(3);
  for (const std::size_t size : sizes()) {
    into.poison();
    const std::vector<std::byte> want = expected(into.bytes(), from.bytes(), kAt, 5, size);
    const std::vector<Segment> segments = pieces(into, 5, size);
    ASSERT_EQ(a().send(request(9, Opcode::kRdmaRead, segments, from, kAt)).posted, 1u);
    const Completion done = a().done();
    EXPECT_EQ(done.opcode, Opcode::kRdmaRead);
    EXPECT_EQ(done.size_bytes, size);
    EXPECT_TRUE(into.bytes() == want) << size << " bytes";
  }
}

TEST_P(OneSided, FetchAddHappensExactlyOnce) {
  Memory results(a().pd, 8 * 64);
  Memory counter(b().pd, 16);
  counter.fill_zero();
  counter.at<std::uint64_t>(8) = 1000;
  constexpr std::uint64_t kTimes = 400;
  std::uint64_t seen = 1000;
  for (std::uint64_t i = 0; i < kTimes; ++i) {
    const Segment segment = results.segment(8 * (i % 64), 8);
    SendRequest add = request(i, Opcode::kFetchAdd, {&segment, 1}, counter, 8);
    add.add_or_swap = i + 1;
    ASSERT_EQ(a().send(add).posted, 1u);
    if (i % 64 != 63 && i + 1 != kTimes) continue;  // up to 64 under way
    for (std::uint64_t j = i / 64 * 64; j <= i; ++j) {
      const Completion done = a().done();
      ASSERT_EQ(done.id, j);
      ASSERT_EQ(done.size_bytes, 8u);
      ASSERT_EQ(results.at<std::uint64_t>(8 * (j % 64)), seen) << "add " << j;
      seen += j + 1;
    }
  }
  EXPECT_EQ(counter.at<std::uint64_t>(8), 1000 + kTimes * (kTimes + 1) / 2);
  EXPECT_EQ(counter.at<std::uint64_t>(0), 0u);
  if (GetParam().a.loss > 0) {
    EXPECT_GT(a().device.counters().packets_dropped, 0u) << "the knob does nothing";
    EXPECT_GT(a().device.counters().retransmissions, 0u);
  }
}

TEST_P(OneSided, CompareSwapComparesAndReturnsTheOldValue) {
  Memory result(a().pd, 8);
  Memory word(b().pd, 8);
  word.at<std::uint64_t>(0) = 5;
  const auto swap = [&](std::uint64_t compare, std::uint64_t value) {
    const Segment segment = result.all();
    SendRequest one = request(1, Opcode::kCompareSwap, {&segment, 1}, word);
    one.compare = compare;
    one.add_or_swap = value;
    EXPECT_EQ(a().send(one).posted, 1u);
    EXPECT_EQ(a().done().opcode, Opcode::kCompareSwap);
    return result.at<std::uint64_t>(0);
  };
  EXPECT_EQ(swap(4, 9), 5u);  // not equal: nothing changes
  EXPECT_EQ(swap(5, 6), 5u);
  // A chain in which executing any step twice would break the next.
  for (std::uint64_t i = 6; i < 106; ++i) ASSERT_EQ(swap(i, i + 1), i);
  EXPECT_EQ(word.at<std::uint64_t>(0), 106u);
}

// Everything at once, in one list: unsignalled writes, reads of what they wrote, atomics.
TEST_P(OneSided, MixedRequestsKeepTheirOrder) {
  constexpr std::size_t kEach = 3 * kMtu + 5;
  constexpr unsigned kRounds = 24;
  Memory from(a().pd, kEach * kRounds);
  Memory to(b().pd, kEach);
  Memory back(a().pd, kEach * kRounds);
  Memory counter(b().pd, 8);
  Memory counts(a().pd, 8 * kRounds);
  from.fill(4);
  counter.fill_zero();
  std::vector<Segment> segments;
  std::vector<SendRequest> list;
  segments.reserve(3 * kRounds);
  for (unsigned i = 0; i < kRounds; ++i) {
    // Each write is read back before the next one overwrites it: the responder keeps the order.
    const auto one = [&](const Segment& segment) {
      return std::span<const Segment>(&segments.emplace_back(segment), 1);
    };
    SendRequest write = request(i, Opcode::kRdmaWrite, one(from.segment(i * kEach, kEach)), to);
    SendRequest read = request(i, Opcode::kRdmaRead, one(back.segment(i * kEach, kEach)), to);
    SendRequest add = request(i, Opcode::kFetchAdd, one(counts.segment(i * 8, 8)), counter);
    write.signalled = read.signalled = false;
    add.add_or_swap = 1;
    add.fence = true;  // the next write must not pass the read's answer
    add.signalled = i + 1 == kRounds;
    list.insert(list.end(), {write, read, add});
  }
  ASSERT_EQ(a().qp->post_send(list).posted, list.size());
  EXPECT_EQ(a().done().id, kRounds - 1);
  EXPECT_EQ(a().poll_count(), 0u);
  EXPECT_TRUE(back.bytes() == from.bytes());
  for (unsigned i = 0; i < kRounds; ++i) EXPECT_EQ(counts.at<std::uint64_t>(8 * i), i);
}

INSTANTIATE_TEST_SUITE_P(, OneSided, ::testing::ValuesIn(paths()),
                         [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace rungs::verbs
