#pragma once
/// @file network_args.hpp
/// The network as kernels see it: the send queue to a peer as the HCA reads it, or the ring to the
/// proxy thread. Plain structs, the same for host and kernel.
///
/// The structs lie in device memory: their counters are shared by all threads of the GPU, and only
/// there is an atomic operation of a GPU atomic and cheap. What they point to lies in host memory,
/// where HCA or proxy read and write it: there kernels only load and store.

#include <rungs/config.hpp>
#include <rungs/verbs/mlx5.hpp>

#include <cstddef>
#include <cstdint>

namespace rungs::symmetric {

/// GPU-initiated: the send queue and the completion queue to one peer.
///
/// Each request takes one WQEBB and asks for a completion, and an RC queue pair completes in order:
/// request n of the queue is WQEBB n, and completion n speaks of it. All counts are 64 bits wide;
/// the HCA sees the lower 16.
///
///     word         writer                                  reader        resets
///     reserved     who posts (atomic add)                  who posts     nobody
///     published    who posts, in the order of reservation  ringer        nobody
///     ringing      who posts (atomic add)                  ringer        ringer
///     completed    who sees a completion (only grows)      who waits     nobody
///     WQEs         who posts                               HCA           nobody
///     records, doorbell   ringer                           HCA           HCA (doorbell)
///     CQEs         HCA                                     who waits     nobody
struct alignas(128) NetworkQueue {
  void* send_ring;                        ///< [ring_wqebbs] of 64 bytes; host
  const verbs::mlx5::Cqe64* completions;  ///< [completion_entries]; host
  std::uint32_t* send_record;             ///< BE: WQEBBs posted so far, 16 bits; host
  std::uint32_t* completion_record;       ///< BE: completions consumed, 24 bits; host
  std::uint64_t* doorbell;                ///< the register; host
  void (*wake)(void*);                    ///< the emulated GPU's bus: see verbs::mlx5::RawQueuePair
  void* wake_context;
  std::uint32_t ring_wqebbs;         ///< a power of two
  std::uint32_t completion_entries;  ///< a power of two, at least twice `room`
  std::uint32_t room;                ///< requests that may be under way, at least 2
  std::uint32_t qp_number;
  std::uint32_t local_key;   ///< of this rank's heap
  std::uint32_t remote_key;  ///< of the peer's heap
  std::uint32_t scratch_key;
  std::uint32_t reserved_word;
  std::uint64_t local_heap;  ///< addresses, as the HCAs name them
  std::uint64_t remote_heap;
  std::uint64_t scratch;            ///< 8 bytes for what a fetch-add fetches
  std::uint64_t max_message_bytes;  ///< longer ones are split

  alignas(128) std::uint64_t reserved;
  alignas(128) std::uint64_t published;
  alignas(128) std::uint32_t ringing;
  alignas(128) std::uint64_t completed;
};

/// What a descriptor asks for; one may carry a put and a signal behind it.
enum ProxyOperation : std::uint32_t {
  kProxyPut = 1,
  kProxySignalSet = 2,
  kProxySignalAdd = 4,
  kProxyGet = 8,
};

/// One slot of the ring to the proxy thread.
struct alignas(64) ProxyDescriptor {
  std::uint64_t remote_offset = 0;  ///< in the peer's heap
  std::uint64_t local_offset = 0;   ///< in this rank's heap
  std::uint64_t bytes = 0;
  std::uint64_t signal_offset = 0;  ///< in the peer's heap
  std::uint64_t value = 0;
  std::uint32_t operations = 0;  ///< ProxyOperation bits
  std::int32_t peer = 0;
  std::uint64_t unused = 0;
  std::uint64_t sequence = 0;  ///< written last: 1 + which descriptor, since the beginning
};
static_assert(sizeof(ProxyDescriptor) == 64);

/// Eight words apart: a cache line for each peer's count.
inline constexpr int kProxyDoneStride = 8;

/// Proxy: the ring of descriptors to all peers, which the proxy thread takes in order.
///
///     word        writer                  reader       resets
///     reserved    who posts (atomic add)  who posts    nobody
///     posted[p]   who posts (atomic add)  who waits    nobody
///     taken_seen  who posts               who posts    nobody: a copy of `taken`, maybe old
///     slots       who posts               proxy        nobody: a new sequence number is enough
///     taken       proxy                   who posts    nobody
///     done[p]     proxy                   who waits    nobody
struct alignas(128) ProxyQueue {
  ProxyDescriptor* slots;      ///< [slot_count]; host
  const std::uint64_t* taken;  ///< descriptors whose slots are free again; host
  const std::uint64_t* done;   ///< [size] x kProxyDoneStride: completed for each peer; host
  std::uint64_t* posted;       ///< [size]: descriptors for each peer; device
  std::uint32_t slot_count;    ///< a power of two
  alignas(128) std::uint64_t reserved;
  alignas(128) std::uint64_t taken_seen;
};

}  // namespace rungs::symmetric
