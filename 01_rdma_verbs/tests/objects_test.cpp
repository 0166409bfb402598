// The objects: what they say of themselves, which arguments they refuse, and that nothing is left
// when they die, in whatever order.

#include "fixture.hpp"

#include <filesystem>
#include <limits>
#include <set>

namespace rungs::verbs {
namespace {

template <class Body>
std::string refusal(ErrorCode code, Body body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.message();
    return error.message();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

void expect_mentions(const std::string& text, std::initializer_list<std::string> words) {
  for (const std::string& one : words) {
    EXPECT_NE(text.find(one), std::string::npos) << "'" << one << "' is not in: " << text;
  }
}

std::size_t entries(const char* directory) {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    count += entry.exists() || true;
  }
  return count;
}

TEST(Device, Soft0IsAlwaysThere) {
  const std::vector<DeviceInfo> devices = Device::list();
  ASSERT_FALSE(devices.empty());
  EXPECT_EQ(devices[0].name, "soft0");
  EXPECT_TRUE(devices[0].emulated);
  const Device device = Device::open("soft0");
  EXPECT_EQ(device.info().provider, "soft");
  EXPECT_EQ(device.info().wire, "shared memory");
  EXPECT_EQ(device.info().mtu_bytes, 4096u);
  SoftOptions udp;
  udp.wire = Wire::kUdp;
  EXPECT_EQ(Device::open_soft(udp).info().wire, "RoCE v2 over UDP");
}

TEST(Device, UnknownNameIsAnsweredWithTheNearest) {
  expect_mentions(refusal(ErrorCode::kInvalidArgument, [] { Device::open("sotf0"); }),
                  {"sotf0", "did you mean 'soft0'"});
  expect_mentions(refusal(ErrorCode::kInvalidArgument, [] { Device::open("mlx5_7"); }),
                  {"mlx5_7", "soft0"});
}

TEST(Device, BadOptionsAreNamedWithTheirValue) {
  const auto with = [](auto change) {
    SoftOptions options;
    change(options);
    return refusal(ErrorCode::kInvalidArgument, [&] { Device::open_soft(options); });
  };
  expect_mentions(with([](SoftOptions& o) { o.mtu_bytes = 1500; }), {"MTU", "1500", "1024"});
  expect_mentions(with([](SoftOptions& o) { o.loss = 0.95; }), {"loss", "0.95"});
  expect_mentions(with([](SoftOptions& o) { o.duplicate = -1; }), {"duplicate", "-1"});
  expect_mentions(
      with([](SoftOptions& o) { o.reorder = std::numeric_limits<double>::quiet_NaN(); }),
      {"reorder", "nan"});
  expect_mentions(with([](SoftOptions& o) { o.delay_seconds = 60; }), {"delay", "60"});
}

TEST(Memory, RegionsAndSegmentsCheckTheirRange) {
  Device device = Device::open("soft0");
  ProtectionDomain pd = device.alloc_pd();
  std::array<std::byte, 100> bytes;
  refusal(ErrorCode::kInvalidArgument, [&] { pd.register_memory(nullptr, 8, Access::kAll); });
  refusal(ErrorCode::kInvalidArgument, [&] { pd.register_memory(bytes.data(), 0, Access::kAll); });
  refusal(ErrorCode::kInvalidArgument,
          [&] { pd.register_memory(bytes.data(), 8, static_cast<Access>(64)); });
  const MemoryRegion region = pd.register_memory(bytes.data(), 100, Access::kAll);
  EXPECT_EQ(region.data(), bytes.data());
  EXPECT_EQ(region.size_bytes(), 100u);
  const Segment segment = region.segment(90, 10);
  EXPECT_EQ(segment.address, bytes.data() + 90);
  EXPECT_EQ(segment.size_bytes, 10u);
  EXPECT_EQ(segment.lkey, region.lkey());
  expect_mentions(refusal(ErrorCode::kInvalidArgument, [&] { (void)region.segment(91, 10); }),
                  {"91", "101", "100"});
  refusal(ErrorCode::kInvalidArgument, [&] { (void)region.segment(101, 0); });
}

// A key that was used and freed is not given out again soon.
TEST(Memory, KeysOfDeadRegionsAreNotReusedAtOnce) {
  Device device = Device::open("soft0");
  ProtectionDomain pd = device.alloc_pd();
  std::array<std::byte, 8> bytes;
  std::set<std::uint32_t> keys;
  for (unsigned i = 0; i < 200; ++i) {
    keys.insert(pd.register_memory(bytes.data(), 8, Access::kAll).rkey());
  }
  EXPECT_EQ(keys.size(), 200u);
  EXPECT_EQ(keys.count(mlx5::kInvalidLkey), 0u);
}

TEST(QueuePairs, ArgumentsBeyondTheDeviceAreRefused) {
  Device device = Device::open("soft0");
  ProtectionDomain pd = device.alloc_pd();
  CompletionQueue cq = device.create_cq(10);
  EXPECT_EQ(cq.depth(), 16u) << "rounded up";
  refusal(ErrorCode::kInvalidArgument, [&] { device.create_cq(0); });
  const auto with = [&](auto change) {
    QueuePairOptions options;
    options.send_cq = options.recv_cq = &cq;
    change(options);
    return refusal(ErrorCode::kInvalidArgument, [&] { pd.create_rc(options); });
  };
  using Options = QueuePairOptions;
  expect_mentions(with([](Options& o) { o.recv_cq = nullptr; }), {"recv_cq"});
  expect_mentions(with([](Options& o) { o.send_depth = 0; }), {"send_depth", "0"});
  expect_mentions(with([](Options& o) { o.recv_depth = 10000; }), {"recv_depth", "10000", "8192"});
  expect_mentions(with([](Options& o) { o.max_segments = 31; }), {"max_segments", "31", "30"});
  expect_mentions(with([](Options& o) { o.max_inline_bytes = 829; }), {"max_inline_bytes", "828"});
  expect_mentions(with([](Options& o) { o.retry_count = 8; }), {"retry_count", "8"});
  expect_mentions(with([](Options& o) { o.ack_timeout_seconds = 0; }), {"ack_timeout_seconds"});
  expect_mentions(with([](Options& o) { o.rnr_timer_seconds = 1; }), {"rnr_timer_seconds"});
  expect_mentions(with([](Options& o) {
                    o.send_depth = 8192;
                    o.max_inline_bytes = 828;
                  }),
                  {"WQEBB", "send_depth"});

  Device other = Device::open("soft0");
  CompletionQueue foreign = other.create_cq(16);
  expect_mentions(with([&](Options& o) { o.send_cq = &foreign; }), {"another device"});
}

TEST(QueuePairs, LargestShapesWork) {
  EndOptions options = on(Wire::kSharedMemory, 4096);
  options.qp.max_segments = 30;
  options.qp.max_inline_bytes = 828;
  Pair pair(options);
  Memory to(pair.b.pd, 900);
  std::array<std::byte, 828> bytes;
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7);
  const Segment text{bytes.data(), 828, 0};
  SendRequest write = request(1, Opcode::kRdmaWrite, {&text, 1}, to);
  write.inline_data = true;
  Memory from(pair.a.pd, 900);
  from.fill(1);
  std::vector<Segment> thirty;
  for (std::size_t i = 0; i < 30; ++i) thirty.push_back(from.segment(i * 30, 30));
  std::vector<Segment> thirty_in;
  for (std::size_t i = 0; i < 30; ++i) thirty_in.push_back(to.segment((29 - i) * 30, 30));
  for (unsigned lap = 0; lap < 100; ++lap) {  // over the ring's end
    ASSERT_EQ(pair.a.send(write).posted, 1u);
    pair.a.done();
    ASSERT_TRUE(std::equal(bytes.begin(), bytes.end(), to.bytes().begin()));
    ASSERT_EQ(pair.b.receive(2, thirty_in).posted, 1u);
    ASSERT_EQ(pair.a.send(request(2, Opcode::kSend, thirty)).posted, 1u);
    pair.a.done();
    EXPECT_EQ(pair.b.done().size_bytes, 900u);
    for (std::size_t i = 0; i < 900; ++i) {
      ASSERT_EQ(to.bytes()[(29 - i / 30) * 30 + i % 30], from.bytes()[i]);
    }
  }
}

TEST(Connect, RefusesWhatIsNoPeer) {
  End a(on(Wire::kSharedMemory));
  End b(on(Wire::kSharedMemory));
  End udp(on(Wire::kUdp));
  QpAddress nobody;
  expect_mentions(refusal(ErrorCode::kInvalidArgument, [&] { a.qp->connect(nobody); }),
                  {"no peer's address"});
  expect_mentions(refusal(ErrorCode::kInvalidArgument, [&] { a.qp->connect(udp.address()); }),
                  {"shared memory"});
  expect_mentions(refusal(ErrorCode::kInvalidArgument, [&] { udp.qp->connect(a.address()); }),
                  {"RoCE"});
  QpAddress bad_mtu = b.address();
  bad_mtu.mtu_bytes = 100;
  refusal(ErrorCode::kInvalidArgument, [&] { a.qp->connect(bad_mtu); });
  a.qp->connect(b.address());
  expect_mentions(refusal(ErrorCode::kInvalidArgument, [&] { a.qp->connect(b.address()); }),
                  {"already connected"});
}

TEST(Connect, AddressesAreUniqueAndTheSmallerMtuCounts) {
  std::set<std::uint32_t> numbers;
  End big(on(Wire::kSharedMemory, 4096));
  for (unsigned i = 0; i < 50; ++i) {
    QueuePairOptions options;
    options.send_cq = options.recv_cq = &big.cq;
    numbers.insert(big.pd.create_rc(options).number());
  }
  EXPECT_EQ(numbers.size(), 50u) << "numbers of dead pairs are not used again at once";

  EndOptions large = on(Wire::kSharedMemory, 4096);
  large.qp.ack_timeout_seconds = 10;  // packets are counted: none is sent again
  Pair pair(large, on(Wire::kSharedMemory, 256));
  Memory from(pair.a.pd, 1024);
  Memory to(pair.b.pd, 1024);
  from.fill(1);
  const Segment segment = from.all();
  ASSERT_EQ(pair.a.send(request(1, Opcode::kRdmaWrite, {&segment, 1}, to)).posted, 1u);
  pair.a.done();
  EXPECT_TRUE(to.bytes() == from.bytes());
  EXPECT_EQ(pair.a.device.counters().packets_sent, 4u);
}

TEST(Connect, APairMayTalkToItselfAndToAnotherOfItsDevice) {
  for (const Wire wire : {Wire::kSharedMemory, Wire::kUdp}) {
    End end(on(wire));
    end.qp->connect(end.address());
    Memory from(end.pd, 3000);
    Memory to(end.pd, 3000);
    from.fill(1);
    const Segment segment = from.all();
    ASSERT_EQ(end.send(request(1, Opcode::kRdmaWrite, {&segment, 1}, to)).posted, 1u);
    end.done();
    EXPECT_TRUE(to.bytes() == from.bytes()) << name_of(wire);
  }
}

TEST(Counters, CountWhatHappened) {
  EndOptions options = on(Wire::kSharedMemory);
  options.qp.ack_timeout_seconds = 10;  // none is sent again
  Pair pair(options);
  Memory from(pair.a.pd, 8);
  Memory to(pair.b.pd, 8);
  const Segment segment = from.all();
  SendRequest write = request(1, Opcode::kRdmaWrite, {&segment, 1}, to);
  write.signalled = false;
  std::vector<SendRequest> list(10, write);
  list.back().signalled = true;
  ASSERT_EQ(pair.a.qp->post_send(list).posted, 10u);
  pair.a.done();
  const WireCounters a = pair.a.device.counters();
  EXPECT_EQ(a.doorbells, 1u) << "one for the list";
  EXPECT_EQ(a.wqes, 10u);
  EXPECT_EQ(a.cqes, 1u) << "selective signalling";
  EXPECT_EQ(a.packets_sent, 10u);
  EXPECT_EQ(a.retransmissions, 0u);
  const WireCounters b = pair.b.device.counters();
  EXPECT_EQ(b.packets_received, 10u);
  EXPECT_GE(b.packets_sent, 1u);
  EXPECT_LE(b.packets_sent, 10u) << "one ACK may speak for several packets";
}

// Devices, domains, regions, queues and pairs die in each order; work is under way.
TEST(Lifetime, AnyOrderOfDestructionLeavesNothing) {
  { Pair warm_up; }  // one-time allocations of the process
  const std::size_t descriptors = entries("/proc/self/fd");
  const std::size_t threads = entries("/proc/self/task");
  std::array<int, 5> order{0, 1, 2, 3, 4};
  do {
    const Wire wire = order[0] % 2 == 0 ? Wire::kSharedMemory : Wire::kUdp;
    SoftOptions soft;
    soft.wire = wire;
    std::vector<std::byte> bytes(100000);
    End peer(on(wire));
    std::optional<Device> device(Device::open_soft(soft));
    std::optional<ProtectionDomain> pd(device->alloc_pd());
    std::optional<CompletionQueue> cq(device->create_cq(16));
    std::optional<MemoryRegion> region(
        pd->register_memory(bytes.data(), bytes.size(), Access::kAll));
    QueuePairOptions options;
    options.send_cq = options.recv_cq = &*cq;
    std::optional<QueuePair> qp(pd->create_rc(options));
    qp->connect(peer.address());
    peer.qp->connect(qp->address());
    Memory target(peer.pd, bytes.size());
    const Segment segment = region->segment(0, bytes.size());
    for (unsigned i = 0; i < 8; ++i) {
      ASSERT_EQ(qp->post_send(request(i, Opcode::kRdmaWrite, {&segment, 1}, target)).posted, 1u);
    }
    for (const int which : order) {
      if (which == 0) device.reset();
      if (which == 1) pd.reset();
      if (which == 2) cq.reset();
      if (which == 3) {
        region.reset();
        // AddressSanitizer sees whether the device still reaches for it.
        std::vector<std::byte>().swap(bytes);
      }
      if (which == 4) qp.reset();
    }
  } while (std::next_permutation(order.begin(), order.end()));
  EXPECT_EQ(entries("/proc/self/fd"), descriptors);
  EXPECT_EQ(entries("/proc/self/task"), threads);
}

TEST(Lifetime, CompletionsOfADeadPairArePassedOver) {
  EndOptions options = on(Wire::kSharedMemory);
  Pair pair(options);
  Memory from(pair.a.pd, 8);
  Memory to(pair.b.pd, 8);
  const Segment segment = from.all();
  const SendRequest write = request(1, Opcode::kRdmaWrite, {&segment, 1}, to);
  ASSERT_EQ(pair.a.qp->post_send(std::vector(3, write)).posted, 3u);
  wait_until([&] { return pair.a.device.counters().cqes == 3; }, Deadline::standard(),
             [] { return std::string("three completions"); });
  pair.a.qp.reset();
  EXPECT_EQ(pair.a.poll_count(), 0u);
  // The queue serves other pairs on.
  QueuePairOptions again;
  again.send_cq = again.recv_cq = &pair.a.cq;
  pair.a.qp.emplace(pair.a.pd.create_rc(again));
  End other(options);
  Memory there(other.pd, 8);
  pair.a.qp->connect(other.address());
  other.qp->connect(pair.a.address());
  ASSERT_EQ(pair.a.send(request(7, Opcode::kRdmaWrite, {&segment, 1}, there)).posted, 1u);
  EXPECT_EQ(pair.a.done().id, 7u);
}

TEST(Waiting, ForACompletionEndsWithTheDeadline) {
  Device device = Device::open("soft0");
  CompletionQueue cq = device.create_cq(4);
  expect_mentions(refusal(ErrorCode::kTimeout,
                          [&] { cq.wait_one(Deadline::after(std::chrono::milliseconds(20))); }),
                  {"no completion", "waited"});
}

TEST(Words, EveryCodeHasItsOwn) {
  std::set<std::string> words;
  for (int i = 0; i <= static_cast<int>(Status::kInternal); ++i) {
    words.insert(to_string(static_cast<Status>(i)));
  }
  EXPECT_EQ(words.size(), static_cast<std::size_t>(Status::kInternal) + 1);
  words.clear();
  for (int i = 0; i <= static_cast<int>(Opcode::kCompareSwap); ++i) {
    words.insert(to_string(static_cast<Opcode>(i)));
  }
  EXPECT_EQ(words.size(), static_cast<std::size_t>(Opcode::kCompareSwap) + 1);
  words.clear();
  for (int i = 0; i <= static_cast<int>(PostError::kBadRequest); ++i) {
    words.insert(to_string(static_cast<PostError>(i)));
  }
  EXPECT_EQ(words.size(), static_cast<std::size_t>(PostError::kBadRequest) + 1);
}

}  // namespace
}  // namespace rungs::verbs
