#pragma once
/// @file types.hpp
/// Work requests, completions and their codes: what the verbs objects of device.hpp speak in.

#include <rungs/config.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace rungs::verbs {

/// What a memory region may be used for. Local reading is always allowed.
enum class Access : unsigned {
  kLocalRead = 0,
  kLocalWrite = 1,
  kRemoteWrite = 2,
  kRemoteRead = 4,
  kRemoteAtomic = 8,
  kAll = 15,
};
constexpr Access operator|(Access a, Access b) {
  return static_cast<Access>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
constexpr bool allows(Access granted, Access wanted) {
  return (static_cast<unsigned>(granted) & static_cast<unsigned>(wanted)) ==
         static_cast<unsigned>(wanted);
}

/// What a send-queue request does.
enum class Opcode : std::uint8_t {
  kSend,              ///< into the next receive request of the peer
  kSendWithImm,       ///< and 32 bits of immediate data in its completion
  kRdmaWrite,         ///< into the peer's memory; the peer's CPU sees nothing
  kRdmaWriteWithImm,  ///< and completes the peer's next receive request with the immediate
  kRdmaRead,          ///< from the peer's memory
  kFetchAdd,          ///< 8 bytes, atomic at the peer; the old value comes back
  kCompareSwap,       ///< as kFetchAdd
};

/// A piece of registered local memory (a scatter/gather element).
struct Segment {
  void* address = nullptr;
  std::uint32_t size_bytes = 0;
  std::uint32_t lkey = 0;
};

/// One entry for a send queue.
struct SendRequest {
  std::uint64_t id = 0;  ///< comes back in the completion
  Opcode opcode = Opcode::kSend;
  std::span<const Segment>
      segments;  ///< gathered (send, write) or scattered (read, atomics: one of 8 bytes)
  std::uint64_t remote_address = 0;  ///< one-sided only; atomics: 8-byte aligned
  std::uint32_t rkey = 0;
  std::uint32_t immediate = 0;  ///< in host byte order
  std::uint64_t add_or_swap = 0;
  std::uint64_t compare = 0;
  bool signalled = true;  ///< write a completion. Failures always write one
  bool inline_data =
      false;  ///< copy the payload into the WQE: the memory is free when post_send() returns
  bool fence = false;  ///< start only after earlier reads and atomics of this queue are done
};

/// One entry for a receive queue.
struct RecvRequest {
  std::uint64_t id = 0;
  std::span<const Segment> segments;
};

/// How a work request ended: the IB specification's completion statuses.
enum class Status : std::uint8_t {
  kSuccess,
  kLocalLength,       ///< the message does not fit the receive request, or is too long for the path
  kLocalQpOperation,  ///< the request makes no sense on this queue pair
  kLocalProtection,   ///< lkey, range or access of a local segment is wrong
  kFlushed,           ///< the queue pair failed earlier; this request was never started
  kRemoteInvalidRequest,  ///< the responder did not understand, or its receive buffer was too small
  kRemoteAccess,          ///< rkey, range or access at the peer is wrong
  kRemoteOperation,       ///< the peer could not finish it
  kRetryExceeded,         ///< no answer from the peer after all retries: peer dead or path broken
  kRnrRetryExceeded,      ///< the peer never posted a receive request in time
  kInternal,
};
/// "remote access error", ... in the words of the IB specification.
const char* to_string(Status status) noexcept;
const char* to_string(Opcode opcode) noexcept;
/// What a raw queue's codes (mlx5.hpp) mean: a CQE's syndrome, a WQE's opcode.
Status status_of_syndrome(std::uint8_t syndrome) noexcept;
Opcode opcode_of_wqe(std::uint8_t wqe_opcode) noexcept;

/// What a completion queue holds.
struct Completion {
  std::uint64_t id = 0;
  Status status = Status::kSuccess;
  /// Send side: the request's opcode. Receive side: kSend, kSendWithImm or kRdmaWriteWithImm.
  Opcode opcode = Opcode::kSend;
  bool receive = false;
  std::uint32_t size_bytes = 0;  ///< received, read or fetched
  std::uint32_t immediate = 0;   ///< in host byte order
  std::uint32_t qp_number = 0;
  std::uint8_t vendor_syndrome = 0;
};

/// Why post_send() or post_recv() stopped. One errno has several causes; here each has its name.
enum class PostError : std::uint8_t {
  kNone,
  kQueueFull,  ///< every slot is taken. Slots are freed only by polling completions: unsignalled
               ///< requests by that of a later signalled one
  kTooManySegments,  ///< more than the queue's max_segments
  kInlineTooLong,    ///< more than the queue's max_inline_bytes
  kWrongState,       ///< the queue pair is not connected, or failed
  kBadRequest,       ///< an atomic without one segment of 8 bytes, inline with a read, ...
};
const char* to_string(PostError error) noexcept;

/// How many of the requests were queued; `error` speaks of the one after them.
struct PostResult {
  std::size_t posted = 0;
  PostError error = PostError::kNone;
};

/// 16 bytes that name a port: RoCE v2 writes an IPv4 address as ::ffff:a.b.c.d.
using Gid = std::array<std::uint8_t, 16>;

/// What the peer must know of a queue pair before connect(): exchange it out of band. Trivially
/// copyable, no padding.
struct QpAddress {
  Gid gid{};
  std::uint32_t qp_number = 0;
  std::uint32_t first_psn = 0;  ///< 24 bits, random
  std::uint16_t udp_port = 0;   ///< soft, UDP wire: where this device listens (4791 on hardware)
  std::uint16_t mtu_bytes = 0;  ///< largest payload of one packet: the smaller of both ends is used
  std::uint32_t lid = 0;        ///< InfiniBand only
};
static_assert(sizeof(QpAddress) == 32);

/// What a device can do.
struct DeviceInfo {
  std::string name;      ///< "soft0", "mlx5_0", "rxe0"
  std::string provider;  ///< "soft" or "ibverbs"
  std::string wire;      ///< "shared memory", "RoCE v2 over UDP", "InfiniBand", "RoCE v2"
  bool emulated = false;
  std::uint32_t max_queue_depth = 0;
  std::uint32_t max_segments = 0;
  std::uint32_t max_inline_bytes = 0;
  std::uint32_t mtu_bytes = 0;
};

}  // namespace rungs::verbs
