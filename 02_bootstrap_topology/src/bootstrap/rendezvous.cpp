#include "bootstrap/rendezvous.hpp"

#include "bootstrap/member.hpp"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace rungs::bootstrap::detail {
namespace {

using namespace std::chrono_literals;

enum class Kind : std::uint16_t { kRegistration = 1, kWelcome, kRefusal };

std::vector<std::byte> framed(const ByteWriter& body) {
  ByteWriter out;
  out.number(static_cast<std::uint32_t>(body.written().size())).bytes(body.written());
  return out.take();
}

// How long the root's answer may take after this rank's own deadline: the root was told the
// deadline and names who is missing.
constexpr auto kGrace = 2s;

struct Root {
  Descriptor fd;
  Address address;
};

// Connects and shakes hands with one of the root's addresses. On failure says why and, if another
// try makes no sense, throws.
std::optional<Root> try_root(const JoinRequest& request, const Address& address, std::string& why) {
  const std::string name = concat("rank ", request.rank, ": the root at ", address.to_string());
  Descriptor fd = start_connect(address);
  // An address of several may be a black hole: the others want their turn as well.
  const Deadline connect_by = Deadline::after(
      std::min<std::chrono::duration<double>>(request.deadline.remaining(), 5s) / timeout_scale());
  if (wait_for(fd.get(), POLLOUT, connect_by) != Wait::kReady) {
    why = concat(name, " does not answer (waited ", connect_by.waited().count(), " s)");
    return std::nullopt;
  }
  if (const int error = connect_result(fd.get())) {
    why = concat(name, " cannot be reached: ", error_text(error));
    return std::nullopt;
  }
  Handshake handshake = Handshake::client(request.key, Purpose::kRendezvous, request.rank, kRoot);
  while (true) {
    const Handshake::Progress progress = handshake.advance(fd.get());
    if (progress == Handshake::Progress::kDone) return Root{std::move(fd), address};
    if (progress == Handshake::Progress::kFailed)
      RUNGS_THROW(kSystem, name, " turned this rank away: ", handshake.failure());
    const short events = progress == Handshake::Progress::kWantRead ? POLLIN : POLLOUT;
    if (wait_for(fd.get(), events, request.deadline) != Wait::kReady) {
      RUNGS_THROW(kTimeout, name, ": waited ", request.deadline.waited().count(), " s for ",
                  handshake.awaited());
    }
  }
}

Root reach_root(const JoinRequest& request) {
  std::string why = "no address to try";
  while (true) {
    for (const Address& address : request.roots) {
      std::optional<Root> root = try_root(request, address, why);
      if (root) return std::move(*root);
    }
    if (request.root_is_up || request.deadline.passed()) {
      RUNGS_THROW(kSystem, why, " (tried for ", request.deadline.waited().count(), " s). ",
                  request.root_is_up ? "Has its rendezvous ended, or does a firewall lie between?"
                                     : "Was rank 0 started, and is this its address and port?");
    }
    std::this_thread::sleep_for(50ms);
  }
}

}  // namespace

std::vector<std::byte> encode(const Registration& registration) {
  ByteWriter out;
  out.number(std::uint16_t(Kind::kRegistration)).number(std::int32_t(registration.rank));
  out.number(std::int32_t(registration.size)).number(registration.patience_ms);
  registration.address.write(out);
  return framed(out);
}

std::vector<std::byte> encode(const Welcome& welcome) {
  ByteWriter out;
  out.number(std::uint16_t(Kind::kWelcome)).bytes(welcome.session);
  welcome.successor.write(out);
  return framed(out);
}

std::vector<std::byte> encode(const Refusal& refusal) {
  ByteWriter out;
  out.number(std::uint16_t(Kind::kRefusal)).number(std::int32_t(refusal.code)).text(refusal.text);
  return framed(out);
}

std::optional<Registration> decode_registration(std::span<const std::byte> body) {
  ByteReader in(body);
  if (Kind{in.number<std::uint16_t>()} != Kind::kRegistration) return std::nullopt;
  Registration result;
  result.rank = in.number<std::int32_t>();
  result.size = in.number<std::int32_t>();
  result.patience_ms = in.number<std::uint32_t>();
  result.address = Address::read(in);
  if (!in.ok() || result.address.family() == AF_UNSPEC) return std::nullopt;
  return result;
}

Welcome decode_answer(std::span<const std::byte> body, const std::string& prefix) {
  ByteReader in(body);
  const Kind kind{in.number<std::uint16_t>()};
  if (kind == Kind::kRefusal) {
    const auto code = ErrorCode(in.number<std::int32_t>());
    throw Error(code, concat(prefix, in.text()), __FILE__, __LINE__);
  }
  Welcome welcome;
  in.bytes(welcome.session);
  welcome.successor = Address::read(in);
  RUNGS_ASSERT(kind == Kind::kWelcome && in.ok(), "answer of the root of ", body.size(), " bytes");
  return welcome;
}

MessageReader::State MessageReader::read(int fd) {
  while (true) {
    const std::size_t have = bytes_.size();
    std::size_t want = sizeof(std::uint32_t);
    if (have >= want) want += ByteReader(bytes_).number<std::uint32_t>();
    if (want > kMostBytes) return State::kTooLong;
    if (have == want) return State::kComplete;
    bytes_.resize(want);
    const Moved some = read_some(fd, std::span(bytes_).subspan(have));
    bytes_.resize(have + some.bytes);
    if (some.closed) return State::kClosed;
    if (some.bytes == 0) return State::kMore;
  }
}

std::span<const std::byte> MessageReader::body() const {
  return std::span(bytes_).subspan(sizeof(std::uint32_t));
}

Joined join(const JoinRequest& request) {
  // 1. The root.
  const Root root = reach_root(request);
  const std::string me = concat("rank ", request.rank, " of ", request.size);
  // 2. A listening socket for the other ranks, at the address that led here.
  Joined joined;
  const Address at = request.listen_at.value_or(Address::of_socket(root.fd.get()));
  joined.listener = listen_on(at.with_port(0), me);
  joined.address = Address::of_socket(joined.listener.get());
  // 3. Say so.
  Registration registration{request.rank, request.size, joined.address, 0};
  registration.patience_ms =
      static_cast<std::uint32_t>(poll_milliseconds(request.deadline, 1'000'000'000));
  const std::vector<std::byte> message = encode(registration);
  std::size_t sent = 0;
  while (sent < message.size()) {
    const Moved some = write_some(root.fd.get(), std::span(message).subspan(sent));
    if (some.closed) break;  // reading says why
    sent += some.bytes;
    if (some.bytes == 0) (void)wait_for(root.fd.get(), POLLOUT, request.deadline);
    if (request.deadline.passed()) break;
  }
  // 4. The answer comes when all are there.
  const Deadline answer_by =
      Deadline::after(request.deadline.remaining() / timeout_scale() + kGrace);
  MessageReader reader;
  while (true) {
    const MessageReader::State state = reader.read(root.fd.get());
    if (state == MessageReader::State::kComplete) break;
    if (state != MessageReader::State::kMore) {
      RUNGS_THROW(kPeerLost, me, ": the root at ", root.address.to_string(),
                  " ended while this rank waited for the others (",
                  request.deadline.waited().count(), " s): did rank 0 die?");
    }
    const int news = request.above == nullptr ? -1 : request.above->mailbox().lost_fd();
    const Wait wait = wait_for(root.fd.get(), POLLIN, answer_by, news);
    if (wait == Wait::kInterrupted) request.above->throw_lost(concat(me, " of a subgroup"));
    if (wait == Wait::kTimeout) {
      RUNGS_THROW(kTimeout, me, ": the root at ", root.address.to_string(),
                  " did not answer within ", request.deadline.waited().count(),
                  " s: ranks are missing, and it does not say which");
    }
  }
  const Welcome welcome = decode_answer(reader.body(), concat(me, ": "));
  joined.key = group_key(request.key, welcome.session);
  joined.successor = welcome.successor;
  return joined;
}

Key group_key(const Key& key, std::span<const std::byte> session) {
  ByteWriter message;
  message.text("group").bytes(session);
  return hmac(key, message.written());
}

std::string format_ranks(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    if (i > 0) text += end == ranks.size() ? " and " : ", ";
    text += std::to_string(ranks[i]);
    if (end - i == 2) text += concat(end == ranks.size() && i == 0 ? " and " : ", ", ranks[i + 1]);
    if (end - i > 2) text += concat("-", ranks[end - 1]);
    i = end;
  }
  return text;
}

}  // namespace rungs::bootstrap::detail
