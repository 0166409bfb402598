// The rdma-core provider: what it says where there is no RDMA device, and where there is one, a
// round trip through it.

#include "provider.hpp"
#include "timers.hpp"

#include <gtest/gtest.h>
#include <rungs/core/error.hpp>
#include <rungs/testing/random.hpp>
#include <rungs/verbs/device.hpp>

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace rungs::verbs {
namespace {

TEST(Ibverbs, AMissingDeviceIsNamedWithTheWayOut) {
  try {
    ibverbs::open("mlx5_77");
    FAIL() << "there is no such device";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kVerbs);
    EXPECT_NE(error.message().find("mlx5_77"), std::string::npos) << error.message();
    EXPECT_NE(error.message().find("soft0"), std::string::npos) << error.message();
  }
}

TEST(Ibverbs, DevicesAreListedBehindTheSoftwareOne) {
  const std::vector<DeviceInfo> all = Device::list();
  const std::vector<DeviceInfo> hardware = ibverbs::list();
  ASSERT_EQ(all.size(), hardware.size() + 1);
  EXPECT_EQ(all[0].name, "soft0");
  for (std::size_t i = 0; i < hardware.size(); ++i) {
    EXPECT_EQ(all[i + 1].name, hardware[i].name);
    EXPECT_EQ(hardware[i].provider, "ibverbs");
  }
}

// Two queue pairs of the first device write, send, read and add through its own loopback.
TEST(Ibverbs, ARoundTrip) {
  const std::vector<DeviceInfo> devices = ibverbs::list();
  if (devices.empty()) {
    GTEST_SKIP() << "rdma-core finds no RDMA device (/sys/class/infiniband), or this build has no "
                    "libibverbs";
  }
  Device device(ibverbs::open(devices[0].name));
  ProtectionDomain pd = device.alloc_pd();
  CompletionQueue cq = device.create_cq(64);
  QueuePairOptions options;
  options.send_cq = options.recv_cq = &cq;
  QueuePair a = pd.create_rc(options);
  QueuePair b = pd.create_rc(options);
  constexpr std::uint32_t kBytes = 10000;
  std::vector<std::uint64_t> memory(3 * kBytes / 8);
  MemoryRegion region = pd.register_memory(memory.data(), 3 * kBytes, Access::kAll);
  testing::Random random(1);
  for (std::size_t i = 0; i < kBytes / 8; ++i) memory[i] = random.next();
  const auto* const bytes = reinterpret_cast<const std::byte*>(memory.data());

  const Segment inbox = region.segment(2 * kBytes, kBytes);
  ASSERT_EQ(b.post_recv(RecvRequest{7, {&inbox, 1}}).posted, 1u);
  a.connect(b.address());
  b.connect(a.address());
  EXPECT_EQ(a.send_slots_free(), options.send_depth);

  const Segment source = region.segment(0, kBytes);
  SendRequest request;
  request.id = 1;
  request.opcode = Opcode::kRdmaWrite;
  request.segments = {&source, 1};
  request.remote_address = region.remote_address() + kBytes;
  request.rkey = region.rkey();
  request.signalled = false;
  ASSERT_EQ(a.post_send(request).posted, 1u);
  request.id = 2;
  request.opcode = Opcode::kSendWithImm;
  request.immediate = 0x12345678;
  request.signalled = true;
  ASSERT_EQ(a.post_send(request).posted, 1u);
  EXPECT_EQ(a.send_slots_free(), options.send_depth - 2);
  bool sent = false;
  bool received = false;
  while (!sent || !received) {
    const Completion completion = cq.wait_one();
    ASSERT_EQ(completion.status, Status::kSuccess) << to_string(completion.status);
    EXPECT_EQ(completion.id, completion.receive ? 7u : 2u);
    if (completion.receive) {
      EXPECT_EQ(completion.immediate, 0x12345678u);
      EXPECT_EQ(completion.size_bytes, kBytes);
    }
    (completion.receive ? received : sent) = true;
  }
  EXPECT_EQ(a.send_slots_free(), options.send_depth) << "one completion covers both";
  EXPECT_EQ(std::memcmp(bytes, bytes + kBytes, kBytes), 0);
  EXPECT_EQ(std::memcmp(bytes, bytes + 2 * kBytes, kBytes), 0);

  const std::uint64_t before = memory[0];
  const Segment old = region.segment(8, 8);
  request = {};
  request.opcode = Opcode::kFetchAdd;
  request.segments = {&old, 1};
  request.remote_address = region.remote_address();
  request.rkey = region.rkey();
  request.add_or_swap = 5;
  ASSERT_EQ(a.post_send(request).posted, 1u);
  EXPECT_EQ(cq.wait_one().status, Status::kSuccess);
  EXPECT_EQ(memory[0], before + 5);
  EXPECT_EQ(memory[1], before);

  request.rkey ^= 0x5a;
  ASSERT_EQ(a.post_send(request).posted, 1u);
  EXPECT_EQ(cq.wait_one().status, Status::kRemoteAccess);
  EXPECT_TRUE(a.failed());
}

TEST(Timers, RnrCodesAreThoseOfTheSpecification) {
  // Volume 1, table 45, in units of 10 µs.
  constexpr std::array<int, 32> kTable{65536, 1,    2,    3,     4,     6,     8,     12,
                                       16,    24,   32,   48,    64,    96,    128,   192,
                                       256,   384,  512,  768,   1024,  1536,  2048,  3072,
                                       4096,  6144, 8192, 12288, 16384, 24576, 32768, 49152};
  for (std::uint8_t code = 0; code < 32; ++code) {
    EXPECT_NEAR(rnr_seconds(code), kTable[code] * 1e-5, 1e-12) << int{code};
    EXPECT_EQ(rnr_timer_code(kTable[code] * 1e-5 * 0.999), code);
  }
  EXPECT_EQ(rnr_timer_code(0), 1);
  EXPECT_EQ(rnr_timer_code(100), 0) << "longer than any: the longest";
}

TEST(Timers, AckTimeoutsArePowersOfTwo) {
  EXPECT_EQ(ack_timeout_code(0), 1);
  EXPECT_EQ(ack_timeout_code(8.192e-6), 1);
  EXPECT_EQ(ack_timeout_code(8.193e-6), 2);
  EXPECT_EQ(ack_timeout_code(0.067), 14);  // 67.1 ms, perftest's default
  EXPECT_EQ(ack_timeout_code(1e9), 31);
}

}  // namespace
}  // namespace rungs::verbs
