#pragma once
/// @file peer_memory.hpp
/// A piece of every rank's memory, as addresses that this rank's kernels can use: what links (04)
/// and symmetric heaps (06) lie in.

#include <rungs/bootstrap/group.hpp>
#include <rungs/gpu/buffer.hpp>
#include <rungs/gpu/peer.hpp>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace rungs::collectives {

/// Owns this rank's memory and the way to the others'. In one process it is shared: whoever is
/// destroyed last frees it, so a peer's late write of a counter never meets freed memory. Between
/// processes it is exported and mapped.
class PeerMemory {
 public:
  /// Allocates and zeroes this rank's memory, and waits. Not collective.
  /// @param space kShared, or kHostMapped: then only ranks of this process can map it
  PeerMemory(const gpu::Device& device, std::size_t size_bytes, gpu::StreamHandle stream,
             gpu::Space space = gpu::Space::kShared);
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;

  /// Collective. Maps the memory of the peers that are on this rank's host, if `wanted`; the others
  /// are not reached.
  /// @param ordinals each rank's device in its process
  /// @return empty, or why a peer's memory cannot be reached from here (not thrown, so that all
  ///         ranks can be told)
  /// @throws Error when the ranks could not exchange what they had to: the group is then aborted
  std::string connect(bootstrap::Group& group, const std::vector<int>& ordinals,
                      bool wanted = true);
  /// Rank `rank`'s memory; null if it is not reached.
  [[nodiscard]] std::byte* of(int rank) const { return bases_[static_cast<std::size_t>(rank)]; }
  /// For communication that failed: a peer in another process may still write to this rank's
  /// memory, which therefore stays for the process's life.
  void keep_for_late_writers() noexcept;

 private:
  using Memory = std::shared_ptr<gpu::Buffer<std::byte>>;
  std::string reach(const gpu::Device& peer, int rank) const;

  gpu::Device device_;
  Memory own_;
  std::vector<Memory> peers_in_process_;
  std::vector<gpu::PeerMapping> mappings_;
  std::vector<std::byte*> bases_;
  bool has_other_processes_ = false;
};

}  // namespace rungs::collectives
