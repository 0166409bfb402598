// What only the UDP wire has: addresses, ports, and headers that the ICRC covers and the kernel
// writes.

#include "soft/crc32.hpp"
#include "wire_fixture.hpp"

#include <gtest/gtest.h>
#include <rungs/core/error.hpp>

#include <arpa/inet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netpacket/packet.h>
#include <sys/socket.h>
#include <unistd.h>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace rungs::verbs::soft {
namespace {

TEST(UdpWire, NamesThePortThatIsInUse) {
  SoftOptions options;
  options.wire = Wire::kUdp;
  const auto first = open_udp_wire(options);
  options.udp_port = first->local().udp_port;
  try {
    const auto second = open_udp_wire(options);
    FAIL() << "two wires at one port";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kSystem);
    EXPECT_NE(error.message().find(std::to_string(options.udp_port)), std::string::npos);
    EXPECT_NE(error.message().find("in use"), std::string::npos);
  }
}

TEST(UdpWire, RefusesAddressesThatPeersCouldNotUse) {
  SoftOptions options;
  options.wire = Wire::kUdp;
  for (const auto& [address, code] :
       std::vector<std::pair<const char*, ErrorCode>>{{"localhost", ErrorCode::kInvalidArgument},
                                                      {"::1", ErrorCode::kInvalidArgument},
                                                      {"0.0.0.0", ErrorCode::kInvalidArgument},
                                                      {"192.0.2.77", ErrorCode::kSystem}}) {
    options.address = address;
    try {
      const auto wire = open_udp_wire(options);
      ADD_FAILURE() << address;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << address;
      EXPECT_NE(error.message().find(address), std::string::npos) << error.message();
    }
  }
}

TEST(UdpWire, ItsGidIsTheMappedAddress) {
  const auto wire = open_wire(Wire::kUdp);
  EXPECT_EQ(wire->local().gid, (Gid{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1}));
  EXPECT_NE(wire->local().udp_port, 0);
}

// A packet as it passes the loopback interface, headers and all: the ICRC over what the kernel
// really wrote there must be the one that the packet carries.
TEST(UdpWire, ItsIcrcIsRightOnTheNetwork) {
  const int capture = ::socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, htons(ETH_P_IP));
  if (capture < 0 && (errno == EPERM || errno == EACCES)) {
    GTEST_SKIP() << "capturing needs CAP_NET_RAW";
  }
  ASSERT_GE(capture, 0) << std::strerror(errno);
  sockaddr_ll loopback{};
  loopback.sll_family = AF_PACKET;
  loopback.sll_protocol = htons(ETH_P_IP);
  loopback.sll_ifindex = static_cast<int>(::if_nametoindex("lo"));
  ASSERT_EQ(::bind(capture, reinterpret_cast<const sockaddr*>(&loopback), sizeof(loopback)), 0);
  const timeval limit{20, 0};
  ::setsockopt(capture, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));

  const auto from = open_wire(Wire::kUdp);
  const auto to = open_wire(Wire::kUdp);
  Packet packet;
  packet.opcode = PacketOpcode::kSendOnly;
  packet.destination_qp = 0x345678;
  packet.psn = 42;
  const std::array<std::byte, 6> payload{std::byte{1}, std::byte{2}, std::byte{3}};
  packet.payload = payload;
  Bytes bytes(kMaxPacketBytes);
  bytes.resize(encode(packet, from->local(), to->local(), bytes));
  send_all(*from, to->local(), bytes);

  constexpr std::size_t kIp = 20;
  constexpr std::size_t kHeaders = kIp + 8;
  Bytes frame;
  do {  // other programs' packets pass, too
    frame.assign(kMaxPacketBytes, std::byte{0});
    const ssize_t size = ::recv(capture, frame.data(), frame.size(), 0);
    ASSERT_GT(size, 0) << "the packet never passed";
    frame.resize(static_cast<std::size_t>(size));
  } while (frame.size() != kHeaders + bytes.size() ||
           std::memcmp(frame.data() + kHeaders, bytes.data(), bytes.size()) != 0);
  ::close(capture);

  // Annex A17.3.3: ones instead of what switches change, and 8 bytes of ones in front.
  Bytes covered(8, std::byte{0xff});
  covered.insert(covered.end(), frame.begin(), frame.end() - 4);
  for (const std::size_t masked : {std::size_t{1}, std::size_t{8}, std::size_t{10}, std::size_t{11},
                                   kIp + 6, kIp + 7, kHeaders + 4}) {
    covered[8 + masked] = std::byte{0xff};
  }
  const std::uint32_t expected = crc32(0, covered);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(frame[frame.size() - 4 + i], static_cast<std::byte>(expected >> (8 * i))) << i;
  }
}

}  // namespace
}  // namespace rungs::verbs::soft
