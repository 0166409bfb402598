#pragma once
/// @file member.hpp
/// A rank in its group: who the others are, and frames to and from them. The algorithms (ring,
/// star, barrier, messages) are written in terms of it.

#include "bootstrap/rendezvous.hpp"
#include "bootstrap/service.hpp"

#include <rungs/bootstrap/group.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace rungs::bootstrap::detail {

/// What every rank knows of every other: gathered in the first exchange round the ring.
struct Record {
  Address address;                        ///< where it listens
  Digest host{};                          ///< hash of its host id
  std::array<std::byte, 16> process{};    ///< random, one a process
  std::array<std::byte, 16> unix_name{};  ///< of its Unix socket
  static constexpr std::size_t kWireBytes = Address::kWireBytes + 32 + 16 + 16;
  void write(ByteWriter& out) const;
  static Record read(ByteReader& in);
};

/// One call: what its frames must say, how long it may take, and what errors call it.
struct Call {
  FrameType type;
  std::uint64_t operation;
  std::uint64_t block_bytes;
  Deadline deadline;
  [[nodiscard]] bool is_collective() const noexcept {
    return type != FrameType::kMessage && type != FrameType::kFd;
  }
};
/// "all_gather 7", "message with tag 3".
std::string to_string(const Call& call);

class Member {
 public:
  Member(Joined joined, int rank, int size, const std::string& host_id);
  /// Says goodbye.
  ~Member();
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  /// Connects to the neighbours and learns who everybody is.
  void meet(const Deadline& deadline);

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }
  [[nodiscard]] int next() const noexcept { return (rank_ + 1) % size_; }
  [[nodiscard]] int previous() const noexcept { return (rank_ + size_ - 1) % size_; }
  [[nodiscard]] const Record& record(int rank) const {
    return records_[static_cast<std::size_t>(rank)];
  }
  Mailbox& mailbox() noexcept { return service_->mailbox(); }
  Service& service() noexcept { return *service_; }
  /// Throws unless 0 <= rank < size.
  void require_rank(int rank, const char* what) const;

  /// Begins the next collective call. @throws Error if the group is broken
  Call begin(FrameType type, std::size_t block_bytes, const Deadline& deadline);
  void end(const Call& call) noexcept { completed_ = call.operation; }

  /// Sends a frame of the call. Returns when the kernel has it all.
  void send(int to, const Call& call, std::uint32_t step, std::span<const std::byte> payload);
  /// The call's frame of that step from that rank.
  /// @param awaited what it is for, in the error text: "the block of rank 3"
  /// @throws Error kInvalidArgument if the rank made another call; kTimeout, kPeerLost
  std::vector<std::byte> receive(int from, const Call& call, std::uint32_t step,
                                 const std::string& awaited);
  /// The connection on which this rank sends to `to`; made at the first use.
  Connection& connection_to(int to, Purpose purpose, const Call& call);
  void deliver_to_self(Frame&& frame) { mailbox().deliver(rank_, std::move(frame)); }
  /// Writes header and payload; `fd` goes with them unless negative.
  void write_frame(int to, Connection& connection, const Call& call, std::uint32_t step,
                   std::span<const std::byte> payload, int fd);
  /// Throws what news() says, as seen from this call.
  [[noreturn]] void throw_lost(const std::string& doing);
  [[noreturn]] void throw_left(int who, const std::string& doing);

 private:
  Descriptor open_connection(int to, Purpose purpose, const Call& call);
  [[noreturn]] void throw_unreachable(int to, const std::string& doing, const std::string& reason);
  [[noreturn]] void throw_timeout(const Call& call, const std::string& doing);
  [[noreturn]] void throw_mismatch(int from, const FrameHeader& seen, const Call& call,
                                   std::uint32_t step);
  [[noreturn]] void break_group(ErrorCode code, int lost_rank, const std::string& text);
  std::string who_is_missing(const Call& call, int& missing);

  int rank_;
  int size_;
  Key key_;
  std::vector<Record> records_;
  std::unique_ptr<Service> service_;
  std::map<std::pair<int, Purpose>, SharedConnection> connections_;
  std::uint64_t completed_ = 0;
  std::uint64_t queries_ = 0;
  bool met_ = false;
};

// The algorithms.
void ring_all_gather(Member& member, const Call& call, std::span<const std::byte> mine,
                     std::span<std::byte> all);
void both_ways_all_gather(Member& member, const Call& call, std::span<const std::byte> mine,
                          std::span<std::byte> all);
void star_all_gather(Member& member, const Call& call, std::span<const std::byte> mine,
                     std::span<std::byte> all);
void dissemination_barrier(Member& member, const Call& call);
void send_message(Member& member, int to, std::uint64_t tag, std::span<const std::byte> message,
                  const Deadline& deadline);
std::vector<std::byte> receive_message(Member& member, int from, std::uint64_t tag,
                                       const Deadline& deadline);
void send_descriptor(Member& member, int to, std::uint64_t tag, int fd, const Deadline& deadline);
int receive_descriptor(Member& member, int from, std::uint64_t tag, const Deadline& deadline);

/// Hash of the host id of this rank: given, else RUNGS_HOST_ID, else boot id with the IPC and
/// network namespaces.
Digest host_digest(const std::string& given);
/// Random bytes that all ranks of this process share and no other process has.
std::array<std::byte, 16> process_token();

}  // namespace rungs::bootstrap::detail
