#pragma once
/// @file context_args.hpp
/// A symmetric context as its kernels see it: plain structs in device memory, the same for host and
/// kernel.
///
/// Every rank's heap has the same size and the same objects at the same offsets, so a pointer into
/// this rank's heap names an object of every rank. How a peer's copy is reached is decided once:
///
///     reach      put                                  signal
///     kSelf      stores                               a release store
///     kMapped    stores into the peer's memory        a release store, system scope
///     kNetwork   an RDMA write: posted by the kernel  an RDMA write or fetch-add behind it, on the
///                (GPU-initiated) or by the proxy      same queue pair

#include <rungs/config.hpp>
#include <rungs/core/dtype.hpp>
#include <rungs/gpu/fault.hpp>

#include <cstddef>
#include <cstdint>

namespace rungs::symmetric {

inline constexpr int kMaxRanks = 64;

/// How this rank gets at a peer's heap.
enum class Reach : std::int32_t { kSelf = 0, kMapped = 1, kNetwork = 2 };

/// Who posts the work requests to peers that are reached over the network.
enum class Network : std::int32_t {
  kProxy = 0,         ///< naive: a descriptor to host memory, a CPU thread posts it
  kGpuInitiated = 1,  ///< the kernel writes mlx5 WQEs and rings the doorbell (IBGDA)
};

struct NetworkQueue;  // network_args.hpp
struct ProxyQueue;    // network_args.hpp

/// Lies in device memory.
struct DeviceContext {
  int rank;
  int size;
  Network network;
  std::uint64_t heap_bytes;
  std::byte* heap[kMaxRanks];  ///< this rank's and the mapped peers' heaps; null: over the network
  NetworkQueue* queues;        ///< [size]: of peers over the network, GPU-initiated
  ProxyQueue* proxy;           ///< of all peers over the network, proxy
  std::uint64_t* barrier_epoch;  ///< device: barriers this rank has passed
  std::uint64_t* barrier_flags;  ///< [size] in the heap: epochs that each peer has announced
  std::uint32_t* abort;          ///< host-mapped; non-zero ends every wait
  std::uint32_t* claim;          ///< device; the first wait that gives up takes it
  gpu::Fault* fault;             ///< host-mapped; who took the claim writes it
  std::uint64_t timeout_ns;

  /// How `peer` is reached.
  [[nodiscard]] RUNGS_HD Reach reach(int peer) const {
    if (peer == rank) return Reach::kSelf;
    return heap[peer] != nullptr ? Reach::kMapped : Reach::kNetwork;
  }
  /// What this rank's waits share.
  [[nodiscard]] RUNGS_HD gpu::WaitControl wait() const {
    return {abort, claim, fault, timeout_ns, rank};
  }
  /// The offset of an object of this rank's heap: the same on every rank.
  [[nodiscard]] RUNGS_HD std::uint64_t offset(const void* mine) const {
    return static_cast<std::uint64_t>(static_cast<const std::byte*>(mine) - heap[rank]);
  }
  /// The peer's copy of an object of this rank's heap. The peer must be kSelf or kMapped.
  template <class T>
  [[nodiscard]] RUNGS_HD T* at(int peer, T* mine) const {
    return reinterpret_cast<T*>(heap[peer] + offset(mine));
  }
};

/// What a wait was for: `reserved` of a gpu::Fault; `kernel` is the operation's own number, `slot`
/// the offset in the heap of the word that was awaited / 8, or the network queue's work request.
enum class Awaited : std::uint32_t {
  kSignal = 0,      ///< a signal word
  kBarrier = 1,     ///< the peer's arrival
  kQueueSlot = 2,   ///< room in the send queue or in the proxy's ring
  kCompletion = 3,  ///< the end of this rank's own network requests (quiet)
};

}  // namespace rungs::symmetric
