#pragma once
/// @file kernel_args.hpp
/// What a collective kernel is given: plain structs in device memory, the same for host and kernel.
///
/// Between two ranks and on one channel lies a link for each direction. Its buffer lies in the
/// RECEIVER's memory: kSlots slots for each protocol. Both sides count steps of the link from its
/// creation on, over all launches and protocols: step s uses slot s % kSlots.
///
///     field   lies at    written by  read by    meaning
///     tail    receiver   sender      receiver   steps the sender has filled (Simple only)
///     head    sender     receiver    sender     steps the receiver has drained: credit
///     step    own side   own side    own side   where this side goes on in the next launch
///
/// Nobody ever resets one: values only grow, and a reader asks for "at least". Buffers begin as
/// zeros.

#include <rungs/config.hpp>
#include <rungs/core/dtype.hpp>
#include <rungs/gpu/fault.hpp>

#include <cstddef>
#include <cstdint>

namespace rungs::collectives {

inline constexpr int kSlots = 8;
inline constexpr int kMaxRanks = 64;
inline constexpr int kMaxChannels = 32;
inline constexpr int kMaxProtocols = 4;

/// Indices into buffers and slot_bytes.
enum class ProtocolId : int { kSimple = 0, kLl = 1, kLl128 = 2, kSymmetric = 3 };
const char* to_string(ProtocolId protocol) noexcept;

enum class Collective : int { kAllReduce, kAllGather, kReduceScatter, kBroadcast, kAllToAll };
const char* to_string(Collective collective) noexcept;

/// Numbered like ncclRedOp_t.
enum class Op : int { kSum = 0, kProd = 1, kMax = 2, kMin = 3, kAvg = 4 };
const char* to_string(Op op) noexcept;

/// One side of one direction of one link.
struct LinkSide {
  std::byte* buffer[kMaxProtocols];  ///< kSlots × slot_bytes[protocol], in the receiver's memory
  std::uint64_t* tail;
  std::uint64_t* head;
  std::uint64_t* step;
};

/// A communicator as its kernels see it; lies in device memory.
struct DeviceCommunicator {
  int rank;
  int size;
  int channels;
  const LinkSide* send;  ///< [channels][size]: to each peer
  const LinkSide* recv;  ///< [channels][size]: from each peer
  const int* ring;     ///< [channels][size]: ring[c][i] is the rank at place i of channel c's ring
  const int* place;    ///< [channels]: where this rank stands in it
  std::byte* scratch;  ///< [channels][slot_bytes[kSimple]]: partial results of the root
  std::uint32_t slot_bytes[kMaxProtocols];
  std::uint32_t* abort;  ///< host-mapped; non-zero (an AbortCause) ends every wait
  std::uint32_t*
      claim;          ///< device; the first wait that gives up takes it: host memory has no atomics
                      ///< that a GPU and a CPU share over PCIe
  gpu::Fault* fault;  ///< host-mapped; who took the claim writes it
  std::uint64_t timeout_ns;
};

/// Parameters of one launch. The grid has one block a channel that takes part.
struct KernelArgs {
  const DeviceCommunicator* communicator;
  const void* send;
  void* recv;
  std::uint64_t count;      ///< elements: all_reduce, broadcast in all; others of one rank's part
  std::uint64_t operation;  ///< counts this communicator's collectives: fault records speak of it
  int root;
  int channels;     ///< that take part: blocks of the grid
  Collective what;  ///< for fault records
};

using Kernel = void (*)(KernelArgs);

using gpu::AbortCause;

/// What a wait was for.
enum class Awaited : std::uint32_t {
  kData = 0,    ///< the peer's sending of a step
  kCredit = 1,  ///< the peer's draining of an older step, which frees its slot
};

// Fields of a gpu::Fault as collectives use them: kernel is the operation's number (its lower 32
// bits), slot the channel; `expected` and `seen` count steps of the link. `reserved` holds the two
// of these:
RUNGS_HD std::uint32_t pack_wait(Collective what, Awaited awaited) {
  return static_cast<std::uint32_t>(what) << 1 | static_cast<std::uint32_t>(awaited);
}
RUNGS_HD Collective waiting_collective(const gpu::Fault& fault) {
  return static_cast<Collective>(fault.reserved >> 1);
}
RUNGS_HD Awaited awaited(const gpu::Fault& fault) {
  return static_cast<Awaited>(fault.reserved & 1u);
}

}  // namespace rungs::collectives
