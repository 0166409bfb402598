// What goes wrong, and that each cause has its status: at the requester, at the responder, in the
// network. After a failure everything posted completes as flushed, in order.

#include "fixture.hpp"

#include <sys/mman.h>
#include <ostream>

namespace rungs::verbs {
namespace {

EndOptions quick(Wire wire = Wire::kSharedMemory) {
  EndOptions options = on(wire, 256);
  options.qp.rnr_timer_seconds = 0.0001;
  return options;
}

bool untouched(const Memory& memory) {
  return std::all_of(memory.bytes().begin(), memory.bytes().end(),
                     [](std::byte byte) { return byte == std::byte{0xcd}; });
}

SendRequest unsignalled(SendRequest request) {
  request.signalled = false;
  return request;
}

// Waits until the pair failed at this end.
void expect_failed(End& end) {
  EXPECT_NO_THROW(wait_until([&] { return end.qp->failed(); }, Deadline::standard(),
                             [] { return std::string("the pair to fail"); }));
}

struct OneSidedFault {
  std::string name;
  Access granted = Access::kAll;
  std::uint32_t rkey_flip = 0;
  std::size_t offset = 0;
  bool other_pd = false;
  bool deregistered = false;
  friend void PrintTo(const OneSidedFault& fault, std::ostream* out) { *out << fault.name; }
};

class RemoteAccess : public ::testing::TestWithParam<OneSidedFault> {};

TEST_P(RemoteAccess, IsRefusedForEveryOpcodeAndNothingIsTouched) {
  const OneSidedFault& fault = GetParam();
  for (const Opcode opcode : {Opcode::kRdmaWrite, Opcode::kRdmaWriteWithImm, Opcode::kRdmaRead,
                              Opcode::kFetchAdd, Opcode::kCompareSwap}) {
    SCOPED_TRACE(to_string(opcode));
    const bool atomic = opcode == Opcode::kFetchAdd || opcode == Opcode::kCompareSwap;
    Pair pair(quick());
    const std::size_t size = atomic ? 8 : 1000;  // four packets
    Memory local(pair.a.pd, size);
    ProtectionDomain other = pair.b.device.alloc_pd();
    std::optional<Memory> remote;
    remote.emplace(fault.other_pd ? other : pair.b.pd, 1000, fault.granted);
    const Memory spare(pair.b.pd, 8);
    // Two receive requests, of which a write with immediate may use none.
    ASSERT_EQ(pair.b.receive(50, spare.all()).posted, 1u);
    ASSERT_EQ(pair.b.receive(51, spare.all()).posted, 1u);
    const Segment segment = local.all();
    SendRequest bad = request(1, opcode, {&segment, 1}, *remote);
    bad.remote_address += atomic && fault.offset > 0 ? 1000 : fault.offset;
    bad.remote_address = atomic ? bad.remote_address / 8 * 8 : bad.remote_address;
    bad.rkey ^= fault.rkey_flip;
    if (fault.deregistered) remote.reset();

    ASSERT_EQ(pair.a.qp->post_send(std::vector{unsignalled(bad), unsignalled(bad)}).posted, 2u);
    Completion completion = pair.a.wait();
    EXPECT_EQ(completion.status, Status::kRemoteAccess) << to_string(completion.status);
    EXPECT_EQ(completion.id, 1u);
    EXPECT_EQ(pair.a.wait().status, Status::kFlushed);
    expect_failed(pair.a);
    expect_failed(pair.b);
    for (const std::uint64_t id : {50u, 51u}) {
      completion = pair.b.wait();
      EXPECT_EQ(completion.status, Status::kFlushed);
      EXPECT_EQ(completion.id, id);
    }
    if (remote) {
      EXPECT_TRUE(untouched(*remote));
    }
    EXPECT_TRUE(untouched(local));
    EXPECT_EQ(pair.a.send(bad).error, PostError::kWrongState);
    EXPECT_EQ(pair.a.receive(1, segment).error, PostError::kWrongState);
  }
}

INSTANTIATE_TEST_SUITE_P(
    , RemoteAccess,
    ::testing::Values(OneSidedFault{.name = "wrong_rkey", .rkey_flip = 1},
                      OneSidedFault{.name = "rkey_out_of_the_table", .rkey_flip = 0x40000000},
                      OneSidedFault{.name = "one_byte_beyond_the_region", .offset = 1},
                      OneSidedFault{.name = "region_without_remote_access",
                                    .granted = Access::kLocalWrite},
                      OneSidedFault{.name = "another_protection_domain", .other_pd = true},
                      OneSidedFault{.name = "region_is_gone", .deregistered = true}),
    [](const auto& one) { return one.param.name; });

TEST(RemoteAccessBits, EachAllowsItsOpcodesOnly) {
  struct Right {
    Access access;
    Opcode allowed;
  };
  for (const Right& right : {Right{Access::kRemoteWrite, Opcode::kRdmaWrite},
                             Right{Access::kRemoteRead, Opcode::kRdmaRead},
                             Right{Access::kRemoteAtomic, Opcode::kFetchAdd}}) {
    for (const Opcode opcode : {Opcode::kRdmaWrite, Opcode::kRdmaRead, Opcode::kFetchAdd}) {
      Pair pair(quick());
      Memory local(pair.a.pd, 8);
      Memory remote(pair.b.pd, 16, right.access);
      const Segment segment = local.all();
      SendRequest one = request(1, opcode, {&segment, 1}, remote);
      one.remote_address = (one.remote_address + 7) / 8 * 8;
      ASSERT_EQ(pair.a.send(one).posted, 1u);
      EXPECT_EQ(pair.a.wait().status,
                opcode == right.allowed ? Status::kSuccess : Status::kRemoteAccess)
          << to_string(opcode) << " with access " << static_cast<unsigned>(right.access);
    }
  }
}

TEST(LocalProtection, WrongLkeyFailsInItsTurn) {
  Pair pair(quick());
  Memory from(pair.a.pd, 1000);
  Memory to(pair.b.pd, 1000);
  const Segment good = from.all();
  Segment bad = good;
  bad.lkey ^= 1;
  const std::vector<SendRequest> list{request(1, Opcode::kRdmaWrite, {&good, 1}, to),
                                      request(2, Opcode::kRdmaWrite, {&bad, 1}, to),
                                      request(3, Opcode::kRdmaWrite, {&good, 1}, to)};
  ASSERT_EQ(pair.a.qp->post_send(list).posted, 3u);
  EXPECT_EQ(pair.a.wait().status, Status::kSuccess);
  const Completion failed = pair.a.wait();
  EXPECT_EQ(failed.id, 2u);
  EXPECT_EQ(failed.status, Status::kLocalProtection);
  EXPECT_EQ(failed.opcode, Opcode::kRdmaWrite);
  EXPECT_EQ(pair.a.wait().status, Status::kFlushed);
}

TEST(LocalProtection, ReadsAndAtomicsNeedLocalWrite) {
  for (const Opcode opcode : {Opcode::kRdmaRead, Opcode::kFetchAdd}) {
    Pair pair(quick());
    Memory into(pair.a.pd, 8, Access::kLocalRead);
    Memory from(pair.b.pd, 8);
    const Segment segment = into.all();
    ASSERT_EQ(pair.a.send(request(1, opcode, {&segment, 1}, from)).posted, 1u);
    EXPECT_EQ(pair.a.wait().status, Status::kLocalProtection) << to_string(opcode);
    EXPECT_TRUE(untouched(from)) << "it was never sent";
  }
}

TEST(LocalProtection, OfTheReceiverIsAnOperationErrorForTheSender) {
  Pair pair(quick());
  Memory from(pair.a.pd, 600);
  Memory to(pair.b.pd, 600, Access::kRemoteWrite);  // not for receiving
  ASSERT_EQ(pair.b.receive(9, to.all()).posted, 1u);
  const Segment segment = from.all();
  ASSERT_EQ(pair.a.send(request(1, Opcode::kSend, {&segment, 1})).posted, 1u);
  const Completion receiver = pair.b.wait();
  EXPECT_EQ(receiver.id, 9u);
  EXPECT_EQ(receiver.status, Status::kLocalProtection);
  EXPECT_TRUE(receiver.receive);
  EXPECT_EQ(pair.a.wait().status, Status::kRemoteOperation);
}

TEST(Length, MessageBeyondTheReceiveBufferFailsBothEnds) {
  for (const Wire wire : {Wire::kSharedMemory, Wire::kUdp}) {
    for (const std::size_t size : {std::size_t{101}, std::size_t{5000}}) {
      Pair pair(quick(wire));
      Memory from(pair.a.pd, size);
      Memory to(pair.b.pd, 6000);
      ASSERT_EQ(pair.b.receive(1, to.segment(0, 100)).posted, 1u);
      ASSERT_EQ(pair.b.receive(2, to.all()).posted, 1u);
      const Segment segment = from.all();
      ASSERT_EQ(pair.a.send(request(3, Opcode::kSend, {&segment, 1})).posted, 1u);
      Completion completion = pair.b.wait();
      EXPECT_EQ(completion.id, 1u);
      EXPECT_EQ(completion.status, Status::kLocalLength) << to_string(completion.status);
      completion = pair.b.wait();
      EXPECT_EQ(completion.id, 2u);
      EXPECT_EQ(completion.status, Status::kFlushed);
      completion = pair.a.wait();
      EXPECT_EQ(completion.id, 3u);
      EXPECT_EQ(completion.status, Status::kRemoteInvalidRequest) << to_string(completion.status);
      EXPECT_TRUE(pair.b.qp->failed());
      EXPECT_TRUE(pair.a.qp->failed());
    }
  }
}

TEST(Length, MoreThanAGibibyteIsTooLongForThePath) {
  constexpr std::size_t kHalf = std::size_t{1} << 29;
  // Address space only: the device must refuse before it touches it.
  void* const space = mmap(nullptr, kHalf, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(space, MAP_FAILED);
  {
    Pair pair(quick());
    const MemoryRegion region = pair.a.pd.register_memory(space, kHalf, Access::kAll);
    Memory to(pair.b.pd, 8);
    const std::vector<Segment> segments{region.segment(0, kHalf), region.segment(0, kHalf),
                                        region.segment(0, 1)};
    ASSERT_EQ(pair.a.send(request(1, Opcode::kRdmaWrite, segments, to)).posted, 1u);
    EXPECT_EQ(pair.a.wait().status, Status::kLocalLength);
  }
  munmap(space, kHalf);
}

TEST(ReceiverNotReady, SenderWaitsUntilItIs) {
  for (const Opcode opcode : {Opcode::kSend, Opcode::kRdmaWriteWithImm}) {
    Pair pair(quick());
    Memory from(pair.a.pd, 700);
    Memory to(pair.b.pd, 700);
    from.fill(1);
    const Segment segment = from.all();
    SendRequest one = request(1, opcode, {&segment, 1}, to);
    ASSERT_EQ(pair.a.qp->post_send(std::vector{one, one}).posted, 2u);
    wait_until([&] { return pair.b.device.counters().naks_sent >= 3; }, Deadline::standard(),
               [] { return std::string("three NAKs"); });
    EXPECT_EQ(pair.a.poll_count(), 0u);
    ASSERT_EQ(pair.b.receive(1, to.all()).posted, 1u);
    pair.a.done();
    pair.b.done();
    ASSERT_EQ(pair.b.receive(2, to.all()).posted, 1u);
    pair.a.done();
    pair.b.done();
    // Not before: a write needs the receive request for its last packet only.
    EXPECT_TRUE(to.bytes() == from.bytes());
  }
}

TEST(ReceiverNotReady, PatienceEndsWithTheRetryCount) {
  EndOptions options = quick();
  options.qp.rnr_retry_count = 3;
  options.qp.ack_timeout_seconds = 10;  // only NAKs make it send again
  Pair pair(options);
  Memory from(pair.a.pd, 8);
  const Segment segment = from.all();
  ASSERT_EQ(pair.a.send(request(1, Opcode::kSend, {&segment, 1})).posted, 1u);
  const Completion completion = pair.a.wait();
  EXPECT_EQ(completion.status, Status::kRnrRetryExceeded) << to_string(completion.status);
  EXPECT_EQ(pair.b.device.counters().naks_sent, 4u) << "one try and three retries";
  EXPECT_FALSE(pair.b.qp->failed()) << "the receiver did nothing wrong";
}

TEST(Flush, FailCompletesBothQueuesInOrder) {
  Pair pair(quick());
  Memory memory(pair.a.pd, 8);
  const Segment segment = memory.all();
  for (unsigned i = 0; i < 5; ++i) ASSERT_EQ(pair.a.receive(100 + i, segment).posted, 1u);
  // Sends that the peer has no receive requests for.
  for (unsigned i = 0; i < 5; ++i) {
    SendRequest send = request(i, Opcode::kSend, {&segment, 1});
    send.signalled = i % 2 == 0;
    ASSERT_EQ(pair.a.send(send).posted, 1u);
  }
  pair.a.qp->fail();
  EXPECT_TRUE(pair.a.qp->failed());
  std::uint64_t sends = 0;
  std::uint64_t receives = 100;
  for (unsigned i = 0; i < 10; ++i) {
    const Completion completion = pair.a.wait();
    EXPECT_EQ(completion.status, Status::kFlushed);
    EXPECT_EQ(completion.id, completion.receive ? receives++ : sends++);
  }
  EXPECT_EQ(sends, 5u) << "unsignalled ones too";
  EXPECT_EQ(pair.a.poll_count(), 0u);
  EXPECT_EQ(pair.a.send(request(1, Opcode::kSend, {&segment, 1})).error, PostError::kWrongState);
}

class PeerGone : public ::testing::TestWithParam<Wire> {};

TEST_P(PeerGone, EndsWithRetryExceededInBoundedTime) {
  for (const bool whole_device : {true, false}) {
    EndOptions options = quick(GetParam());
    options.qp.retry_count = 3;
    options.qp.ack_timeout_seconds = 0.1;
    std::optional<End> b(std::in_place, options);
    End a(options);
    a.qp->connect(b->address());
    b->qp->connect(a.address());
    Memory from(a.pd, 100000);
    std::optional<Memory> to(std::in_place, b->pd, 100000);
    const Segment segment = from.all();
    const SendRequest write = request(1, Opcode::kRdmaWrite, {&segment, 1}, *to);
    ASSERT_EQ(a.send(write).posted, 1u);
    a.done();
    b->qp.reset();
    const SendRequest late = request(2, Opcode::kRdmaWrite, {&segment, 1}, *to);
    if (whole_device) {
      // `to` keeps the device alive: the rest of it goes too, as a process that ends.
      to.reset();
      b.reset();
    }
    const auto begin = std::chrono::steady_clock::now();
    ASSERT_EQ(a.qp->post_send(std::vector{late, unsignalled(late)}).posted, 2u);
    Completion completion = a.wait();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    EXPECT_EQ(completion.status, Status::kRetryExceeded) << to_string(completion.status);
    EXPECT_EQ(completion.id, 2u);
    // Four time-outs. The upper bound only says that it ends; machines are slow.
    EXPECT_GE(took.count(), 4 * 0.1 * timeout_scale());
    EXPECT_LT(took.count(), 4 * 0.1 * timeout_scale() + 10);
    EXPECT_EQ(a.wait().status, Status::kFlushed);
    EXPECT_TRUE(a.qp->failed());
  }
}

INSTANTIATE_TEST_SUITE_P(, PeerGone, ::testing::Values(Wire::kSharedMemory, Wire::kUdp),
                         [](const auto& one) { return name_of(one.param); });

// A responder that died says so again when it is asked again: the sender learns the cause and not
// only that nobody answers. This device sends nothing but NAKs, so the seeds decide which are lost.
TEST(LostNak, IsRepeated) {
  std::uint64_t lost = 0;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    EndOptions of_b = quick();
    of_b.device.loss = 0.6;
    of_b.device.seed = seed;
    EndOptions of_a = quick();
    of_a.qp.ack_timeout_seconds = kLossy;
    Pair pair(of_a, of_b);
    Memory from(pair.a.pd, 8);
    Memory to(pair.b.pd, 8);
    const Segment segment = from.all();
    SendRequest bad = request(1, Opcode::kRdmaWrite, {&segment, 1}, to);
    bad.rkey ^= 1;
    ASSERT_EQ(pair.a.send(bad).posted, 1u);
    EXPECT_EQ(pair.a.wait().status, Status::kRemoteAccess) << "seed " << seed;
    lost += pair.b.device.counters().packets_dropped;
  }
  EXPECT_GT(lost, 0u) << "no seed lost a NAK: nothing was tested";
}

// Only the connected peer may speak to a queue pair.
TEST(Stranger, IsIgnored) {
  for (const Wire wire : {Wire::kSharedMemory, Wire::kUdp}) {
    EndOptions options = quick(wire);
    options.qp.retry_count = 1;
    options.qp.ack_timeout_seconds = 0.01;
    Pair pair(options);
    EndOptions of_stranger = options;
    if (wire == Wire::kUdp) of_stranger.device.address = "127.0.0.2";
    End stranger(of_stranger);
    QpAddress target = pair.b.address();
    stranger.qp->connect(target);
    Memory from(stranger.pd, 8);
    Memory to(pair.b.pd, 8);
    const Segment segment = from.all();
    ASSERT_EQ(stranger.send(request(1, Opcode::kRdmaWrite, {&segment, 1}, to)).posted, 1u);
    EXPECT_EQ(stranger.wait().status, Status::kRetryExceeded);
    wait_until([&] { return pair.b.device.counters().packets_rejected > 0; }, Deadline::standard(),
               [] { return std::string("the stranger's packet"); });
    EXPECT_TRUE(untouched(to));
    EXPECT_FALSE(pair.b.qp->failed());
  }
}

}  // namespace
}  // namespace rungs::verbs
