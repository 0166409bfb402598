// Two-sided messages: send, send with immediate, inline data, scatter and gather, order.

#include "fixture.hpp"

namespace rungs::verbs {
namespace {

constexpr std::uint16_t kMtu = 512;

class SendRecv : public ::testing::TestWithParam<Wire> {
 protected:
  SendRecv() : pair_(on(GetParam(), kMtu)) {}
  End& a() { return pair_.a; }
  End& b() { return pair_.b; }
  Pair pair_;
};

TEST_P(SendRecv, MessagesOfEverySizeArriveWhole) {
  constexpr std::size_t kRoom = 1 << 20;
  Memory from(a().pd, kRoom);
  Memory to(b().pd, kRoom);
  from.fill(1);
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, std::size_t{kMtu - 1}, std::size_t{kMtu},
        std::size_t{kMtu + 1}, std::size_t{3 * kMtu}, kRoom}) {
    to.poison();
    ASSERT_EQ(b().receive(size + 1, to.all()).posted, 1u);
    const Segment segment = from.segment(0, size);
    ASSERT_EQ(a().send(request(size, Opcode::kSend, {&segment, 1})).posted, 1u);
    EXPECT_EQ(a().done().id, size);
    const Completion arrived = b().done();
    EXPECT_EQ(arrived.id, size + 1);
    EXPECT_TRUE(arrived.receive);
    EXPECT_EQ(arrived.opcode, Opcode::kSend);
    EXPECT_EQ(arrived.size_bytes, size);
    EXPECT_EQ(arrived.qp_number, b().qp->number());
    for (std::size_t i = 0; i < kRoom; ++i) {
      const std::byte want = i < size ? from.bytes()[i] : std::byte{0xcd};
      ASSERT_EQ(to.bytes()[i], want) << "byte " << i << " of " << size;
    }
  }
}

TEST_P(SendRecv, ImmediateDataArrivesWithTheMessage) {
  Memory from(a().pd, 2 * kMtu);
  Memory to(b().pd, 2 * kMtu);
  from.fill(2);
  for (const std::size_t size : {std::size_t{0}, std::size_t{7}, std::size_t{2 * kMtu}}) {
    ASSERT_EQ(b().receive(1, to.all()).posted, 1u);
    const Segment segment = from.segment(0, size);
    SendRequest send = request(2, Opcode::kSendWithImm, {&segment, 1});
    send.immediate = 0x12345678;
    ASSERT_EQ(a().send(send).posted, 1u);
    EXPECT_EQ(a().done().opcode, Opcode::kSendWithImm);
    const Completion arrived = b().done();
    EXPECT_EQ(arrived.opcode, Opcode::kSendWithImm);
    EXPECT_EQ(arrived.immediate, 0x12345678u);
    EXPECT_EQ(arrived.size_bytes, size);
  }
  EXPECT_TRUE(to.bytes() == from.bytes());
}

TEST_P(SendRecv, InlineDataMayBeOverwrittenAtOnce) {
  Memory to(b().pd, 64);
  for (unsigned i = 0; i < 32; ++i) ASSERT_EQ(b().receive(i, to.segment(i * 2, 2)).posted, 1u);
  // The source is not even registered.
  std::array<std::uint8_t, 2> bytes{};
  const Segment pieces[2] = {{bytes.data(), 1, 0}, {bytes.data() + 1, 1, 0}};
  for (std::uint8_t i = 0; i < 32; ++i) {
    bytes = {i, static_cast<std::uint8_t>(200 - i)};
    SendRequest send = request(i, Opcode::kSend, pieces);
    send.inline_data = true;
    ASSERT_EQ(a().send(send).posted, 1u);
    bytes = {99, 99};
  }
  for (unsigned i = 0; i < 32; ++i) {
    EXPECT_EQ(a().done().id, i);
    const Completion arrived = b().done();
    EXPECT_EQ(arrived.id, i);
    EXPECT_EQ(arrived.size_bytes, 2u);
    EXPECT_EQ(to.at<std::uint8_t>(2 * i), i);
    EXPECT_EQ(to.at<std::uint8_t>(2 * i + 1), 200 - i);
  }
}

TEST_P(SendRecv, GathersAndScattersOverUnequalSegments) {
  Memory from(a().pd, 4 * kMtu);
  Memory to(b().pd, 4 * kMtu);
  from.fill(3);
  // 1 + 700 + 0 + 300 bytes out; 500 + 1 + 13 + 487 in; 1,001 bytes are two packets.
  const std::vector<Segment> out{from.segment(10, 1), from.segment(100, 700), from.segment(5, 0),
                                 from.segment(900, 300)};
  const std::vector<Segment> in{to.segment(0, 500), to.segment(600, 1), to.segment(700, 13),
                                to.segment(800, 487 + 100)};
  std::vector<std::byte> message;
  for (const auto& [at, size] : {std::pair{10, 1}, {100, 700}, {900, 300}}) {
    message.insert(message.end(), from.bytes().begin() + at, from.bytes().begin() + at + size);
  }
  std::vector<std::byte> want = to.bytes();
  std::size_t next = 0;
  for (const auto& [at, size] : {std::pair{0, 500}, {600, 1}, {700, 13}, {800, 487}}) {
    for (int i = 0; i < size; ++i) want[static_cast<std::size_t>(at + i)] = message[next++];
  }
  ASSERT_EQ(next, message.size());
  ASSERT_EQ(b().receive(1, in).posted, 1u);
  ASSERT_EQ(a().send(request(1, Opcode::kSend, out)).posted, 1u);
  a().done();
  EXPECT_EQ(b().done().size_bytes, message.size());
  EXPECT_TRUE(to.bytes() == want);
}

// Messages find receive requests in order, also when requests are posted late, in both directions
// at once.
TEST_P(SendRecv, BothDirectionsKeepTheirOrder) {
  constexpr unsigned kMessages = 300;
  constexpr unsigned kSlots = 16;
  constexpr std::size_t kSize = kMtu + 40;
  std::array<std::unique_ptr<Memory>, 2> out;
  std::array<std::unique_ptr<Memory>, 2> in;
  const std::array<End*, 2> ends{&a(), &b()};
  std::array<unsigned, 2> posted{}, sent{}, received{}, completed{};
  for (unsigned side = 0; side < 2; ++side) {
    out[side] = std::make_unique<Memory>(ends[side]->pd, kSize * kSlots);
    in[side] = std::make_unique<Memory>(ends[side]->pd, kSize * kSlots);
  }
  const auto value = [](unsigned side, unsigned message) { return side * 100000 + message; };
  const Deadline deadline = Deadline::after(std::chrono::seconds(60));
  while (received[0] < kMessages || received[1] < kMessages) {
    ASSERT_FALSE(deadline.passed()) << received[0] << " and " << received[1];
    for (unsigned side = 0; side < 2; ++side) {
      End& end = *ends[side];
      while (posted[side] < kMessages && posted[side] < received[side] + kSlots) {
        const unsigned slot = posted[side] % kSlots;
        ASSERT_EQ(end.receive(posted[side]++, in[side]->segment(slot * kSize, kSize)).posted, 1u);
      }
      while (sent[side] < kMessages && sent[side] < completed[side] + kSlots) {
        const std::size_t at = sent[side] % kSlots * kSize;
        for (std::size_t i = 0; i + 4 <= kSize; i += 4) {
          out[side]->at<unsigned>(at + i) = value(side, sent[side]);
        }
        const Segment segment = out[side]->segment(at, kSize);
        ASSERT_EQ(end.send(request(sent[side]++, Opcode::kSend, {&segment, 1})).posted, 1u);
      }
      std::array<Completion, 8> done;
      const std::size_t count = end.cq.poll(done);
      for (std::size_t i = 0; i < count; ++i) {
        ASSERT_EQ(done[i].status, Status::kSuccess);
        unsigned& next = done[i].receive ? received[side] : completed[side];
        ASSERT_EQ(done[i].id, next);
        if (done[i].receive) {
          const std::size_t at = next % kSlots * kSize;
          for (std::size_t j = 0; j + 4 <= kSize; j += 4) {
            ASSERT_EQ(in[side]->at<unsigned>(at + j), value(1 - side, next));
          }
        }
        ++next;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, SendRecv, ::testing::Values(Wire::kSharedMemory, Wire::kUdp),
                         [](const auto& one) { return name_of(one.param); });

// A bad network loses no message and repeats none.
TEST(SendRecvOverABadNetwork, EveryMessageArrivesOnce) {
  for (const Wire wire : {Wire::kSharedMemory, Wire::kUdp}) {
    EndOptions of_a = on(wire, 256);
    of_a.device.loss = 0.05;
    of_a.device.duplicate = 0.1;
    of_a.device.reorder = 0.1;
    of_a.qp.ack_timeout_seconds = kLossy;
    EndOptions of_b = of_a;
    of_b.device.seed = 7;
    Pair pair(of_a, of_b);
    constexpr unsigned kMessages = 400;
    Memory from(pair.a.pd, 2000);
    Memory to(pair.b.pd, 2000 * 32);
    from.fill(4);
    testing::Random random(5);
    std::array<std::size_t, 32> size{};
    for (unsigned batch = 0; batch < kMessages / 32; ++batch) {
      for (unsigned i = 0; i < 32; ++i) {
        ASSERT_EQ(pair.b.receive(i, to.segment(i * 2000, 2000)).posted, 1u);
      }
      for (unsigned i = 0; i < 32; ++i) {
        size[i] = random.below(1000);
        const Segment segment = from.segment(i, size[i]);
        SendRequest send =
            request(i, i % 2 == 0 ? Opcode::kSend : Opcode::kSendWithImm, {&segment, 1});
        send.immediate = i;
        ASSERT_EQ(pair.a.send(send).posted, 1u);
      }
      for (unsigned i = 0; i < 32; ++i) {
        const Completion arrived = pair.b.done();
        ASSERT_EQ(arrived.id, i);
        ASSERT_EQ(arrived.size_bytes, size[i]);
        ASSERT_EQ(arrived.immediate, i % 2 == 0 ? 0 : i);
        for (std::size_t j = 0; j < size[i]; ++j) {
          ASSERT_EQ(to.bytes()[i * 2000 + j], from.bytes()[i + j]);
        }
        ASSERT_EQ(pair.a.done().id, i);
      }
    }
    EXPECT_GT(pair.a.device.counters().retransmissions, 0u);
    EXPECT_EQ(pair.b.poll_count(), 0u);
  }
}

}  // namespace
}  // namespace rungs::verbs
