// Packets byte for byte. The expected bytes are written out by hand from the header layouts of the
// InfiniBand specification, the CRC is a bit-by-bit one of this file, and two ICRCs were captured
// from hardware.

#include "soft/packet.hpp"
#include "soft/crc32.hpp"
#include "soft/icrc.hpp"

#include <gtest/gtest.h>
#include <rungs/testing/random.hpp>

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace rungs::verbs::soft {
namespace {

using Bytes = std::vector<std::byte>;

Bytes hex(std::string_view text) {
  Bytes bytes;
  int digits = 0;
  unsigned value = 0;
  for (const char c : text) {
    if (c == ' ') continue;
    const auto digit = static_cast<unsigned>(std::string_view("0123456789abcdef").find(c));
    EXPECT_LT(digit, 16u) << c;
    value = value << 4 | digit;
    if (++digits % 2 == 0) bytes.push_back(static_cast<std::byte>(value & 0xff));
  }
  EXPECT_EQ(digits % 2, 0);
  return bytes;
}

std::string to_hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) {
    text += "0123456789abcdef"[static_cast<unsigned>(byte) >> 4];
    text += "0123456789abcdef"[static_cast<unsigned>(byte) & 15];
  }
  return text;
}

// The definition: one bit at a time, the polynomial in its non-reflected form.
std::uint32_t slow_crc32(const Bytes& bytes) {
  std::uint32_t remainder = 0xffffffff;
  for (const std::byte byte : bytes) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      const std::uint32_t in = static_cast<unsigned>(byte) >> bit & 1;
      const bool divide = ((remainder >> 31) ^ in) != 0;
      remainder <<= 1;
      if (divide) remainder ^= 0x04c11db7;
    }
  }
  std::uint32_t reflected = 0;
  for (unsigned bit = 0; bit < 32; ++bit) reflected |= (remainder >> bit & 1) << (31 - bit);
  return ~reflected;
}

// 10.1.2.3:49153 -> 10.1.2.4:4791
const WireAddress kFrom{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 1, 2, 3}, 49153};
const WireAddress kTo{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 1, 2, 4}, 4791};

// The packet with the ICRC it should have between those two.
Bytes sealed(Bytes packet) {
  const std::size_t udp = 8 + packet.size() + 4;
  const auto high_low = [](std::size_t value) {
    return Bytes{static_cast<std::byte>(value >> 8), static_cast<std::byte>(value)};
  };
  Bytes covered = hex("ffffffffffffffff 45ff");
  const auto append = [&](const Bytes& bytes) {
    covered.insert(covered.end(), bytes.begin(), bytes.end());
  };
  append(high_low(20 + udp));
  append(hex("0000 4000 ff11 ffff 0a010203 0a010204 c001 12b7"));
  append(high_low(udp));
  append(hex("ffff"));
  Bytes masked = packet;
  masked.at(4) = std::byte{0xff};
  append(masked);
  const std::uint32_t crc = slow_crc32(covered);
  for (int i = 0; i < 4; ++i) packet.push_back(static_cast<std::byte>(crc >> (8 * i)));
  return packet;
}

Bytes encoded(const Packet& packet) {
  Bytes bytes(kMaxPacketBytes, std::byte{0xee});
  bytes.resize(encode(packet, kFrom, kTo, bytes));
  return bytes;
}

TEST(Crc, KnownValues) {
  EXPECT_EQ(crc32(0, {}), 0u);
  const std::string_view digits = "123456789";
  EXPECT_EQ(crc32(0, std::as_bytes(std::span(digits))), 0xcbf43926u);
}

TEST(Crc, EveryLengthAndStartAgreesWithTheBitwiseOne) {
  testing::Random random(1);
  Bytes bytes(300);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next());
  for (std::size_t start = 0; start < 17; ++start) {
    for (std::size_t size = 0; start + size <= bytes.size(); size += 1 + size / 40) {
      const auto part = std::span(bytes).subspan(start, size);
      const std::uint32_t expected = slow_crc32(Bytes(part.begin(), part.end()));
      EXPECT_EQ(crc32(0, part), expected) << start << "+" << size;
      EXPECT_EQ(crc32_portable(0, part), expected) << start << "+" << size;
      EXPECT_EQ(crc32(crc32(0, part.first(size / 3)), part.subspan(size / 3)), expected);
    }
  }
}

// A UC SEND and a congestion notification (CNP), as captured from ConnectX adapters and published
// with scapy's RoCE layer (test/contrib/roce.uts).
TEST(Icrc, AgreesWithHardware) {
  IpHeader send;
  send.source = send.destination = 0xc0a80007;
  send.source_port = 49152;
  send.destination_port = 4791;
  send.identification = 1144;
  const Bytes send_bytes =
      hex("2460ffff 000000d3 00cf1710 4630818be28935d90e9a95505401be885e500000");
  EXPECT_EQ(icrc(send, send_bytes), 0xf353f378u);

  IpHeader notification;
  notification.source = 0x0a001101;
  notification.destination = 0x0a001201;
  notification.source_port = 0;
  notification.destination_port = 4791;
  notification.identification = 0x718c;
  const Bytes notification_bytes =
      hex("8100ffff 40000118 00000000 00000000000000000000000000000000");
  EXPECT_EQ(icrc(notification, notification_bytes), 0x2a00fd82u);
}

struct Golden {
  const char* name;
  Packet packet;
  const char* bytes;  // without ICRC
};

std::vector<Golden> golden_packets() {
  static const Bytes five = hex("0102030405");
  static const Bytes eight = hex("a0a1a2a3a4a5a6a7");
  std::vector<Golden> all;
  Packet packet;
  packet.destination_qp = 0x123456;
  packet.psn = 0xfedcba;

  Packet write = packet;
  write.opcode = PacketOpcode::kWriteOnly;
  write.ack_request = true;
  write.remote_address = 0x0011223344556677;
  write.rkey = 0x8899aabb;
  write.dma_length = 5;
  write.payload = five;
  all.push_back({"write only, three bytes of pad", write,
                 "0a 70 ffff 00 123456 80 fedcba"
                 "0011223344556677 8899aabb 00000005 0102030405 000000"});
  Packet write_imm = write;
  write_imm.opcode = PacketOpcode::kWriteOnlyImm;
  write_imm.solicited = true;
  write_imm.immediate = 0xdeadbeef;
  write_imm.dma_length = 8;
  write_imm.payload = eight;
  all.push_back({"write only with immediate", write_imm,
                 "0b c0 ffff 00 123456 80 fedcba"
                 "0011223344556677 8899aabb 00000008 deadbeef a0a1a2a3a4a5a6a7"});
  Packet middle = packet;
  middle.opcode = PacketOpcode::kWriteMiddle;
  middle.payload = eight;
  all.push_back({"write middle", middle, "07 40 ffff 00 123456 00 fedcba a0a1a2a3a4a5a6a7"});
  Packet send = packet;
  send.opcode = PacketOpcode::kSendLastImm;
  send.immediate = 7;
  send.payload = std::span(five).first(2);
  all.push_back(
      {"send last with immediate", send, "03 60 ffff 00 123456 00 fedcba 00000007 0102 0000"});
  Packet empty = packet;
  empty.opcode = PacketOpcode::kSendOnly;
  empty.ack_request = true;
  all.push_back({"an empty send", empty, "04 40 ffff 00 123456 80 fedcba"});
  Packet read = write;
  read.opcode = PacketOpcode::kReadRequest;
  read.ack_request = false;
  read.dma_length = 0x01000000;
  read.payload = {};
  all.push_back(
      {"read request", read, "0c 40 ffff 00 123456 00 fedcba 0011223344556677 8899aabb 01000000"});
  Packet answer = packet;
  answer.opcode = PacketOpcode::kReadResponseFirst;
  answer.syndrome = kAckSyndrome;
  answer.msn = 0x00ff01;
  answer.payload = eight;
  all.push_back(
      {"read response first", answer, "0d 40 ffff 00 123456 00 fedcba 1f 00ff01 a0a1a2a3a4a5a6a7"});
  answer.opcode = PacketOpcode::kReadResponseMiddle;
  answer.syndrome = 0;
  answer.msn = 0;
  all.push_back(
      {"read response middle: no AETH", answer, "0e 40 ffff 00 123456 00 fedcba a0a1a2a3a4a5a6a7"});
  Packet nak = packet;
  nak.opcode = PacketOpcode::kAcknowledge;
  nak.syndrome = kNakRemoteAccess;
  nak.msn = 3;
  all.push_back({"negative acknowledge", nak, "11 40 ffff 00 123456 00 fedcba 62 000003"});
  Packet add = write;
  add.opcode = PacketOpcode::kFetchAdd;
  add.dma_length = 0;
  add.payload = {};
  add.swap_or_add = 0x0102030405060708;
  add.compare = 0x1112131415161718;
  all.push_back({"fetch-add", add,
                 "14 40 ffff 00 123456 80 fedcba"
                 "0011223344556677 8899aabb 0102030405060708 1112131415161718"});
  Packet old = packet;
  old.opcode = PacketOpcode::kAtomicAcknowledge;
  old.syndrome = kAckSyndrome;
  old.msn = 9;
  old.original = 0xfffefdfcfbfaf9f8;
  all.push_back(
      {"atomic acknowledge", old, "12 40 ffff 00 123456 00 fedcba 1f 000009 fffefdfcfbfaf9f8"});
  return all;
}

void expect_same(const Packet& got, const Packet& expected) {
  EXPECT_EQ(got.opcode, expected.opcode);
  EXPECT_EQ(got.solicited, expected.solicited);
  EXPECT_EQ(got.ack_request, expected.ack_request);
  EXPECT_EQ(got.destination_qp, expected.destination_qp);
  EXPECT_EQ(got.psn, expected.psn);
  EXPECT_EQ(got.remote_address, expected.remote_address);
  EXPECT_EQ(got.rkey, expected.rkey);
  EXPECT_EQ(got.dma_length, expected.dma_length);
  EXPECT_EQ(got.swap_or_add, expected.swap_or_add);
  EXPECT_EQ(got.compare, expected.compare);
  EXPECT_EQ(got.syndrome, expected.syndrome);
  EXPECT_EQ(got.msn, expected.msn);
  EXPECT_EQ(got.original, expected.original);
  EXPECT_EQ(got.immediate, expected.immediate);
  EXPECT_EQ(to_hex(got.payload), to_hex(expected.payload));
}

TEST(Packet, IsEncodedAsTheSpecificationSays) {
  for (const Golden& golden : golden_packets()) {
    SCOPED_TRACE(golden.name);
    EXPECT_EQ(to_hex(encoded(golden.packet)), to_hex(sealed(hex(golden.bytes))));
  }
}

TEST(Packet, IsDecodedFromThoseBytes) {
  for (const Golden& golden : golden_packets()) {
    SCOPED_TRACE(golden.name);
    const Bytes bytes = sealed(hex(golden.bytes));
    const std::optional<Packet> packet = decode(bytes, kFrom, kTo);
    ASSERT_TRUE(packet.has_value());
    expect_same(*packet, golden.packet);
  }
}

TEST(Packet, EveryPayloadSizeComesBack) {
  testing::Random random(2);
  Bytes payload(4096);
  for (std::byte& byte : payload) byte = static_cast<std::byte>(random.next());
  for (std::size_t size = 0; size <= payload.size(); size += size < 70 ? 1 : 61) {
    Packet packet;
    packet.opcode = PacketOpcode::kWriteOnly;
    packet.psn = static_cast<std::uint32_t>(random.below(1 << 24));
    packet.payload = std::span(payload).first(size);
    const Bytes bytes = encoded(packet);
    const std::optional<Packet> back = decode(bytes, kFrom, kTo);
    ASSERT_TRUE(back.has_value()) << size;
    expect_same(*back, packet);
  }
}

TEST(Packet, EveryTruncationIsRejected) {
  for (const Golden& golden : golden_packets()) {
    const Bytes bytes = encoded(golden.packet);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_FALSE(decode(std::span(bytes).first(size), kFrom, kTo)) << golden.name << ", " << size;
    }
    Bytes longer = bytes;
    for (int extra = 1; extra <= 8; ++extra) {
      longer.push_back(std::byte{0});
      EXPECT_FALSE(decode(longer, kFrom, kTo)) << golden.name << ", " << extra << " bytes more";
    }
  }
}

// All but the byte of FECN, BECN and six reserved bits, which switches may change: the
// specification leaves it out of the ICRC.
TEST(Packet, EveryFlippedBitIsRejected) {
  for (const Golden& golden : golden_packets()) {
    Bytes bytes = encoded(golden.packet);
    for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
      const auto mask = static_cast<std::byte>(1u << bit % 8);
      bytes[bit / 8] ^= mask;
      EXPECT_EQ(decode(bytes, kFrom, kTo).has_value(), bit / 8 == 4) << golden.name << ", " << bit;
      bytes[bit / 8] ^= mask;
    }
  }
}

TEST(Packet, BelongsToItsAddresses) {
  const Bytes bytes = encoded(golden_packets()[0].packet);
  ASSERT_TRUE(decode(bytes, kFrom, kTo));
  EXPECT_FALSE(decode(bytes, kTo, kFrom));
  WireAddress other = kFrom;
  other.udp_port ^= 1;
  EXPECT_FALSE(decode(bytes, other, kTo));
  other = kTo;
  other.gid[15] ^= 1;
  EXPECT_FALSE(decode(bytes, kFrom, other));
}

// With a right ICRC: what a broken or hostile sender would write.
TEST(Packet, NonsenseWithARightIcrcIsRejected) {
  const auto rejected = [](const char* bytes) {
    return !decode(sealed(hex(bytes)), kFrom, kTo).has_value();
  };
  ASSERT_FALSE(rejected("04 40 ffff 00 123456 80 fedcba"));
  EXPECT_TRUE(rejected("15 40 ffff 00 123456 80 fedcba")) << "no opcode of RC";
  EXPECT_TRUE(rejected("24 40 ffff 00 123456 80 fedcba")) << "UC";
  EXPECT_TRUE(rejected("ff 40 ffff 00 123456 80 fedcba"));
  EXPECT_TRUE(rejected("04 41 ffff 00 123456 80 fedcba")) << "version 1";
  EXPECT_TRUE(rejected("04 40 7fff 00 123456 80 fedcba")) << "another partition";
  EXPECT_TRUE(rejected("04 70 ffff 00 123456 80 fedcba")) << "more pad than payload";
  EXPECT_TRUE(rejected("04 40 ffff 00 123456 80 fedcba 0102")) << "not a multiple of four";
  EXPECT_TRUE(rejected("0a 40 ffff 00 123456 80 fedcba 00112233")) << "half a RETH";
  EXPECT_TRUE(rejected("11 40 ffff 00 123456 80 fedcba 1f000001 01020304")) << "ACK with payload";
  EXPECT_TRUE(rejected("14 40 ffff 00 123456 80 fedcba 0011223344556677 8899aabb"));
  Bytes long_payload = hex("04 40 ffff 00 123456 80 fedcba");
  long_payload.resize(12 + 4100);
  EXPECT_FALSE(decode(sealed(long_payload), kFrom, kTo)) << "more than the largest MTU";
  long_payload.resize(12 + 4096);
  EXPECT_TRUE(decode(sealed(long_payload), kFrom, kTo));
}

TEST(Packet, RandomBytesAreRejected) {
  testing::Random random(3);
  for (int i = 0; i < 20000; ++i) {
    Bytes bytes(random.below(120));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next());
    EXPECT_FALSE(decode(bytes, kFrom, kTo));
  }
}

}  // namespace
}  // namespace rungs::verbs::soft
