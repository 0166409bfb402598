#pragma once
// What the two ways of posting share: a connected queue pair to one peer, and how its failure is
// told.

#include <rungs/verbs/device.hpp>

#include <cstdint>
#include <string>

namespace rungs::symmetric::detail {

/// An 8-byte signal lies in its WQE.
inline constexpr std::uint32_t kSignalBytes = 8;

/// To one peer.
struct Connection {
  int rank = 0;  // this rank
  int peer = 0;
  verbs::CompletionQueue completions;
  verbs::QueuePair pair;
  std::uint64_t remote_heap = 0;
  std::uint32_t remote_key = 0;
};

/// This rank's memory, as its HCA knows it.
struct LocalMemory {
  verbs::MemoryRegion heap;
  verbs::MemoryRegion scratch;  // 8 bytes for what a fetch-add fetches
};

/// A queue pair failed.
struct NetworkFailure {
  int peer = -1;
  std::string text;
};

/// "the queue pair from rank 0 to rank 1 failed: RDMA write 12 ended with ..."
std::string describe_failure(const Connection& connection, verbs::Opcode opcode,
                             std::uint64_t request, verbs::Status status);

}  // namespace rungs::symmetric::detail
