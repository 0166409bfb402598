#pragma once
/// @file ladder.hpp
/// The stage's two operations, rung by rung: many RDMA writes, and many sends, from one queue pair
/// to its peer.

#include <rungs/ladder/rung.hpp>
#include <rungs/verbs/device.hpp>

#include <array>
#include <cstdint>
#include <memory>

namespace rungs::verbs {

/// Requests that the rungs above the naive one post with one doorbell, and that one completion of
/// the last rung covers.
inline constexpr std::uint32_t kListLength = 32;

/// `messages` RDMA writes: message i is bytes [i·message_bytes, (i+1)·message_bytes) of `source`
/// and of the peer's memory.
struct WriteArgs {
  QueuePair* queue_pair = nullptr;     ///< connected, nothing under way
  CompletionQueue* send_cq = nullptr;  ///< its send_cq; holds send_depth, polled by nobody else
  std::uint32_t send_depth = 0;        ///< as the pair was made
  const MemoryRegion* source = nullptr;
  std::uint64_t remote_address = 0;  ///< of message 0 at the peer
  std::uint32_t rkey = 0;
  std::uint32_t messages = 0;       ///< at least 1
  std::uint32_t message_bytes = 0;  ///< at least 1
};

/// `messages` sends, each into a receive request of its own. Both ends belong to one thread here,
/// so that the receiver's half of the work is part of what is timed.
struct SendArgs {
  QueuePair* sender = nullptr;         ///< connected to `receiver`, nothing under way on either
  CompletionQueue* send_cq = nullptr;  ///< of the sender; holds send_depth, polled by nobody else
  std::uint32_t send_depth = 0;
  QueuePair* receiver = nullptr;
  CompletionQueue* recv_cq = nullptr;  ///< of the receiver; holds recv_depth, polled by nobody else
  std::uint32_t recv_depth = 0;
  const MemoryRegion* source = nullptr;
  const MemoryRegion* destination = nullptr;  ///< message i arrives at i·message_bytes
  std::uint32_t messages = 0;                 ///< at least 1
  std::uint32_t message_bytes = 0;            ///< at least 1
};

namespace detail {
ladder::Support supports_writes(const WriteArgs&, const ladder::Machine&);
ladder::Support supports_write_lists(const WriteArgs&, const ladder::Machine&);
ladder::Support supports_sends(const SendArgs&, const ladder::Machine&);
ladder::Support supports_send_lists(const SendArgs&, const ladder::Machine&);
std::unique_ptr<ladder::Prepared> prepare_write_signalled(const WriteArgs&, const ladder::Machine&);
std::unique_ptr<ladder::Prepared> prepare_write_lists(const WriteArgs&, const ladder::Machine&);
std::unique_ptr<ladder::Prepared> prepare_write_selective(const WriteArgs&, const ladder::Machine&);
std::unique_ptr<ladder::Prepared> prepare_send_signalled(const SendArgs&, const ladder::Machine&);
std::unique_ptr<ladder::Prepared> prepare_send_lists(const SendArgs&, const ladder::Machine&);
std::unique_ptr<ladder::Prepared> prepare_send_selective(const SendArgs&, const ladder::Machine&);
}  // namespace detail

/// The ladders, naive first. Running a Prepared throws kVerbs when a request fails and kTimeout
/// when no completion comes; the queue pairs are of no use then.
inline constexpr std::array<ladder::Rung<WriteArgs>, 3> kWriteLadder{{
    {"signalled", "post one write, wait for its completion, post the next",
     &detail::supports_writes, &detail::prepare_write_signalled},
    {"posted_list", "32 writes a doorbell, as many under way as the send queue holds",
     &detail::supports_write_lists, &detail::prepare_write_lists},
    {"selective_signalling", "one completion for 32 writes", &detail::supports_write_lists,
     &detail::prepare_write_selective},
}};
inline constexpr std::array<ladder::Rung<SendArgs>, 3> kSendLadder{{
    {"signalled", "post one receive and one send, wait for both", &detail::supports_sends,
     &detail::prepare_send_signalled},
    {"posted_list", "32 requests a doorbell, two windows: receive requests there, send slots here",
     &detail::supports_send_lists, &detail::prepare_send_lists},
    {"selective_signalling", "one send completion for 32 messages", &detail::supports_send_lists,
     &detail::prepare_send_selective},
}};

}  // namespace rungs::verbs
