// The queues themselves: what the driver writes, slot accounting, wrap-around of rings, completion
// queues and PSNs, and WQEs written by hand, as a GPU kernel would.

#include "fixture.hpp"

#include <atomic>
#include <cstring>
#include <numeric>

namespace rungs::verbs {
namespace {

using mlx5::be16;
using mlx5::be32;
using mlx5::be64;

EndOptions small(std::uint32_t send_depth, std::uint32_t recv_depth, unsigned cq_depth) {
  EndOptions options = on(Wire::kSharedMemory);
  options.qp.send_depth = send_depth;
  options.qp.recv_depth = recv_depth;
  options.cq_depth = cq_depth;
  return options;
}

std::uint32_t word(const void* at, std::size_t offset) {
  std::uint32_t value;
  std::memcpy(&value, static_cast<const std::byte*>(at) + offset, sizeof value);
  return be32(value);
}
std::uint64_t long_word(const void* at, std::size_t offset) {
  return std::uint64_t{word(at, offset)} << 32 | word(at, offset + 4);
}

// Byte by byte, without the structs under test.
TEST(Wqe, DriverWritesWhatMlx5Reads) {
  Pair pair(small(16, 16, 64));
  Memory from(pair.a.pd, 100);
  Memory to(pair.b.pd, 100);
  const std::uint32_t qpn = pair.a.qp->number();
  const mlx5::RawQueuePair raw = pair.a.qp->raw_queue();

  const std::vector<Segment> two{from.segment(0, 10), from.segment(0, 0), from.segment(20, 30)};
  SendRequest write = request(1, Opcode::kRdmaWrite, two, to, 7);
  ASSERT_EQ(pair.a.send(write).posted, 1u);
  pair.a.done();
  const void* wqe = raw.send_queue;
  EXPECT_EQ(word(wqe, 0), 0x08u);         // WQEBB 0, RDMA WRITE
  EXPECT_EQ(word(wqe, 4), qpn << 8 | 4);  // ctrl, raddr, two data segments
  EXPECT_EQ(word(wqe, 8), 0x08u);         // completion wanted
  EXPECT_EQ(word(wqe, 12), 0u);           // no immediate
  EXPECT_EQ(long_word(wqe, 16), to.region().remote_address() + 7);
  EXPECT_EQ(word(wqe, 24), to.region().rkey());
  EXPECT_EQ(word(wqe, 32), 10u);
  EXPECT_EQ(word(wqe, 36), from.region().lkey());
  EXPECT_EQ(long_word(wqe, 40), reinterpret_cast<std::uintptr_t>(from.data()));
  EXPECT_EQ(word(wqe, 48), 30u);  // the empty segment is left out
  EXPECT_EQ(long_word(wqe, 56), reinterpret_cast<std::uintptr_t>(from.data() + 20));
  EXPECT_EQ(be32(raw.doorbell_record[1]), 1u);

  const Segment eight = from.segment(40, 8);
  SendRequest swap = request(2, Opcode::kCompareSwap, {&eight, 1}, to, 0);
  swap.remote_address = (swap.remote_address + 7) / 8 * 8;
  swap.add_or_swap = 0x1122334455667788;
  swap.compare = 0x99;
  swap.fence = true;
  swap.signalled = false;
  // An inline message with immediate behind it, longer than one WQEBB.
  std::array<std::uint8_t, 50> text;
  std::iota(text.begin(), text.end(), std::uint8_t{1});
  const Segment unregistered{text.data(), text.size(), 0};
  SendRequest send = request(3, Opcode::kSendWithImm, {&unregistered, 1});
  send.inline_data = true;
  send.immediate = 0xcafe1234;
  ASSERT_EQ(pair.b.receive(1, to.all()).posted, 1u);
  ASSERT_EQ(pair.a.qp->post_send(std::vector{swap, send}).posted, 2u);
  EXPECT_EQ(pair.a.done().id, 3u);
  wqe = static_cast<std::byte*>(raw.send_queue) + 64;
  EXPECT_EQ(word(wqe, 0), 1u << 8 | 0x11);
  EXPECT_EQ(word(wqe, 4), qpn << 8 | 4);
  EXPECT_EQ(word(wqe, 8), 0x80u);  // fence, no completion
  EXPECT_EQ(long_word(wqe, 16), swap.remote_address);
  EXPECT_EQ(long_word(wqe, 32), 0x1122334455667788u);
  EXPECT_EQ(long_word(wqe, 40), 0x99u);
  EXPECT_EQ(word(wqe, 48), 8u);
  wqe = static_cast<std::byte*>(raw.send_queue) + 128;
  EXPECT_EQ(word(wqe, 0), 2u << 8 | 0x0b);
  EXPECT_EQ(word(wqe, 4), qpn << 8 | 5);  // ctrl, and 4 + 50 bytes are 4 segments
  EXPECT_EQ(word(wqe, 12), 0xcafe1234u);
  EXPECT_EQ(word(wqe, 16), 0x80000032u);
  EXPECT_EQ(std::memcmp(static_cast<const std::byte*>(wqe) + 20, text.data(), 50), 0);
  EXPECT_EQ(be32(raw.doorbell_record[1]), 4u);  // WQEBBs: the last WQE has two

  const mlx5::RawQueuePair raw_b = pair.b.qp->raw_queue();
  EXPECT_EQ(word(raw_b.receive_queue, 0), 100u);
  EXPECT_EQ(word(raw_b.receive_queue, 4), to.region().lkey());
  EXPECT_EQ(word(raw_b.receive_queue, 20), 0x100u);  // the end of a short list
  EXPECT_EQ(be32(raw_b.doorbell_record[0]), 1u);
}

class RawQueueTest : public ::testing::TestWithParam<mlx5::DoorbellWriter> {};
INSTANTIATE_TEST_SUITE_P(Writers, RawQueueTest,
                         ::testing::Values(mlx5::DoorbellWriter::kSilent,
                                           mlx5::DoorbellWriter::kWakes));

// What a GPU kernel does: WQE, record, register; then it polls the CQE itself.
TEST_P(RawQueueTest, WrittenByHandItIsServed) {
  Pair pair(small(16, 16, 16));
  Memory from(pair.a.pd, 64);
  Memory to(pair.b.pd, 64);
  from.fill(1);
  const mlx5::RawQueuePair qp = pair.a.qp->raw_queue(GetParam());
  const mlx5::RawCompletionQueue cq = pair.a.cq.raw_queue();
  const auto lies_in = [](const void* at, std::size_t size, const auto& queue) {
    const auto* begin = static_cast<const std::byte*>(queue.memory);
    const auto* first = static_cast<const std::byte*>(at);
    return first >= begin && first + size <= begin + queue.memory_bytes;
  };
  EXPECT_TRUE(lies_in(qp.send_queue, qp.send_wqebbs * std::size_t{64}, qp));
  EXPECT_TRUE(lies_in(qp.doorbell_record, 8, qp) && lies_in(qp.doorbell, 8, qp));
  EXPECT_TRUE(lies_in(cq.entries, cq.entry_count * std::size_t{64}, cq));
  EXPECT_TRUE(lies_in(cq.doorbell_record, 8, cq));
  for (const std::size_t bytes : {qp.memory_bytes, cq.memory_bytes}) EXPECT_EQ(bytes % 4096, 0u);
  auto* const ring = static_cast<std::byte*>(qp.send_queue);
  for (std::uint32_t i = 0; i < 40; ++i) {  // beyond the ring's 32 blocks and twice the CQ's 16
    const std::uint32_t block = i & (qp.send_wqebbs - 1);
    mlx5::CtrlSegment ctrl{};
    ctrl.opmod_idx_opcode = be32(i << 8 | mlx5::kRdmaWrite);
    ctrl.qpn_ds = be32(qp.qp_number << 8 | 3);
    ctrl.fm_ce_se = mlx5::kCqUpdate;
    const mlx5::RemoteSegment remote{be64(to.region().remote_address() + i),
                                     be32(to.region().rkey()), 0};
    const mlx5::DataSegment data{be32(1), be32(from.region().lkey()),
                                 be64(from.region().remote_address() + i)};
    std::memcpy(ring + block * 64, &ctrl, 16);
    std::memcpy(ring + block * 64 + 16, &remote, 16);
    std::memcpy(ring + block * 64 + 32, &data, 16);
    std::uint64_t doorbell;
    std::memcpy(&doorbell, &ctrl, 8);
    __atomic_store_n(&qp.doorbell_record[mlx5::kSendRecord], be32((i + 1) & 0xffff),
                     __ATOMIC_RELEASE);
    __atomic_store_n(qp.doorbell, doorbell, __ATOMIC_RELEASE);
    if (GetParam() == mlx5::DoorbellWriter::kWakes) qp.wake(qp.wake_context);

    mlx5::Cqe64& cqe = cq.entries[i & (cq.entry_count - 1)];
    const std::uint8_t lap = (i & cq.entry_count) != 0;
    const Deadline deadline = Deadline::standard();
    mlx5::CqeEnd end{};
    Backoff backoff;
    do {
      ASSERT_FALSE(deadline.passed()) << "no completion for WQE " << i;
      backoff.pause();
      end = mlx5::cqe_end(__atomic_load_n(mlx5::end_word(&cqe), __ATOMIC_ACQUIRE));
    } while (end.opcode == mlx5::kCqeInvalid || end.owner != lap);
    ASSERT_EQ(end.opcode, mlx5::kCqeRequest);
    ASSERT_EQ(end.wqe_counter, i);
    ASSERT_EQ(be32(cqe.sop_drop_qpn), 8u << 24 | qp.qp_number);
    __atomic_store_n(&cq.doorbell_record[mlx5::kCqConsumerRecord], be32(i + 1), __ATOMIC_RELEASE);
    ASSERT_EQ(to.bytes()[i], from.bytes()[i]);
  }
}

// A WQE that makes no sense ends the connection with a local error and no packet.
TEST(Wqe, BrokenOnesAreRefused) {
  struct Break {
    const char* what;
    std::uint32_t first;
    std::uint32_t second_flip;
    std::uint32_t third_segment;
  };
  for (const Break& broken : {Break{"index of another block", 5u << 8 | mlx5::kSend, 0, 0},
                              Break{"another queue pair's number", mlx5::kSend, 1u << 8, 0},
                              Break{"unknown opcode", 0x3f, 0, 0},
                              Break{"a write without its remote segment", mlx5::kRdmaWrite, 0, 0},
                              Break{"no segments at all", mlx5::kSend, 1, 0},
                              Break{"inline data beyond the WQE", mlx5::kSend, 3, 0x80000100}}) {
    Pair pair(small(16, 16, 16));
    const mlx5::RawQueuePair qp = pair.a.qp->raw_queue();
    auto* const ring = static_cast<std::byte*>(qp.send_queue);
    // What reaches the queue is a plain send, by the driver; then it is broken and sent again.
    const std::uint32_t words[5] = {be32(broken.first),
                                    be32((qp.qp_number << 8 | 1) ^ broken.second_flip), 0, 0,
                                    be32(broken.third_segment)};
    std::memcpy(ring, words, sizeof words);
    __atomic_store_n(&qp.doorbell_record[mlx5::kSendRecord], be32(1), __ATOMIC_RELEASE);
    __atomic_store_n(qp.doorbell, std::uint64_t{1}, __ATOMIC_RELEASE);
    const Completion refused = pair.a.wait();
    EXPECT_EQ(refused.status, Status::kLocalQpOperation) << broken.what;
    EXPECT_TRUE(pair.a.qp->failed()) << broken.what;
    EXPECT_EQ(pair.a.device.counters().packets_sent, 0u) << broken.what;
  }
}

TEST(Wqe, ForgottenDoorbellLeavesTheWqeUnserved) {
  Pair pair(small(16, 16, 16));
  const mlx5::RawQueuePair qp = pair.a.qp->raw_queue();
  const std::uint32_t words[2] = {be32(mlx5::kNop), be32(qp.qp_number << 8 | 1)};
  const std::uint32_t flags = be32(mlx5::kCqUpdate);
  std::memcpy(qp.send_queue, words, sizeof words);
  std::memcpy(static_cast<std::byte*>(qp.send_queue) + 8, &flags, sizeof flags);
  __atomic_store_n(&qp.doorbell_record[mlx5::kSendRecord], be32(1), __ATOMIC_RELEASE);
  // The record alone wakes nobody...
  EXPECT_THROW(pair.a.cq.wait_one(Deadline::after(std::chrono::milliseconds(30))), Error);
  EXPECT_EQ(pair.a.device.counters().wqes, 0u);
  // ...the register does, and a NOP completes without a packet.
  __atomic_store_n(qp.doorbell, std::uint64_t{1}, __ATOMIC_RELEASE);
  EXPECT_EQ(pair.a.wait().status, Status::kSuccess);
  EXPECT_EQ(pair.a.device.counters().packets_sent, 0u);
}

// The lab of the "empty" send queue that is full: 8 unsignalled writes are executed, acknowledged
// and forgotten by the device; the driver cannot know.
TEST(SlotAccounting, UnsignalledRequestsHoldTheirSlots) {
  Pair pair(small(8, 8, 64));
  Memory from(pair.a.pd, 8);
  Memory to(pair.b.pd, 8);
  from.fill(1);
  const Segment segment = from.all();
  SendRequest write = request(0, Opcode::kRdmaWrite, {&segment, 1}, to);
  write.signalled = false;
  for (unsigned i = 0; i < 8; ++i) {
    EXPECT_EQ(pair.a.qp->send_slots_free(), 8 - i);
    ASSERT_EQ(pair.a.send(write).posted, 1u);
  }
  // All are done: another queue pair's word for it would be the peer's memory.
  wait_until(
      [&] {
        return pair.a.device.counters().packets_received > 0 &&
               __atomic_load_n(&to.at<std::uint64_t>(0), __ATOMIC_ACQUIRE) ==
                   from.at<std::uint64_t>(0);
      },
      Deadline::standard(), [] { return std::string("the writes"); });
  // Variant A: nothing to poll, and no slot, for ever.
  const PostResult full = pair.a.send(write);
  EXPECT_EQ(full.posted, 0u);
  EXPECT_EQ(full.error, PostError::kQueueFull);
  EXPECT_EQ(pair.a.poll_count(), 0u);
  EXPECT_EQ(pair.a.qp->send_slots_free(), 0u);
}

TEST(SlotAccounting, OneCompletionFreesAllSlotsBeforeIt) {
  Pair pair(small(8, 8, 64));
  Memory from(pair.a.pd, 8);
  Memory to(pair.b.pd, 8);
  const Segment segment = from.all();
  SendRequest write = request(0, Opcode::kRdmaWrite, {&segment, 1}, to);
  // Variants B and C: the sixth is signalled; its completion frees six slots at once.
  for (unsigned i = 0; i < 8; ++i) {
    write.id = i;
    write.signalled = i == 5;
    ASSERT_EQ(pair.a.send(write).posted, 1u);
  }
  EXPECT_EQ(pair.a.qp->send_slots_free(), 0u);
  EXPECT_EQ(pair.a.done().id, 5u);
  EXPECT_EQ(pair.a.qp->send_slots_free(), 6u);
  for (unsigned i = 0; i < 6; ++i) ASSERT_EQ(pair.a.send(write).posted, 1u);
  EXPECT_EQ(pair.a.send(write).error, PostError::kQueueFull);
}

TEST(SlotAccounting, CountsRequestsAndNotBlocks) {
  EndOptions options = small(8, 8, 64);
  options.qp.max_inline_bytes = 200;  // up to four WQEBBs
  Pair pair(options);
  Memory to(pair.b.pd, 200);
  std::array<std::byte, 200> bytes{};
  // Variant D: long and short requests take one slot each.
  for (unsigned i = 0; i < 8; ++i) {
    const Segment segment{bytes.data(), i % 2 == 0 ? 200u : 4u, 0};
    SendRequest write = request(i, Opcode::kRdmaWrite, {&segment, 1}, to);
    write.inline_data = true;
    ASSERT_EQ(pair.a.send(write).posted, 1u) << i;
    EXPECT_EQ(pair.a.qp->send_slots_free(), 7 - i);
  }
  for (unsigned i = 0; i < 8; ++i) EXPECT_EQ(pair.a.done().id, i);
  EXPECT_EQ(pair.a.qp->send_slots_free(), 8u);
}

TEST(SlotAccounting, ReceiveQueueIsFullToo) {
  Pair pair(small(8, 4, 64));
  Memory to(pair.b.pd, 64);
  for (unsigned i = 0; i < 4; ++i) ASSERT_EQ(pair.b.receive(i, to.all()).posted, 1u);
  EXPECT_EQ(pair.b.receive(4, to.all()).error, PostError::kQueueFull);
}

TEST(PostErrors, EachCauseHasItsName) {
  EndOptions options = small(8, 8, 64);
  options.qp.max_segments = 2;
  options.qp.max_inline_bytes = 16;
  Pair pair(options);
  Memory memory(pair.a.pd, 64);
  Memory remote(pair.b.pd, 64);
  const std::vector<Segment> three(3, memory.segment(0, 1));
  EXPECT_EQ(pair.a.send(request(1, Opcode::kSend, three)).error, PostError::kTooManySegments);
  EXPECT_EQ(pair.a.receive(1, three).error, PostError::kTooManySegments);

  const Segment seventeen = memory.segment(0, 17);
  SendRequest bad = request(1, Opcode::kSend, {&seventeen, 1});
  bad.inline_data = true;
  EXPECT_EQ(pair.a.send(bad).error, PostError::kInlineTooLong);
  bad = request(1, Opcode::kRdmaRead, {&seventeen, 1}, remote);
  bad.inline_data = true;
  EXPECT_EQ(pair.a.send(bad).error, PostError::kBadRequest);

  const Segment eight = memory.segment(0, 8);
  bad = request(1, Opcode::kFetchAdd, {&seventeen, 1}, remote);
  EXPECT_EQ(pair.a.send(bad).error, PostError::kBadRequest) << "17 bytes";
  bad = request(1, Opcode::kFetchAdd, {&eight, 1}, remote);
  bad.remote_address = bad.remote_address / 8 * 8 + 12;
  EXPECT_EQ(pair.a.send(bad).error, PostError::kBadRequest) << "not aligned";

  // A list stops at the first that does not fit; those before it are on their way.
  const Segment one = memory.segment(0, 1);
  SendRequest good = request(5, Opcode::kRdmaWrite, {&one, 1}, remote);
  const PostResult result = pair.a.qp->post_send(std::vector{good, bad, good});
  EXPECT_EQ(result.posted, 1u);
  EXPECT_EQ(result.error, PostError::kBadRequest);
  EXPECT_EQ(pair.a.done().id, 5u);
  EXPECT_EQ(pair.a.poll_count(), 0u);

  End alone(options);
  EXPECT_EQ(alone.send(good).error, PostError::kWrongState) << "not connected";
}

// More than 65,536 WQEBBs of uneven length through 32, and as many completions through 16.
TEST(WrapAround, RingsAndIndicesWrapManyTimes) {
  EndOptions options = small(8, 4, 16);
  options.qp.max_inline_bytes = 200;
  Pair pair(options);
  constexpr unsigned kMessages = 24000;
  Memory to(pair.b.pd, 4 * 256);
  std::array<std::uint8_t, 200> bytes;
  for (unsigned i = 0; i < kMessages; ++i) {
    const auto size = static_cast<std::uint32_t>(i * 37 % 200 + 1);
    for (std::uint32_t j = 0; j < size; ++j) bytes[j] = static_cast<std::uint8_t>(i + j);
    const std::size_t slot = i % 4 * 256;
    ASSERT_EQ(pair.b.receive(i, to.segment(slot, 256)).posted, 1u);
    const Segment segment{bytes.data(), size, 0};
    SendRequest send = request(i, Opcode::kSend, {&segment, 1});
    send.inline_data = true;
    ASSERT_EQ(pair.a.send(send).posted, 1u);
    if (i % 4 != 3) continue;
    for (unsigned k = i - 3; k <= i; ++k) {
      const Completion arrived = pair.b.done();
      ASSERT_EQ(arrived.id, k);
      ASSERT_EQ(arrived.size_bytes, k * 37 % 200 + 1);
      for (std::uint32_t j = 0; j < arrived.size_bytes; ++j) {
        ASSERT_EQ(to.at<std::uint8_t>(k % 4 * 256 + j), static_cast<std::uint8_t>(k + j));
      }
      ASSERT_EQ(pair.a.done().id, k);
    }
  }
}

TEST(WrapAround, PsnsWrapUnderEveryOpcode) {
  for (const double loss : {0.0, 0.05}) {
    EndOptions options = on(Wire::kSharedMemory, 256);
    options.first_psn = 0xfffffa;
    options.device.loss = loss;
    options.device.reorder = loss;
    options.qp.ack_timeout_seconds = kLossy;
    Pair pair(options);
    Memory from(pair.a.pd, 2000);
    Memory to(pair.b.pd, 2000);
    Memory back(pair.a.pd, 2000);
    Memory old(pair.a.pd, 8);
    Memory counter(pair.b.pd, 8);
    counter.fill_zero();
    for (unsigned round = 0; round < 8; ++round) {
      from.fill(round);
      const Segment all = from.all();
      const Segment all_back = back.all();
      const Segment eight = old.all();
      ASSERT_EQ(pair.b.receive(round, to.all()).posted, 1u);
      SendRequest add = request(3, Opcode::kFetchAdd, {&eight, 1}, counter);
      add.add_or_swap = 3;
      const std::vector<SendRequest> list{request(1, Opcode::kSend, {&all, 1}),
                                          request(2, Opcode::kRdmaWrite, {&all, 1}, to), add,
                                          request(4, Opcode::kRdmaRead, {&all_back, 1}, to)};
      ASSERT_EQ(pair.a.qp->post_send(list).posted, 4u);
      for (unsigned i = 1; i <= 4; ++i) ASSERT_EQ(pair.a.done().id, i) << "round " << round;
      ASSERT_EQ(pair.b.done().size_bytes, 2000u);
      ASSERT_TRUE(back.bytes() == from.bytes());
      ASSERT_EQ(old.at<std::uint64_t>(0), 3 * round);
    }
  }
}

TEST(CompletionQueueOverflow, IsReportedAndFailsThePair) {
  Pair pair(small(16, 16, 4));
  Memory from(pair.a.pd, 8);
  Memory to(pair.b.pd, 8);
  const Segment segment = from.all();
  const std::vector<SendRequest> list(10, request(1, Opcode::kRdmaWrite, {&segment, 1}, to));
  ASSERT_EQ(pair.a.qp->post_send(list).posted, 10u);
  wait_until([&] { return pair.a.qp->failed(); }, Deadline::standard(),
             [] { return std::string("the pair to fail"); });
  EXPECT_TRUE(pair.a.cq_overflowed());
  for (unsigned i = 0; i < 4; ++i) EXPECT_EQ(pair.a.wait().status, Status::kSuccess);
  try {
    pair.a.wait();
    FAIL() << "a fifth completion";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kVerbs);
    EXPECT_NE(error.message().find("overflowed"), std::string::npos) << error.message();
  }
}

}  // namespace
}  // namespace rungs::verbs
