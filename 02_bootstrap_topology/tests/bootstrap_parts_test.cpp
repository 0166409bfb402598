// The pieces under the group: hash, id, addresses, frames, handshake.

#include "bootstrap/frame.hpp"
#include "bootstrap/handshake.hpp"
#include "bootstrap/id_content.hpp"
#include "bootstrap/rendezvous.hpp"
#include "bootstrap/socket.hpp"
#include "bootstrap_support.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <array>

namespace rungs::bootstrap::test {
namespace {

using namespace detail;

std::string hex(const Digest& digest) {
  std::string text;
  for (const std::byte b : digest) {
    std::array<char, 3> two{};
    std::snprintf(two.data(), two.size(), "%02x", std::to_integer<unsigned>(b));
    text += two.data();
  }
  return text;
}

std::span<const std::byte> bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// FIPS 180-4 examples and the well-known million letters.
TEST(BootstrapSha256, KnownAnswers) {
  const auto hash = [](std::string_view text) { return hex(Sha256().update(text).finish()); };
  EXPECT_EQ(hash(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hash("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hash("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hash(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

// Every length around the block size, in one piece and byte by byte.
TEST(BootstrapSha256, PiecesMakeNoDifference) {
  for (std::size_t length = 0; length < 200; ++length) {
    const std::vector<std::byte> message = bytes_of(length, 7);
    Sha256 in_pieces;
    for (const std::byte& b : message) in_pieces.update(std::span(&b, 1));
    EXPECT_EQ(in_pieces.finish(), Sha256().update(message).finish()) << length;
  }
}

// RFC 4231, cases 1, 2 and 6 (a key longer than a block).
TEST(BootstrapHmac, KnownAnswers) {
  const std::vector<std::byte> key1(20, std::byte{0x0b});
  EXPECT_EQ(hex(hmac(key1, bytes("Hi There"))),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(hex(hmac(bytes("Jefe"), bytes("what do ya want for nothing?"))),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  const std::vector<std::byte> key6(131, std::byte{0xaa});
  EXPECT_EQ(hex(hmac(key6, bytes("Test Using Larger Than Block-Size Key - Hash Key First"))),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

UniqueId some_id() {
  IdContent content;
  content.root = *Address::from_text("10.1.2.3", 4711);
  content.ranks = 7;
  content.key = key_of("open sesame");
  return encode(content);
}

TEST(BootstrapUniqueId, GoesThroughHexUnchanged) {
  const UniqueId id = some_id();
  EXPECT_EQ(id.to_hex().size(), 256u);
  EXPECT_EQ(UniqueId::from_hex(id.to_hex()), id);
  const IdContent content = decode(id);
  EXPECT_EQ(content.root.to_string(), "10.1.2.3:4711");
  EXPECT_EQ(content.ranks, 7);
  EXPECT_EQ(content.key, key_of("open sesame"));
  EXPECT_NE(content.key, key_of("open sesam"));
}

TEST(BootstrapUniqueId, SaysWhatIsWrong) {
  std::string text = some_id().to_hex();
  EXPECT_TRUE(has(error_of([&] { (void)UniqueId::from_hex(text.substr(1)); }), "255 characters"));
  std::string digit = text;
  digit[17] = 'x';
  EXPECT_TRUE(has(error_of([&] { (void)UniqueId::from_hex(digit); }), "character 18"));
  std::string damaged = text;
  damaged[100] = damaged[100] == '0' ? '1' : '0';
  EXPECT_TRUE(has(error_of([&] { (void)UniqueId::from_hex(damaged); }), "wrong checksum"));
  std::string version = text;
  version[17] = '9';
  EXPECT_TRUE(has(error_of([&] { (void)UniqueId::from_hex(version); }), "version 9"));
  EXPECT_TRUE(has(error_of([&] { Group group(UniqueId{}, 0, 1); }), "these 128 bytes are none"));
}

TEST(BootstrapAddress, TextAndWire) {
  for (const char* text : {"127.0.0.1", "10.0.0.7", "::1", "2001:db8::5"}) {
    const std::optional<Address> address = Address::from_text(text, 29'500);
    ASSERT_TRUE(address) << text;
    EXPECT_EQ(address->host(), text);
    ByteWriter out;
    address->write(out);
    EXPECT_EQ(out.written().size(), Address::kWireBytes);
    ByteReader in(out.written());
    EXPECT_EQ(Address::read(in).to_string(), address->to_string());
  }
  EXPECT_EQ(Address::from_text("::1", 80)->to_string(), "[::1]:80");
  EXPECT_FALSE(Address::from_text("localhost", 1));
  EXPECT_FALSE(Address::from_text("256.0.0.1", 1));
  EXPECT_TRUE(Address::from_text("127.9.9.9", 1)->is_loopback());
  EXPECT_TRUE(Address::from_text("::", 1)->is_any());
}

TEST(BootstrapAddress, InterfaceByName) {
  EXPECT_TRUE(choose_address("lo").is_loopback());
  const std::string error = error_of([] { (void)choose_address("lO0"); });
  EXPECT_TRUE(has(error, "InvalidArgument")) << error;
  EXPECT_TRUE(has(error, "'lO0'") && has(error, "lo (127.0.0.1)")) << error;
}

TEST(BootstrapRanks, AreWrittenShort) {
  EXPECT_EQ(format_ranks({3}), "rank 3");
  EXPECT_EQ(format_ranks({1, 2}), "ranks 1 and 2");
  EXPECT_EQ(format_ranks({1, 3}), "ranks 1 and 3");
  EXPECT_EQ(format_ranks({0, 3, 4, 5, 6, 9}), "ranks 0, 3-6 and 9");
}

struct Ends {
  Descriptor client;
  Descriptor server;
  Ends() {
    std::array<int, 2> fds{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds.data()) != 0)
      throw std::runtime_error("socketpair");
    client = Descriptor(fds[0]);
    server = Descriptor(fds[1]);
  }
};

using Progress = Handshake::Progress;

// Lets both ends go on until neither waits for the other; an end that failed closes.
std::pair<Progress, Progress> shake(Ends& ends, Handshake& client, Handshake& server) {
  Progress at_client = Progress::kWantRead;
  Progress at_server = Progress::kWantRead;
  for (int turn = 0; turn < 8; ++turn) {
    if (ends.client) at_client = client.advance(ends.client.get());
    if (at_client == Progress::kFailed) ends.client.reset();
    if (ends.server) at_server = server.advance(ends.server.get());
    if (at_server == Progress::kFailed) ends.server.reset();
  }
  return {at_client, at_server};
}

TEST(BootstrapHandshake, EqualKeysMeet) {
  Ends ends;
  Handshake client = Handshake::client(key_of("k"), Purpose::kData, 3, 5);
  Handshake server = Handshake::server(key_of("k"), 5);
  EXPECT_EQ(shake(ends, client, server), std::pair(Progress::kDone, Progress::kDone));
  EXPECT_EQ(server.from(), 3);
  EXPECT_EQ(server.purpose(), Purpose::kData);
}

TEST(BootstrapHandshake, OtherKeysDoNot) {
  Ends ends;
  Handshake client = Handshake::client(key_of("k"), Purpose::kData, 3, 5);
  Handshake server = Handshake::server(key_of("K"), 5);
  EXPECT_EQ(shake(ends, client, server), std::pair(Progress::kFailed, Progress::kFailed));
  EXPECT_TRUE(has(server.failure(), "wrong secret")) << server.failure();
  EXPECT_TRUE(has(client.failure(), "the secrets differ")) << client.failure();
}

TEST(BootstrapHandshake, AnotherRankIsRefused) {
  Ends ends;
  Handshake client = Handshake::client(key_of("k"), Purpose::kData, 3, 4);
  Handshake server = Handshake::server(key_of("k"), 5);
  EXPECT_EQ(shake(ends, client, server).second, Progress::kFailed);
  EXPECT_TRUE(has(server.failure(), "looks for rank 4, this is rank 5")) << server.failure();
}

// The secret never travels, and what does travel cannot be used again.
TEST(BootstrapHandshake, ARecordingIsWorthless) {
  const Key key = key_of("a secret that must not be seen");
  // 1. A conversation between the two, through somebody who writes everything down.
  Ends to_client;
  Ends to_server;
  Handshake client = Handshake::client(key, Purpose::kRendezvous, 0, kRoot);
  Handshake server = Handshake::server(key, kRoot);
  std::vector<std::byte> recorded;
  Progress at_client = Progress::kWantRead;
  Progress at_server = Progress::kWantRead;
  const auto relay = [&](const Descriptor& from, const Descriptor& to, bool record) {
    std::array<std::byte, 256> buffer{};
    const Moved some = read_some(from.get(), buffer);
    const auto passed = std::span(buffer).first(some.bytes);
    if (record) recorded.insert(recorded.end(), passed.begin(), passed.end());
    (void)write_some(to.get(), passed);
  };
  for (int turn = 0; turn < 8; ++turn) {
    at_client = client.advance(to_client.client.get());
    relay(to_client.server, to_server.client, true);
    at_server = server.advance(to_server.server.get());
    relay(to_server.client, to_client.server, false);
  }
  ASSERT_EQ(at_client, Progress::kDone);
  ASSERT_EQ(at_server, Progress::kDone);
  EXPECT_EQ(std::search(recorded.begin(), recorded.end(), key.begin(), key.end()), recorded.end());
  // 2. The client's half sent again: the server has another nonce by now.
  Ends again;
  Handshake second = Handshake::server(key, kRoot);
  (void)write_some(again.client.get(), recorded);
  Progress progress = Progress::kWantRead;
  for (int turn = 0; turn < 4 && progress != Progress::kFailed; ++turn)
    progress = second.advance(again.server.get());
  EXPECT_EQ(progress, Progress::kFailed);
  EXPECT_TRUE(has(second.failure(), "wrong secret")) << second.failure();
}

TEST(BootstrapHandshake, GarbageFailsAtItsFirstBytes) {
  Ends ends;
  Handshake server = Handshake::server(key_of("k"), kRoot);
  (void)write_some(ends.client.get(), bytes("GET / HTTP"));
  EXPECT_EQ(server.advance(ends.server.get()), Progress::kFailed);
  EXPECT_TRUE(has(server.failure(), "474554202f204854")) << server.failure();
}

TEST(BootstrapFrame, ArrivesWholeHoweverItIsCut) {
  Ends ends;
  std::vector<std::byte> stream;
  std::vector<std::vector<std::byte>> payloads;
  for (std::uint32_t i = 0; i < 20; ++i) {
    payloads.push_back(bytes_of(i * i * 97, i));
    FrameHeader header;
    header.sequence = i;
    header.operation = 1000 + i;
    header.payload_bytes = payloads.back().size();
    const auto head = header.encode();
    stream.insert(stream.end(), head.begin(), head.end());
    stream.insert(stream.end(), payloads.back().begin(), payloads.back().end());
  }
  FrameReader reader;
  std::vector<Frame> frames;
  const auto take = [&](Frame&& frame) { frames.push_back(std::move(frame)); };
  std::size_t sent = 0;
  for (std::size_t piece = 1; sent < stream.size(); piece = piece * 7 % 1009 + 1) {
    const std::size_t size = std::min(piece, stream.size() - sent);
    ASSERT_EQ(write_some(ends.client.get(), std::span(stream).subspan(sent, size)).bytes, size);
    sent += size;
    ASSERT_TRUE(reader.read(ends.server.get(), take));
  }
  ASSERT_EQ(frames.size(), payloads.size());
  for (std::size_t i = 0; i < frames.size(); ++i) {
    EXPECT_EQ(frames[i].header.operation, 1000 + i);
    EXPECT_EQ(frames[i].payload, payloads[i]);
  }
  ends.client.reset();
  EXPECT_FALSE(reader.read(ends.server.get(), take));
  EXPECT_EQ(reader.closed_because(), "closed");
}

TEST(BootstrapFrame, DamageIsNoticed) {
  Ends ends;
  FrameHeader header;
  header.sequence = 1;  // the first should be 0
  (void)write_some(ends.client.get(), header.encode());
  FrameReader reader;
  const std::string error = error_of([&] { (void)reader.read(ends.server.get(), [](Frame&&) {}); });
  EXPECT_TRUE(has(error, "damaged")) << error;
}

}  // namespace
}  // namespace rungs::bootstrap::test
