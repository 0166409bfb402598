#pragma once
/// @file handshake.hpp
/// Both ends of a fresh connection prove that they know the group's key, without sending it.
///
///     client                                    server
///     magic, version, purpose, from, to, nonce  ──►
///                                               ◄──  magic, version, nonce
///     HMAC(key, "client" + all of the above)    ──►
///                                               ◄──  HMAC(key, "server" + all of the above)
///
/// What it gives: a connection that passed was opened by somebody who knew the key at that moment;
/// nonces of both ends make a recording of an older one useless, the role in the proof makes a
/// proof useless when it is sent back. What it does not give: nothing that follows is encrypted or
/// signed, so whoever can change packets on the path can change the data; and a short secret can be
/// guessed from a recorded proof. Use it inside a cluster's network, not across the internet.

#include "bootstrap/sha256.hpp"

#include <rungs/config.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace rungs::bootstrap::detail {

using Key = Digest;

/// What the connection is for.
enum class Purpose : std::uint16_t {
  kRendezvous = 1,  ///< a rank to the root
  kControl,         ///< news between neighbours of the ring, both ways
  kData,            ///< frames from the rank that connected
  kFd,              ///< the same over a Unix socket, with descriptors
};
const char* to_string(Purpose purpose) noexcept;

inline constexpr std::uint16_t kProtocolVersion = 1;
inline constexpr int kRoot = -1;  ///< `to` of a connection to the root

/// One end's part, on a non-blocking socket. Reads not one byte more than the handshake has.
class Handshake {
 public:
  static Handshake client(const Key& key, Purpose purpose, int from, int to);
  static Handshake server(const Key& key, int self);

  enum class Progress { kWantRead, kWantWrite, kDone, kFailed };
  /// Goes on as far as the socket allows.
  Progress advance(int fd);
  /// Why it failed, in words that fit "dropped a connection from 10.0.0.7:4711: ...".
  [[nodiscard]] const std::string& failure() const noexcept { return failure_; }
  /// What the handshake is waiting for, for a time-out's text.
  [[nodiscard]] std::string awaited() const;
  /// Server: the other end closed and had said nothing wrong: perhaps a rank that left meanwhile.
  [[nodiscard]] bool vanished() const noexcept { return vanished_; }
  /// Server, once done: who connected and what for.
  [[nodiscard]] int from() const noexcept { return from_; }
  [[nodiscard]] Purpose purpose() const noexcept { return purpose_; }

 private:
  static constexpr std::size_t kHelloBytes = 40;
  static constexpr std::size_t kAnswerBytes = 28;
  enum class Step { kHello, kAnswer, kClientProof, kServerProof, kDone };

  Handshake(const Key& key, bool is_client) : key_(key), is_client_(is_client) {}
  [[nodiscard]] bool sends() const noexcept;
  [[nodiscard]] std::span<std::byte> part();
  void prepare();
  bool check_magic();
  bool check();
  bool check_hello();
  bool check_answer();
  [[nodiscard]] Digest proof(bool of_client) const;

  Key key_;
  bool is_client_;
  int self_ = kRoot;
  int from_ = kRoot;
  int to_ = kRoot;
  Purpose purpose_ = Purpose::kRendezvous;
  Step step_ = Step::kHello;
  std::size_t moved_ = 0;  // bytes of this step's part
  std::array<std::byte, kHelloBytes + kAnswerBytes> transcript_{};
  Digest proof_{};
  bool vanished_ = false;
  std::string failure_;
};

}  // namespace rungs::bootstrap::detail
