#pragma once
/// @file rendezvous.hpp
/// A rank's side of the rendezvous, and what it and the root say to each other.
///
///     rank                                            root
///     handshake (handshake.hpp)            ◄──►
///     Registration: rank, size, address     ──►       waits for all
///                                           ◄──       Welcome: session, successor's address
///                                                or   Refusal: code and text: who is missing

#include "bootstrap/handshake.hpp"
#include "bootstrap/socket.hpp"

#include <rungs/core/deadline.hpp>
#include <rungs/core/error.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rungs::bootstrap::detail {

class Member;

struct Registration {
  int rank = 0;
  int size = 0;
  Address address;                ///< where this rank listens
  std::uint32_t patience_ms = 0;  ///< how much longer it will wait
};
struct Welcome {
  std::array<std::byte, 16> session{};
  Address successor;
};
struct Refusal {
  ErrorCode code = ErrorCode::kSystem;
  std::string text;
};

// One length-prefixed message each way.
std::vector<std::byte> encode(const Registration& registration);
std::vector<std::byte> encode(const Welcome& welcome);
std::vector<std::byte> encode(const Refusal& refusal);
std::optional<Registration> decode_registration(std::span<const std::byte> body);
/// A Welcome, or throws the Refusal's error with `prefix` before its text.
Welcome decode_answer(std::span<const std::byte> body, const std::string& prefix);

/// Collects one length-prefixed message from a non-blocking socket.
class MessageReader {
 public:
  enum class State { kMore, kComplete, kClosed, kTooLong };
  State read(int fd);
  [[nodiscard]] std::span<const std::byte> body() const;

 private:
  static constexpr std::size_t kMostBytes = 64 << 10;
  std::vector<std::byte> bytes_;
};

/// How a rank joins.
struct JoinRequest {
  std::vector<Address> roots;  ///< tried in turn
  bool root_is_up = true;  ///< false: it may start later, so a refused connection is tried again
  Key key{};
  int rank = 0;
  int size = 1;
  Deadline deadline = Deadline::standard();
  /// Where this rank listens; empty: the address from which it reaches the root.
  std::optional<Address> listen_at;
  /// The group that this one is part of: its news ends the wait for the others.
  Member* above = nullptr;
};
/// What a rank has when all are there.
struct Joined {
  Descriptor listener;
  Address address;    ///< of the listener
  Key key{};          ///< of this group: from the secret and the root's session
  Address successor;  ///< of the next rank's listener
};
Joined join(const JoinRequest& request);

/// The key that ranks of one group use among themselves.
Key group_key(const Key& key, std::span<const std::byte> session);
/// "ranks 1, 3-7 and 12", "rank 1".
std::string format_ranks(const std::vector<int>& ranks);

}  // namespace rungs::bootstrap::detail
