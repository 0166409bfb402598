#include "bootstrap/handshake.hpp"

#include "bootstrap/bytes.hpp"
#include "bootstrap/socket.hpp"

#include <rungs/core/error.hpp>
#include <rungs/core/random_bytes.hpp>

#include <algorithm>
#include <iomanip>
#include <sstream>

namespace rungs::bootstrap::detail {
namespace {

constexpr std::uint64_t kHelloMagic = 0x31'54'53'42'47'4e'55'52;   // "RUNGBST1"
constexpr std::uint64_t kAnswerMagic = 0x31'41'53'42'47'4e'55'52;  // "RUNGBSA1"
constexpr std::size_t kNonceBytes = 16;

using Nonce = std::array<std::byte, kNonceBytes>;

Nonce fresh_nonce() {
  Nonce nonce{};
  fill_random(nonce);
  return nonce;
}

std::string hex_of(std::span<const std::byte> bytes) {
  std::ostringstream out;
  for (const std::byte b : bytes)
    out << std::hex << std::setw(2) << std::setfill('0') << unsigned(b);
  return out.str();
}

}  // namespace

const char* to_string(Purpose purpose) noexcept {
  switch (purpose) {
    case Purpose::kRendezvous:
      return "rendezvous";
    case Purpose::kControl:
      return "control";
    case Purpose::kData:
      return "data";
    case Purpose::kFd:
      return "descriptors";
  }
  return "unknown";
}

Handshake Handshake::client(const Key& key, Purpose purpose, int from, int to) {
  Handshake result(key, true);
  result.purpose_ = purpose;
  result.from_ = from;
  result.to_ = to;
  result.prepare();
  return result;
}

Handshake Handshake::server(const Key& key, int self) {
  Handshake result(key, false);
  result.self_ = self;
  return result;
}

bool Handshake::sends() const noexcept {
  return is_client_ == (step_ == Step::kHello || step_ == Step::kClientProof);
}

std::span<std::byte> Handshake::part() {
  if (step_ == Step::kHello) return std::span(transcript_).first(kHelloBytes);
  if (step_ == Step::kAnswer) return std::span(transcript_).subspan(kHelloBytes);
  return proof_;
}

// Fills in what this end sends in the present step.
void Handshake::prepare() {
  ByteWriter out;
  if (step_ == Step::kHello) {
    out.number(kHelloMagic).number(kProtocolVersion).number(std::uint16_t(purpose_));
    out.number(std::int32_t(from_)).number(std::int32_t(to_)).number(std::uint32_t{0});
    out.bytes(fresh_nonce());
  } else if (step_ == Step::kAnswer) {
    out.number(kAnswerMagic).number(kProtocolVersion).number(std::uint16_t{0}).bytes(fresh_nonce());
  } else {
    out.bytes(proof(step_ == Step::kClientProof));
  }
  RUNGS_ASSERT(out.written().size() == part().size(), "handshake part of ", out.written().size());
  std::copy(out.written().begin(), out.written().end(), part().begin());
}

Digest Handshake::proof(bool of_client) const {
  ByteWriter message;
  message.text(of_client ? "client" : "server").bytes(transcript_);
  return hmac(key_, message.written());
}

// Looked at as soon as it is there: who speaks something else may never send a whole greeting.
bool Handshake::check_magic() {
  if (step_ != Step::kHello && step_ != Step::kAnswer) return true;
  if (moved_ < sizeof(kHelloMagic)) return true;
  const std::uint64_t expected = step_ == Step::kHello ? kHelloMagic : kAnswerMagic;
  if (ByteReader(part()).number<std::uint64_t>() == expected) return true;
  failure_ = concat(is_client_ ? "what listens there" : "it",
                    " does not speak this protocol (its first bytes are ",
                    hex_of(part().first(sizeof(expected))), ")");
  return false;
}

bool Handshake::check_hello() {
  ByteReader in(part().subspan(sizeof(kHelloMagic)));
  const auto version = in.number<std::uint16_t>();
  purpose_ = Purpose{in.number<std::uint16_t>()};
  from_ = in.number<std::int32_t>();
  to_ = in.number<std::int32_t>();
  if (version != kProtocolVersion) {
    // It is answered all the same, with our version in the answer, so that it can say so too.
    failure_ = concat("it speaks version ", version, " of the protocol, this end version ",
                      kProtocolVersion);
    return true;
  }
  if (to_ != self_) {
    const auto name = [](int rank) {
      return rank == kRoot ? std::string("a root") : concat("rank ", rank);
    };
    failure_ = concat("it looks for ", name(to_), ", this is ", name(self_));
    return false;
  }
  return true;
}

bool Handshake::check_answer() {
  ByteReader in(part().subspan(sizeof(kAnswerMagic)));
  const auto version = in.number<std::uint16_t>();
  if (version != kProtocolVersion) {
    failure_ = concat("it speaks version ", version, " of the protocol, this end version ",
                      kProtocolVersion, ": all ranks must run the same release");
    return false;
  }
  return true;
}

// Judges what this end received in the present step.
bool Handshake::check() {
  if (step_ == Step::kHello) return check_hello();
  if (step_ == Step::kAnswer) return check_answer();
  if (!equal_in_constant_time(proof_, proof(step_ == Step::kClientProof))) {
    failure_ = is_client_ ? "it does not know the secret (its proof is wrong)"
                          : "wrong secret (the proof does not match)";
    return false;
  }
  return true;
}

Handshake::Progress Handshake::advance(int fd) {
  while (step_ != Step::kDone) {
    const bool writing = sends();
    const std::span<std::byte> left = part().subspan(moved_);
    const Moved some = writing ? write_some(fd, left) : read_some(fd, left);
    if (some.closed) {
      vanished_ = !is_client_ && moved_ == 0;
      failure_ = concat("it closed the connection while this end ", writing ? "sent" : "waited for",
                        " ", awaited());
      if (is_client_ && step_ == Step::kServerProof) failure_ += ": the secrets differ";
      return Progress::kFailed;
    }
    moved_ += some.bytes;
    if (!writing && !check_magic()) return Progress::kFailed;
    if (moved_ < part().size()) {
      if (some.bytes > 0) continue;
      return writing ? Progress::kWantWrite : Progress::kWantRead;
    }
    if (!writing && !check()) return Progress::kFailed;
    // The other version's client has its answer: nothing more to say.
    if (writing && step_ == Step::kAnswer && !failure_.empty()) return Progress::kFailed;
    step_ = Step(int(step_) + 1);
    moved_ = 0;
    if (step_ != Step::kDone && sends()) prepare();
  }
  return Progress::kDone;
}

std::string Handshake::awaited() const {
  switch (step_) {
    case Step::kHello:
      return concat("its greeting (", moved_, " of ", kHelloBytes, " bytes)");
    case Step::kAnswer:
      return "the answer to its greeting";
    case Step::kClientProof:
      return "the proof of the secret";
    case Step::kServerProof:
      return "the other end's proof of the secret";
    case Step::kDone:
      break;
  }
  return "nothing";
}

}  // namespace rungs::bootstrap::detail
