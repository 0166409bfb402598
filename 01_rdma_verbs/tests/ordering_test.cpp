// Which operations may overtake which, on one queue pair and on several.

#include "fixture.hpp"

#include <rungs/testing/ranks.hpp>

#include <atomic>
#include <set>

namespace rungs::verbs {
namespace {

using testing::failures;
using testing::run_threads;

// READ X → L, then WRITE L → Y. The write gathers L when it is sent, the read's answer comes later:
// without a fence Y gets what stood in L before. The peer's answers are delayed, so there is no
// race in which the unfenced write could win.
TEST(Fence, WithoutItAWriteLeavesBeforeAnEarlierReadsAnswer) {
  for (const bool fence : {false, true}) {
    EndOptions of_b = on(Wire::kSharedMemory);
    of_b.device.delay_seconds = 0.02;
    EndOptions of_a = on(Wire::kSharedMemory);
    of_a.qp.ack_timeout_seconds = 10;
    Pair pair(of_a, of_b);
    Memory l(pair.a.pd, 8);
    Memory x(pair.b.pd, 8);
    Memory y(pair.b.pd, 8);
    l.at<std::uint64_t>(0) = 1;  // stale
    x.at<std::uint64_t>(0) = 2;  // fresh
    const Segment segment = l.all();
    SendRequest read = request(1, Opcode::kRdmaRead, {&segment, 1}, x);
    SendRequest write = request(2, Opcode::kRdmaWrite, {&segment, 1}, y);
    write.fence = fence;
    ASSERT_EQ(pair.a.qp->post_send(std::vector{read, write}).posted, 2u);
    EXPECT_EQ(pair.a.done().id, 1u);
    EXPECT_EQ(pair.a.done().id, 2u);
    EXPECT_EQ(l.at<std::uint64_t>(0), 2u);
    EXPECT_EQ(y.at<std::uint64_t>(0), fence ? 2u : 1u);
  }
}

// An atomic is fenced like a read.
TEST(Fence, WaitsForAtomicsToo) {
  EndOptions of_b = on(Wire::kSharedMemory);
  of_b.device.delay_seconds = 0.02;
  EndOptions of_a = on(Wire::kSharedMemory);
  of_a.qp.ack_timeout_seconds = 10;
  Pair pair(of_a, of_b);
  Memory l(pair.a.pd, 8);
  Memory counter(pair.b.pd, 8);
  Memory y(pair.b.pd, 8);
  counter.at<std::uint64_t>(0) = 41;
  const Segment segment = l.all();
  SendRequest add = request(1, Opcode::kFetchAdd, {&segment, 1}, counter);
  add.add_or_swap = 1;
  SendRequest write = request(2, Opcode::kRdmaWrite, {&segment, 1}, y);
  write.fence = true;
  ASSERT_EQ(pair.a.qp->post_send(std::vector{add, write}).posted, 2u);
  pair.a.done();
  pair.a.done();
  EXPECT_EQ(y.at<std::uint64_t>(0), 41u);
  EXPECT_EQ(counter.at<std::uint64_t>(0), 42u);
}

TEST(Order, AReadSeesTheWriteBeforeIt) {
  EndOptions options = on(Wire::kUdp, 256);
  options.device.reorder = 0.2;
  options.device.duplicate = 0.2;
  options.qp.ack_timeout_seconds = kLossy;
  Pair pair(options);
  Memory from(pair.a.pd, 600);
  Memory to(pair.b.pd, 600);
  Memory back(pair.a.pd, 600);
  for (unsigned i = 0; i < 300; ++i) {
    std::fill(&from.at<std::uint8_t>(0), &from.at<std::uint8_t>(0) + 600,
              static_cast<std::uint8_t>(i));
    const Segment out = from.all();
    const Segment in = back.all();
    SendRequest write = request(1, Opcode::kRdmaWrite, {&out, 1}, to);
    write.signalled = false;
    ASSERT_EQ(pair.a.qp->post_send(std::vector{write, request(2, Opcode::kRdmaRead, {&in, 1}, to)})
                  .posted,
              2u);
    ASSERT_EQ(pair.a.done().id, 2u);
    ASSERT_TRUE(back.bytes() == from.bytes()) << "trial " << i;
  }
}

// The peer's program polls memory: no receive request, no completion at its end. Data in one write,
// the flag behind it in another; and data whose last word is the flag. Whoever sees the flag sees
// the data, and ThreadSanitizer agrees.
TEST(Polling, WhoSeesTheFlagSeesTheData) {
  for (const Wire wire : {Wire::kSharedMemory, Wire::kUdp}) {
    for (const std::size_t words : {2, 30, 40, 2000}) {
      Pair pair(on(wire));
      Memory from(pair.a.pd, 8 * words + 8);
      Memory to(pair.b.pd, 8 * words + 8);
      to.fill_zero();
      constexpr std::uint64_t kRounds = 60;
      std::atomic<std::uint64_t> taken{0};
      const bool flag_is_in_the_message = words % 4 == 0;
      const auto outcomes = run_threads(2, [&](int rank) {
        std::uint64_t& flag = to.at<std::uint64_t>(8 * (words - 1));
        for (std::uint64_t round = 1; round <= kRounds; ++round) {
          const Deadline deadline = Deadline::standard();
          if (rank == 1) {
            wait_until([&] { return __atomic_load_n(&flag, __ATOMIC_ACQUIRE) == round; }, deadline,
                       [] { return std::string("the flag"); });
            for (std::size_t i = 0; i + 1 < words; ++i) {
              if (to.at<std::uint64_t>(8 * i) != round * 1000 + i) {
                RUNGS_THROW(kInternal, "word ", i, " of round ", round, " is stale");
              }
            }
            taken.store(round, std::memory_order_release);
            continue;
          }
          for (std::size_t i = 0; i + 1 < words; ++i) {
            from.at<std::uint64_t>(8 * i) = round * 1000 + i;
          }
          from.at<std::uint64_t>(8 * (words - 1)) = round;
          const Segment whole = from.segment(0, 8 * words);
          const Segment data = from.segment(0, 8 * (words - 1));
          const Segment last = from.segment(8 * (words - 1), 8);
          std::vector<SendRequest> list{request(1, Opcode::kRdmaWrite, {&whole, 1}, to)};
          if (!flag_is_in_the_message) {
            list = {request(1, Opcode::kRdmaWrite, {&data, 1}, to),
                    request(2, Opcode::kRdmaWrite, {&last, 1}, to, 8 * (words - 1))};
            list[0].signalled = false;
          }
          pair.a.qp->post_send(list);
          if (pair.a.wait().status != Status::kSuccess) RUNGS_THROW(kVerbs, "the write failed");
          wait_until([&] { return taken.load(std::memory_order_acquire) == round; }, deadline,
                     [] { return std::string("the reader"); });
        }
      });
      EXPECT_EQ(failures(outcomes), "") << words << " words over " << name_of(wire);
    }
  }
}

// A read sees what the program stores with release, word by word.
TEST(Polling, AReadSeesWhatTheProgramReleased) {
  Pair pair(on(Wire::kSharedMemory));
  Memory into(pair.a.pd, 16);
  Memory from(pair.b.pd, 16);
  from.fill_zero();
  std::atomic<bool> stop{false};
  const auto outcomes = run_threads(2, [&](int rank) {
    if (rank == 1) {
      for (std::uint64_t i = 1; !stop.load(std::memory_order_relaxed); ++i) {
        // Who reads the first word, then the second, never sees the second behind.
        __atomic_store_n(&from.at<std::uint64_t>(8), i, __ATOMIC_RELEASE);
        __atomic_store_n(&from.at<std::uint64_t>(0), i, __ATOMIC_RELEASE);
      }
      return;
    }
    const Segment segment = into.all();
    std::uint64_t before = 0;
    std::string wrong;
    for (unsigned i = 0; i < 500 && wrong.empty(); ++i) {
      pair.a.send(request(1, Opcode::kRdmaRead, {&segment, 1}, from));
      if (pair.a.wait().status != Status::kSuccess) wrong = "the read failed";
      const auto first = into.at<std::uint64_t>(0);
      const auto second = into.at<std::uint64_t>(8);
      if (first < before || second < first) {
        wrong = concat("saw ", first, " and ", second, " after ", before);
      }
      before = first;
    }
    stop.store(true, std::memory_order_relaxed);
    if (!wrong.empty()) RUNGS_THROW(kInternal, wrong);
  });
  EXPECT_EQ(failures(outcomes), "");
}

// Several queue pairs of several devices, and the program itself, add to one counter.
TEST(Atomics, FromManyQueuePairsEachValueIsSeenOnce) {
  constexpr int kRanks = 3;
  constexpr std::uint64_t kAdds = 200;
  End target;
  Memory counter(target.pd, 8);
  counter.fill_zero();
  std::vector<std::unique_ptr<End>> ends;
  std::vector<QueuePair> accepted;
  for (int rank = 0; rank < kRanks; ++rank) {
    ends.push_back(std::make_unique<End>(on(Wire::kSharedMemory)));
    QueuePairOptions options;
    options.send_cq = options.recv_cq = &target.cq;
    accepted.push_back(target.pd.create_rc(options));
    accepted.back().connect(ends.back()->address());
    ends.back()->qp->connect(accepted.back().address());
  }
  std::vector<std::vector<std::uint64_t>> seen(kRanks + 1);
  const auto outcomes = run_threads(kRanks + 1, [&](int rank) {
    for (std::uint64_t i = 0; i < kAdds; ++i) {
      if (rank == kRanks) {
        seen[kRanks].push_back(
            __atomic_fetch_add(&counter.at<std::uint64_t>(0), 1, __ATOMIC_ACQ_REL));
        continue;
      }
      End& end = *ends[static_cast<std::size_t>(rank)];
      Memory old(end.pd, 8);
      const Segment segment = old.all();
      SendRequest add = request(1, Opcode::kFetchAdd, {&segment, 1}, counter);
      add.add_or_swap = 1;
      end.send(add);
      if (end.wait().status != Status::kSuccess) RUNGS_THROW(kVerbs, "the add failed");
      seen[static_cast<std::size_t>(rank)].push_back(old.at<std::uint64_t>(0));
    }
  });
  ASSERT_EQ(failures(outcomes), "");
  std::set<std::uint64_t> all;
  for (const auto& one : seen) all.insert(one.begin(), one.end());
  EXPECT_EQ(all.size(), (kRanks + 1) * kAdds);
  EXPECT_EQ(*all.rbegin(), (kRanks + 1) * kAdds - 1);
}

}  // namespace
}  // namespace rungs::verbs
